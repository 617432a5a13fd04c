#include "tests/crash/subject.h"

#include <fmt/format.h>
#include <rocksdb/env.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/process.h"
#include "client/config.h"
#include "informer/shared_informer.h"
#include "storage/maintenance.h"
#include "storage/testing.h"
#include "tests/crash/faulty_disk.h"
#include "tests/crash/fetch_witness.h"
#include "tests/crash/journal.h"
#include "tests/crash/mutants.h"
#include "tests/crash/open_store.h"

namespace larder::crash {
namespace {

using namespace std::chrono_literals;

// After this it says what it waits for; the programme gives it a minute.
constexpr auto kPatience = 20s;

// The handler whose calls the oracle judges.
class AuditHandler final : public EventHandler {
 public:
  AuditHandler(Journal* journal, std::string cluster, std::string mutant, WorkQueue* queue)
      : journal_(journal),
        cluster_(std::move(cluster)),
        mutant_(std::move(mutant)),
        queue_(queue) {}

  void OnAdd(const ObjectPtr& object, bool) override { Record("add", *object); }
  void OnUpdate(const ObjectPtr& before, const ObjectPtr& now) override {
    const ObjectPtr& old = mutant_ == "wrong-old" ? now : before;
    Record("update", *now, old->resource_version());
    if (mutant_ == "older-again") Record("update", *before, now->resource_version());
    if (mutant_ == "older-delete") Record("delete", *before);
  }
  void OnDelete(const ObjectPtr& last_known, bool) override { Record("delete", *last_known); }

 private:
  void Record(std::string_view type, const Object& object, std::string_view old = "0") {
    const std::string key = object.key().ToString();
    journal_->Handled(cluster_, type, key, object.resource_version(), HashOf(object.json()), old);
    if (mutant_ == "queue-apart") (void)queue_->Add(key);
  }

  Journal* const journal_;
  const std::string cluster_;
  const std::string mutant_;
  WorkQueue* const queue_;
};

class Subject {
 public:
  // `env` is the disk, and outlives it.
  Subject(const SubjectOptions& options, rocksdb::Env* env)
      : options_(options), env_(env), journal_(options.journal) {}

  Result<void> OpenStore() {
    StoreOptions store =
        StoreAt(options_.store, Is("in-the-clear") ? std::string() : options_.key_file);
    store.sync_interval = 50ms;
    // What is compressed shows nothing, so that nobody would find it in the clear.
    if (!options_.key_file.empty() && (options_.seed & 32) != 0) store.compression = false;
    LARDER_ASSIGN_OR_RETURN(store_, OpenStoreOnEnv(store, env_));
    return {};
  }

  Result<void> Start() {
    LARDER_ASSIGN_OR_RETURN(transport_, MakeTransport(ForUrl(options_.url)));
    if (Is("any-cluster")) transport_ = BelieveOldCluster(std::move(transport_), options_.store);
    Result<std::string> cluster = FetchClusterUid(*transport_, {});
    // Its connection may be among those that the programme breaks, which it does once.
    if (!cluster) cluster = FetchClusterUid(*transport_, {});
    LARDER_ASSIGN_OR_RETURN(cluster_, std::move(cluster));
    journal_.Started(cluster_);
    const auto plan = DiskPlan::Parse(options_.disk_plan);
    transport_ = WitnessFetches(std::move(transport_), &journal_, cluster_,
                                plan->file == "relist" ? plan->count : 0);

    WorkQueueOptions work;
    work.name = kQueueName;
    work.store = store_.get();
    LARDER_ASSIGN_OR_RETURN(queue_, WorkQueue::Open(std::move(work)));

    InformerOptions informer;
    informer.resource = *LookupResource("pods");
    if (options_.sync) informer.durability = Durability::kSync;
    informer.indexes = {*IndexDefinition::ByField(kIndexName, "spec.nodeName")};
    LARDER_ASSIGN_OR_RETURN(informer_,
                            SharedInformer::Open({store_.get(), &hot_, transport_.get(), cluster_},
                                                 std::move(informer)));
    collection_ = informer_->GetIndexer().collection().id;
    auto handler =
        std::make_shared<AuditHandler>(&journal_, cluster_, options_.mutant, queue_.get());
    HandlerOptions durable;
    durable.durable_name = kHandlerName;
    // Every second process has a handler that falls behind at once, and takes its changes from
    // disk.
    if (options_.seed % 2 == 0) durable.buffer_events = 4;
    LARDER_ASSIGN_OR_RETURN(handler_, informer_->AddEventHandler(handler, durable));
    LARDER_RETURN_IF_ERROR(informer_->AddEnqueuer(
        queue_.get(), {.name = kQueueName},
        [this](const ObjectChange& change, const Enqueue& enqueue) { Staged(change, enqueue); }));
    if (Is("always-lists")) ListAgain(store_.get(), collection_);
    informer_->Start();
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
    }
    if (!options_.scenario) {
      // One of four keeps the log that it found.
      if ((options_.seed & 12) != 0) {
        threads_.emplace_back([this](const std::stop_token& stop) { WriteTables(stop); });
      }
      threads_.emplace_back([this](const std::stop_token& stop) { SyncSometimes(stop); });
      // Half of the processes are in the middle of a compaction.
      if ((options_.seed & 16) != 0) {
        threads_.emplace_back([this](const std::stop_token& stop) {
          (void)Compact(*store_, {.progress = {}, .stop = stop});
        });
      }
    }
    if (Is("sweep-early")) {
      threads_.emplace_back(
          [this](const std::stop_token& stop) { SweepEarly(store_.get(), collection_, stop); });
    }
    if (Is("forget-name")) {
      threads_.emplace_back([this](const std::stop_token& stop) {
        ForgetNames(store_.get(), collection_, options_.seed, stop);
      });
    }
    if (Is("abort-when-full")) {
      threads_.emplace_back(
          [this](const std::stop_token& stop) { AbortWhenFull(store_.get(), stop); });
    }
    return {};
  }

