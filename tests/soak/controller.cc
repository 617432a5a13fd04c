#include "tests/soak/controller.h"

#include <malloc.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/process.h"
#include "base/spare_blocks.h"
#include "client/config.h"
#include "informer/shared_informer.h"
#include "storage/maintenance.h"

namespace larder::soak {
namespace {

using namespace std::chrono_literals;

std::atomic<bool> asked_to_stop{false};

// Every call of it, through one function.
class AnyCall final : public EventHandler {
 public:
  explicit AnyCall(std::function<void()> call) : call_(std::move(call)) {}
  void OnAdd(const ObjectPtr&, bool) override { call_(); }
  void OnUpdate(const ObjectPtr&, const ObjectPtr&) override { call_(); }
  void OnDelete(const ObjectPtr&, bool) override { call_(); }

 private:
  const std::function<void()> call_;
};

class Controller {
 public:
  explicit Controller(const ControllerOptions& options) : options_(options) {}

  void HangAfterFirstList() {
    if (hanging_->HasSynced()) hang_ = true;
  }

  Result<void> Start() {
    StoreOptions store;
    store.path = options_.store;
    store.memory_limit = size_t{32} << 20;
    store.max_log_bytes = size_t{16} << 20;
    LARDER_ASSIGN_OR_RETURN(store_, Store::Open(store));
    hot_.emplace(HotTierOptions{.max_bytes = DivideMemory(store.memory_limit).hot_tier});
    LARDER_ASSIGN_OR_RETURN(transport_, MakeTransport(ForUrl(options_.url)));
    LARDER_ASSIGN_OR_RETURN(const std::string cluster, FetchClusterUid(*transport_, {}));
    const InformerContext context{store_.get(), &*hot_, transport_.get(), cluster};

    WorkQueueOptions work;
    work.name = "work";
    work.store = store_.get();
    LARDER_ASSIGN_OR_RETURN(queue_, WorkQueue::Open(std::move(work)));

    InformerOptions pods;
    pods.resource = *LookupResource("pods");
    pods.indexes = {*IndexDefinition::ByField("node", "spec.nodeName")};
    pods.handler_grace = 200ms;
    LARDER_ASSIGN_OR_RETURN(pods_, SharedInformer::Open(context, std::move(pods)));
    LARDER_RETURN_IF_ERROR(AddHandlers());
    InformerOptions metadata;
    metadata.resource = *LookupResource("pods");
    metadata.ns = options_.ns;
    metadata.metadata_only = true;
    LARDER_ASSIGN_OR_RETURN(metadata_, SharedInformer::Open(context, std::move(metadata)));
    LARDER_RETURN_IF_ERROR(metadata_->AddEventHandler(std::make_shared<AnyCall>([] {})));
    pods_->Start();
    metadata_->Start();
    for (int i = 0; i < 2; ++i) {
      workers_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
    }
    return {};
  }

  ControllerStatus Status() const {
    const ListenerStats hanging = hanging_->Stats();
    const InformerStatus pods = pods_->Status();
    ControllerStatus status;
    status.rows = hanging.rows;
    status.delivered = prompt_->Stats().delivered;
    status.reconciled = reconciled_;
    status.relists = pods.reflector.relists + metadata_->Status().reflector.relists;
    status.cached_bytes = hot_->GetStats().bytes + SpareBlockBytes();
    if (const auto store = GetStats(*store_, {.count_objects = false})) {
      status.cached_bytes += store->memory.block_cache + store->memory.memtables;
    }
    const struct mallinfo2 heap = ::mallinfo2();
    status.heap_bytes = heap.uordblks + heap.hblkhd;
    if (!pods.cursor.resource_version.empty()) {
      status.version = std::stoull(pods.cursor.resource_version);
    }
    return status;
  }

  bool IsSettled() const {
    for (const auto& handler : {prompt_, slow_, hanging_}) {
      const ListenerStats stats = handler->Stats();
      if (!handler->HasSynced() || stats.rows + stats.buffered > 0 || stats.spilling) return false;
    }
    return pods_->HasSynced() && Status().version >= options_.settle_at &&
           queue_->Counters().items == 0;
  }

