#include "tools/demo/worker.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/process.h"
#include "client/config.h"
#include "client/transport.h"
#include "indexer/hot_tier.h"
#include "informer/shared_informer.h"
#include "queue/work_queue.h"
#include "storage/store.h"
#include "tools/command.h"
#include "tools/demo/journal.h"

namespace larder::tools {
namespace {

// The most memory this process ever had resident.
double PeakMegabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

void Say(const Json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

class Worker {
 public:
  Worker(const WorkerOptions& options, Journal journal)
      : options_(options), journal_(std::move(journal)) {}

  Result<void> Run(const std::stop_token& stop) {
    // The store opens while the server answers.
    auto opening =
        std::async(std::launch::async, [this] { return Store::Open({.path = options_.store}); });
    LARDER_ASSIGN_OR_RETURN(transport_, MakeTransport(ForUrl(options_.server)));
    LARDER_ASSIGN_OR_RETURN(const std::string cluster, FetchClusterUid(*transport_, stop));
    LARDER_ASSIGN_OR_RETURN(store_, opening.get());
    WorkQueueOptions queue;
    queue.name = kDemoQueue;
    queue.store = store_.get();
    LARDER_ASSIGN_OR_RETURN(queue_, WorkQueue::Open(std::move(queue)));
    LARDER_ASSIGN_OR_RETURN(const Resource pods, LookupResource("pods"));
    LARDER_ASSIGN_OR_RETURN(IndexDefinition by_node,
                            IndexDefinition::ByField("node", "spec.nodeName"));
    InformerOptions informer;
    informer.resource = pods;
    informer.indexes = {by_node, IndexDefinition::ByLabel("app.kubernetes.io/name", "app")};
    LARDER_ASSIGN_OR_RETURN(informer_,
                            SharedInformer::Open({store_.get(), &hot_, transport_.get(), cluster},
                                                 std::move(informer)));
    LARDER_RETURN_IF_ERROR(informer_->AddEnqueuer(
        queue_.get(), {.name = "demo"}, [](const ObjectChange& change, const Enqueue& enqueue) {
          enqueue(change.current()->key().ToString(), 0);
        }));
    informer_->Start();
    LARDER_RETURN_IF_ERROR(WaitForSync(stop));
    if (!options_.until_version.empty()) {
      LARDER_RETURN_IF_ERROR(
          informer_->WaitUntil(options_.until_version, Clock::Steady::max(), stop));
    }
    Report("ready");
    std::vector<std::jthread> workers;
    workers.reserve(static_cast<size_t>(options_.workers));
    for (int i = 0; i < options_.workers; ++i) {
      workers.emplace_back([this](const std::stop_token& end) { Work(end); });
    }
    while (RealClock()->SleepFor(std::chrono::milliseconds(100), stop)) {
      LARDER_RETURN_IF_ERROR(store_->Health());
      Report("progress");
    }
    queue_->ShutDown();
    for (std::jthread& worker : workers) worker.request_stop();
    workers.clear();
    informer_->Stop();
    Report("end");
    return {};
  }

 private:
  // A real controller waits for room on a full disk and goes on; a demo says so and ends.
  Result<void> WaitForSync(const std::stop_token& stop) {
    for (;;) {
      auto synced =
          informer_->WaitForSync(RealClock()->Now() + std::chrono::milliseconds(200), stop);
      if (synced || synced.error().code != ErrorCode::kTimeout) return synced;
      LARDER_RETURN_IF_ERROR(store_->Health());
    }
  }

  void Work(const std::stop_token& stop) {
    while (const auto item = queue_->Get(stop)) {
      if (auto outcome = Reconcile(*item); outcome) {
        queue_->Forget(*item);
      } else {
        spdlog::error("{}: {}", *item, outcome.error().ToString());
        (void)queue_->AddRateLimited(*item, outcome.error().message);
      }
      queue_->Done(*item);
    }
  }

  Result<void> Reconcile(const std::string& item) {
    LARDER_ASSIGN_OR_RETURN(const ObjectKey key, ObjectKey::Parse(item));
    const auto pod = informer_->GetIndexer().GetByKey(key);
    if (!pod && pod.error().code != ErrorCode::kNotFound) return tl::unexpected(pod.error());
    std::this_thread::sleep_for(std::chrono::microseconds(options_.work_microseconds));
    return journal_.Append(item, pod ? (*pod)->resource_version() : Journal::kDeleted);
  }

  void Report(const char* event) {
    const InformerStatus status = informer_->Status();
    const QueueCounters queue = queue_->Counters();
    Say({{"event", event},
         {"lists", status.reflector.lists},
         {"bytes", status.reflector.wire_bytes},
         {"objects", status.reflector.objects},
         {"rewritten", status.sync.added + status.sync.updated + status.sync.deleted},
         {"unchanged", status.sync.unchanged},
         {"rss_mb", PeakMegabytes()},
         {"resumed", queue.loaded},
         {"pending", queue.items},
         {"version", status.cursor.resource_version}});
  }

  const WorkerOptions options_;
  Journal journal_;
  HotTier hot_{{}};
  std::unique_ptr<Store> store_;
  std::unique_ptr<HttpTransport> transport_;
  std::unique_ptr<WorkQueue> queue_;
  std::unique_ptr<SharedInformer> informer_;
};

}  // namespace

int RunWorker(const WorkerOptions& options, const std::stop_token& stop) {
  PrepareProcess();
  Result<void> outcome;
  if (auto journal = Journal::Open(options.journal)) {
    outcome = Worker(options, *std::move(journal)).Run(stop);
  } else {
    outcome = tl::unexpected(journal.error());
  }
  if (outcome || stop.stop_requested()) return kOk;
  // For the demo, which says it in its own name.
  Say({{"event", "error"}, {"message", outcome.error().message}});
  return kUnusable;
}

}  // namespace larder::tools