  bool IsSettled(uint64_t version) {
    const std::string cursor = informer_->LastSyncResourceVersion();
    if (!informer_->HasSynced() || cursor.empty() || std::stoull(cursor) < version) return false;
    const ListenerStats handler = handler_->Stats();
    // A queue that could not be read yet shows no items. The last acknowledgements, too: one that
    // fails while the queue is closed is only repeated by the next process, but this one is to
    // leave nothing.
    return handler_->HasSynced() && handler.rows == 0 && handler.buffered == 0 &&
           !handler.spilling && queue_->Status().loaded && queue_->Counters().items == 0 &&
           queue_->Flush();
  }

  bool IsDamaged() const {
    const Result<void> health = store_->Health();
    return !health && health.error().code == ErrorCode::kCorruption;
  }
  std::string Health() const {
    const Result<void> health = store_->Health();
    return health ? "healthy" : health.error().ToString();
  }
  void StartFlush() { store_->StartFlush(); }

  // Why it is not settled, for whoever looks into it.
  std::string WhatIsMissing(uint64_t version) {
    const ListenerStats handler = handler_->Stats();
    return fmt::format(
        "synced {}, cursor {} of {}; handler: synced {}, rows {}, buffered {}, spilling {}, error "
        "{}; queue: loaded {}, items {}; store: {}",
        informer_->HasSynced(), informer_->LastSyncResourceVersion(), version,
        handler_->HasSynced(), handler.rows, handler.buffered, handler.spilling,
        handler.error ? handler.error->ToString() : "none", queue_->Status().loaded,
        queue_->Counters().items, Health());
  }

  void Stop() {
    threads_.clear();
    informer_->Stop();
    informer_.reset();
    queue_.reset();
    store_.reset();
  }

 private:
  bool Is(std::string_view mutant) const { return options_.mutant == mutant; }

  void Staged(const ObjectChange& change, const Enqueue& enqueue) {
    if (Is("cursor-first")) CommitCursorFirst(store_.get(), collection_, *change.current());
    if (Is("row-ahead") && change.old && change.object) {
      CommitRowFirst(store_.get(), collection_, *change.object);
    }
    if (Is("index-left")) LeaveIndexKey(store_.get(), collection_, *change.current());
    if (!Is("queue-apart")) enqueue(change.current()->key().ToString(), 0);
  }

  void Work(const std::stop_token& stop) {
    while (const auto item = queue_->Get(stop)) {
      if (Is("done-first")) {
        queue_->Done(*item);
        (void)queue_->Flush();
        std::this_thread::sleep_for(5ms);  // the work
      }
      const auto pod = informer_->GetIndexer().GetByKey(*ObjectKey::Parse(*item));
      if (!pod && pod.error().code != ErrorCode::kNotFound) {
        (void)queue_->AddRateLimited(*item, pod.error().message);
      } else {
        const bool there = pod && *pod != nullptr;
        const uint64_t hash = there ? HashOf((*pod)->json()) : 0;
        journal_.Worked(cluster_, *item, there ? (*pod)->resource_version() : "0",
                        Is("other-bytes") ? hash + 1 : hash);
        queue_->Forget(*item);
      }
      queue_->Done(*item);
    }
  }

  // So that tables and manifests are written while somebody looks for a bad moment.
  void WriteTables(const std::stop_token& stop) {
    std::mt19937_64 random(options_.seed);
    while (RealClock()->SleepFor(std::chrono::milliseconds(10 + random() % 90), stop)) {
      store_->StartFlush();
    }
  }

  // At the start, and half of the processes now and then: what they write down is what a power loss
  // must not take.
  void SyncSometimes(const std::stop_token& stop) {
    std::mt19937_64 random(options_.seed);
    do {
      const auto cursor = store_->GetCursor(collection_);
      if (!cursor || !cursor->Complete() || !store_->Sync()) continue;
      journal_.Synced(cluster_, cursor->resource_version);
    } while ((options_.seed & 2) != 0 &&
             RealClock()->SleepFor(std::chrono::milliseconds(5 + random() % 95), stop));
  }