  void Stop() {
    workers_.clear();
    pods_->Stop();
    metadata_->Stop();
    pods_.reset();
    metadata_.reset();
    queue_.reset();
    store_.reset();
  }

 private:
  Result<void> AddHandlers() {
    HandlerOptions durable;
    durable.durable_name = "prompt";
    LARDER_ASSIGN_OR_RETURN(prompt_,
                            pods_->AddEventHandler(std::make_shared<AnyCall>([] {}), durable));
    const bool settle = options_.settle_at > 0;
    const auto slow = std::make_shared<AnyCall>([settle] {
      if (!settle) std::this_thread::sleep_for(20ms);
    });
    LARDER_ASSIGN_OR_RETURN(slow_, pods_->AddEventHandler(slow));
    durable.durable_name = kHangingHandler;
    hang_ = options_.hang_at_once;
    const auto hang = std::make_shared<AnyCall>([this, settle] {
      while (!settle && hang_) std::this_thread::sleep_for(1h);
    });
    LARDER_ASSIGN_OR_RETURN(hanging_, pods_->AddEventHandler(hang, durable));
    return pods_->AddEnqueuer(queue_.get(), {.name = "work"},
                              [](const ObjectChange& change, const Enqueue& enqueue) {
                                enqueue(change.current()->key().ToString(), 0);
                              });
  }

  void Work(const std::stop_token& stop) {
    while (const auto item = queue_->Get(stop)) {
      const auto pod = pods_->GetIndexer().GetByKey(*ObjectKey::Parse(*item));
      if (!pod && pod.error().code != ErrorCode::kNotFound) {
        (void)queue_->AddRateLimited(*item, pod.error().message);
      } else {
        ++reconciled_;
        queue_->Forget(*item);
      }
      queue_->Done(*item);
    }
  }

  const ControllerOptions options_;
  std::unique_ptr<Store> store_;
  std::optional<HotTier> hot_;
  std::unique_ptr<HttpTransport> transport_;
  std::unique_ptr<WorkQueue> queue_;
  std::unique_ptr<SharedInformer> pods_;
  std::unique_ptr<SharedInformer> metadata_;
  SharedInformer::Registration prompt_, slow_, hanging_;
  std::atomic<bool> hang_{false};
  std::atomic<uint64_t> reconciled_{0};
  std::vector<std::jthread> workers_;
};

void WriteStatus(const std::string& path, const ControllerStatus& status) {
  const std::string part = path + ".part";
  std::ofstream(part) << status.rows << ' ' << status.delivered << ' ' << status.reconciled << ' '
                      << status.relists << ' ' << status.version << ' ' << status.cached_bytes
                      << ' ' << status.heap_bytes << '\n';
  std::error_code ignored;
  std::filesystem::rename(part, path, ignored);
}

}  // namespace

ControllerStatus ReadStatus(const std::string& path) {
  ControllerStatus status;
  std::ifstream(path) >> status.rows >> status.delivered >> status.reconciled >> status.relists >>
      status.version >> status.cached_bytes >> status.heap_bytes;
  return status;
}

int RunController(const ControllerOptions& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  PrepareProcess();
  ::signal(SIGTERM, [](int) { asked_to_stop = true; });
  spdlog::set_default_logger(spdlog::basic_logger_mt("controller", options.log));
  UseLogFormat();
  spdlog::flush_on(spdlog::level::info);
  Controller controller(options);
  if (const Result<void> started = controller.Start(); !started) {
    std::fprintf(stderr, "soak: %s\n", started.error().ToString().c_str());
    std::_Exit(3);
  }
  while (!asked_to_stop && !(options.settle_at > 0 && controller.IsSettled())) {
    std::this_thread::sleep_for(200ms);
    controller.HangAfterFirstList();
    WriteStatus(options.status_file, controller.Status());
  }
  WriteStatus(options.status_file, controller.Status());
  controller.Stop();
  std::_Exit(0);  // the handler that hangs has a thread still
}

}  // namespace larder::soak