  const SubjectOptions options_;
  rocksdb::Env* const env_;
  Journal journal_;
  std::unique_ptr<Store> store_;
  HotTier hot_{HotTierOptions{}};
  std::unique_ptr<HttpTransport> transport_;
  std::string cluster_;
  std::unique_ptr<WorkQueue> queue_;
  std::unique_ptr<SharedInformer> informer_;
  CollectionId collection_ = 0;
  SharedInformer::Registration handler_;
  std::vector<std::jthread> threads_;
};

// A process that meets damage is not ended at once: what it does then is judged, too.
constexpr auto kAfterDamage = 100ms;
// The same for a disk that is broken for good.
constexpr auto kAfterBreak = 100ms;

[[noreturn]] void End(int code) { std::_Exit(code); }

void OpenOrEnd(Subject& subject) {
  Result<void> opened = subject.OpenStore();
  if (opened) opened = subject.Start();
  if (opened) return;
  std::fprintf(stderr, "crash: refused: %s\n", opened.error().ToString().c_str());
  End(kRefused);
}

// Until it has nothing left to do at the version that the file says.
void SettleOrEnd(Subject& subject, const std::string& settle_file, const FaultyDisk& disk,
                 const DiskPlan& plan, bool ends_when_broken) {
  bool said = false;
  std::optional<std::chrono::steady_clock::time_point> damaged;
  std::optional<std::chrono::steady_clock::time_point> broken;
  for (const auto start = std::chrono::steady_clock::now();;) {
    std::this_thread::sleep_for(ends_when_broken ? 1ms : 5ms);
    const auto now = std::chrono::steady_clock::now();
    uint64_t version = 0;
    if (std::ifstream(settle_file) >> version && subject.IsSettled(version)) return;
    if (!damaged && subject.IsDamaged()) damaged = now;
    if (damaged && now - *damaged > kAfterDamage) {
      std::fprintf(stderr, "crash: damaged: %s\n", subject.Health().c_str());
      subject.Stop();
      End(kDamaged);
    }
    if (ends_when_broken && !broken && disk.Happened()) broken = now;
    if (broken && now - *broken > kAfterBreak) {
      // In good order and in bad.
      if (plan.count % 2 == 0) ::kill(::getpid(), SIGKILL);
      subject.Stop();
      End(kGaveUp);
    }
    if (!said && now - start > kPatience) {
      said = true;
      std::fprintf(stderr, "crash: not at rest: %s\n", subject.WhatIsMissing(version).c_str());
    }
  }
}

// Open, list, events, close; open again, events, close: on one disk.
[[noreturn]] void RunScenario(const SubjectOptions& options, rocksdb::Env* env,
                              const FaultyDisk& disk, const DiskPlan& plan) {
  const bool for_good = plan.action == DiskPlan::Action::kFailForGood;
  int step = 0;
  for (const int last : {kScenarioSteps - 2, kScenarioSteps - 1}) {
    Subject subject(options, env);
    OpenOrEnd(subject);
    for (; step <= last; ++step) {
      SettleOrEnd(subject, StepFile(options.settle_file, step), disk, plan, for_good);
      subject.StartFlush();
      std::ofstream(StepDoneFile(options.settle_file, step)) << std::endl;
    }
    subject.Stop();
  }
  End(disk.Happened() ? kSettled : kUnharmed);
}

}  // namespace

int RunSubject(const SubjectOptions& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (options.log.empty()) {
    spdlog::set_level(spdlog::level::off);
  } else {
    spdlog::set_default_logger(spdlog::basic_logger_mt("subject", options.log));
    UseLogFormat();
    spdlog::flush_on(spdlog::level::info);
  }
  const auto plan = DiskPlan::Parse(options.disk_plan);
  if (!plan) {
    std::fprintf(stderr, "crash: no plan: %s\n", options.disk_plan.c_str());
    End(2);
  }
  FaultyDiskOptions broken;
  if (options.mutant != "sound-disk") broken.plan = *plan;
  broken.seed = options.seed;
  broken.met_file = MetFile(options.journal);
  if (plan->action == DiskPlan::Action::kPowerLoss) {
    broken.unsynced_file = UnsyncedFile(options.journal);
  }
  using Lies = FaultyDiskOptions::Lies;
  if (options.mutant == "no-sync") broken.lies = Lies::kOfLogs;
  if (options.mutant == "no-inherited-sync") broken.lies = Lies::kOfInherited;
  const auto disk = std::make_shared<FaultyDisk>(std::move(broken));
  const auto env = rocksdb::NewCompositeEnv(disk);
  if (options.scenario) RunScenario(options, env.get(), *disk, *plan);
  Subject subject(options, env.get());
  OpenOrEnd(subject);
  SettleOrEnd(subject, options.settle_file, *disk, *plan, /*ends_when_broken=*/false);
  subject.Stop();
  End(kSettled);
}

}  // namespace larder::crash
