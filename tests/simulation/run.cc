#include "tests/simulation/run.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <set>

#include "base/wall_time.h"
#include "indexer/indexer.h"
#include "informer/collection_sync.h"
#include "informer/listener.h"
#include "queue/work_queue.h"
#include "reflector/reflector.h"
#include "storage/testing.h"
#include "tests/simulation/deliveries.h"
#include "tests/simulation/journal.h"
#include "tests/simulation/judge.h"
#include "tests/simulation/volatile_disk.h"
#include "tests/simulation/world.h"

namespace larder::simulation {
namespace {

constexpr char kQueue[] = "work";
constexpr char kHandler[] = "handler";
// Few, so that changes wait on disk now and then.
constexpr size_t kBuffer = 3;
constexpr int kLives = 4;
// About as many as an opening takes.
constexpr uint64_t kOpeningOperations = 40;
// Few, so that a DeltaFifo which nobody empties is full now and then.
constexpr size_t kBatch = 6;
constexpr uint32_t kRetries = 4;
// What the queue's rate limiter asks for after a first failure.
constexpr int64_t kFirstRetryMs = 5;

std::string KeyOf(const Object& object) { return object.key().ToString(); }

// One life of the process: from opening the store to the crash or the calm end.
class Life final : private ChangeSink, private Target {
 public:
  Life(World* world, VolatileDisk* disk, InstantClock* clock, const std::string& path,
       Journal* journal, Deliveries* deliveries, Judge* judge, Mutant mutant, uint64_t seed)
      : world_(*world),
        disk_(*disk),
        clock_(*clock),
        path_(path),
        journal_(*journal),
        deliveries_(*deliveries),
        judge_(*judge),
        mutant_(mutant),
        random_(seed),
        work_clock_(journal->now) {}

  // False: there is no controller, because its disk died or failed, or because of a violation.
  bool Open() {
    StoreOptions options{.path = path_, .memory_limit = 8 << 20};
    options.clock = &still_;
    auto store = OpenStoreOnEnv(options, disk_.env());
    if (!store) return Refuse("open", store.error());
    store_ = *std::move(store);
    hot_ = std::make_unique<HotTier>(HotTierOptions{.max_bytes = 1 << 20});
    CollectionSpec spec;
    spec.cluster_uid = "cluster";
    spec.resource = *LookupResource("pods");
    auto indexer = Indexer::Open(store_.get(), hot_.get(), spec,
                                 {*IndexDefinition::ByField("phase", "status.phase")});
    if (!indexer) return Refuse("index", indexer.error());
    indexer_ = *std::move(indexer);
    auto queue = WorkQueue::Open({.name = kQueue,
                                  .store = store_.get(),
                                  .flush_interval = std::chrono::milliseconds(0),
                                  .max_retries = kRetries,
                                  .clock = &work_clock_});
    if (!queue) return Refuse("queue", queue.error());
    queue_ = *std::move(queue);
    CollectionSyncOptions sync_options;
    sync_options.clock = &still_;
    sync_options.own_thread = false;
    sync_options.max_batch_objects = kBatch;
    ChangeSink* const sink = this;
    sync_ = std::make_unique<CollectionSync>(indexer_.get(), sink, sync_options);
    return OpenHandler();
  }

  // Runs until `calls` calls of the target, then the disk dies; 0: until the world is quiet.
  void Run(uint64_t calls) {
    calls_left_ = calls;
    last_ = calls == 0;
    // Once: the store tries again after a while, and its clock stands still.
    if (!last_ && random_() % 2 == 0) disk_.FailIn(1 + static_cast<int64_t>(random_() % 60));
    world_.on_quiet = [this] { stop_.request_stop(); };
    ReflectorOptions options;
    options.resource = *LookupResource("pods");
    constexpr FirstSync kWays[] = {FirstSync::kList, FirstSync::kWatchList};
    options.first_sync = kWays[random_() % 2];
    options.random_seed = 1 + random_() % 1000;
    options.clock = &clock_;
    options.parallel_fetches = 1;
    auto reflector = Reflector::Create(options, &world_, this);
    if (!reflector) {
      judge_.Fail("reflector", reflector.error());
      return;
    }
    (void)(*reflector)->Run(stop_.get_token());
  }

  // REQUIRES: not dead.
  void Settle() {
    if (auto flushed = sync_->Flush(); !flushed) judge_.Fail("commit", flushed.error());
    for (int i = 0; i < 100 && IsAnythingUntold(); ++i) Deliver();
    judge_.ExpectThat(!IsAnythingUntold(), "the handler does not hear everything");
    while (!running_.empty()) Finish();
    while (IsWorkLeft(*queue_)) {
      if (queue_->Len() == 0) work_clock_.Advance(std::chrono::seconds(1));
      Work();
    }
    if (auto flushed = queue_->Flush(); !flushed) judge_.Fail("flush", flushed.error());
  }

  void Close() {
    if (!last_) disk_.Die();
    journal_.now = work_clock_.WallNow() + std::chrono::seconds(random_() % 60);
    disk_.LetGo();
    sync_.reset();
    listener_.reset();
    names_.reset();
    queue_.reset();
    indexer_.reset();
    store_.reset();
  }

  // REQUIRES: Open().
  OpenParts parts() const { return {store_.get(), indexer_.get(), queue_.get(), kHandler}; }

 private:
  // The controller does not open. On a disk that is not sound it may.
  bool Refuse(std::string_view what, const Error& error) {
    if (!disk_.IsDead() && !disk_.HasFailed()) judge_.Fail(what, error);
    return false;
  }
  // As a SharedInformer does it.
  bool OpenHandler() {
    names_ = std::make_unique<DurableNames>(store_.get(), indexer_->collection().id);
    if (auto loaded = names_->Load(); !loaded) return Refuse("names", loaded.error());
    judge_.ExpectNothing(deliveries_.Begin(names_->Revision(kHandler).has_value()));
    auto handler = std::make_shared<EventHandlerFuncs>();
    handler->on_add = [this](const ObjectPtr& object, bool) {
      Heard(deliveries_.Hear(*object, nullptr));
    };
    handler->on_update = [this](const ObjectPtr& old, const ObjectPtr& object) {
      const Object& before = mutant_ == Mutant::kWrongOld ? *object : *old;
      Heard(deliveries_.Hear(*object, &before));
      if (mutant_ == Mutant::kOlderAgain) Heard(deliveries_.Hear(*old, object.get()));
      if (mutant_ == Mutant::kOlderDelete) Heard(deliveries_.HearDelete(*old));
    };
    handler->on_delete = [this](const ObjectPtr& last, bool) {
      Heard(deliveries_.HearDelete(*last));
    };
    HandlerOptions options;
    options.durable_name = kHandler;
    if (mutant_ == Mutant::kTellAgain) options.revision = 1 + static_cast<uint32_t>(random_() % 9);
    options.buffer_events = kBuffer;
    listener_ = std::make_shared<Listener>(indexer_.get(), names_.get(), std::move(handler),
                                           options, kHandler, &still_);
    const auto writer = indexer_->BeginWrite();
    const auto opened = listener_->Open(sync_->cursor().Complete());
    return opened ? !disk_.IsDead() : Refuse("handler", opened.error());
  }
  bool IsAnythingUntold() const {
    const ListenerStats stats = listener_->Stats();
    return stats.buffered > 0 || stats.rows > 0;
  }
  // The handler's thread has its turn, for some changes or for all.
  void Deliver() {
    std::stop_source pause;
    pause_ = pause;
    tell_ = last_ ? 0 : random_() % 5;
    const auto told = listener_->DeliverWaiting(pause.get_token());
    if (dead_) return;
    if (!told) {
      // What could not be acknowledged may be told again.
      if (!disk_.HasFailed()) judge_.Fail("delivery", told.error());
    } else if (const auto rows = PendingKeys(parts())) {
      deliveries_.Acknowledged(*rows);
    } else {
      judge_.Fail("rows", rows.error());
    }
  }
  // The handler has written it into its journal and is about to return.
  void Heard(const std::string& wrong) {
    judge_.ExpectNothing(wrong);
    if (!last_ && random_() % 60 == 0) Crash();
    if (dead_ || (tell_ != 0 && --tell_ == 0)) pause_.request_stop();
  }
  // The worker: looks at the store, writes into its journal; acknowledges at once or later.
  void Work() {
    const auto queued = queue_->Items();
    const auto item = queue_->GetWithPriority({}, std::chrono::nanoseconds(0));
    if (!item) return;
    judge_.ExpectNothing(journal_.HandedOut(*item, queued, WallMs(work_clock_)));
    const std::string& key = item->item;
    const size_t slash = key.find('/');
    const auto object = indexer_->GetByKey({key.substr(0, slash), key.substr(slash + 1)});
    Journal::Seen& seen = journal_.keys[key];
    if (object) {
      seen.uid = (*object)->uid();
      seen.states.insert(StateText(seen.uid, (*object)->resource_version()));
    } else if (object.error().code == ErrorCode::kNotFound) {
      seen.gone.insert(seen.uid);
    } else {
      judge_.Fail("read", object.error());
    }
    running_.push_back(*item);
    if (last_ || random_() % 4 != 0) Finish();
  }
  // Of the run that is under way longest: well, failed, or to be gone on with later.
  void Finish() {
    const WorkItem item = running_.front();
    running_.pop_front();
    const uint64_t how = last_ ? 0 : random_() % 10;
    if (how < 6) {
      queue_->Forget(item.item);
    } else {
      Postpone(item, /*failed=*/how < 9);
    }
    queue_->Done(item.item);
  }
  void Postpone(const WorkItem& item, bool failed) {
    const auto items = queue_->Items();
    // An event that came meanwhile asks for a run at once.
    const bool again = std::any_of(items.begin(), items.end(), [&](const QueueItemInfo& info) {
      return info.item == item.item && info.pending != PendingPhase::kIdle;
    });
    Journal::Later later;
    later.failures = item.failures + (failed ? 1 : 0);
    AddOptions options;
    options.rate_limited = failed;
    options.error = "it failed";
    std::chrono::milliseconds delay(kFirstRetryMs << item.failures);
    if (!failed) {
      delay = std::chrono::milliseconds(1 + random_() % 60'000);
      options.after = mutant_ == Mutant::kEarlyRetry ? std::chrono::milliseconds(0) : delay;
      options.priority = later.priority = static_cast<int32_t>(random_() % 3);
    }
    later.not_before_ms = WallMs(work_clock_) + delay.count();
    later.dead = failed && later.failures > kRetries;
    if (!again) journal_.Ask(item.item, later);
    if (mutant_ == Mutant::kLoseRetry && failed) return;
    (void)queue_->AddWithOptions(item.item, options);
  }

  // ---- ChangeSink: the enqueuer and the handler
  Result<void> Stage(Indexer::Writer& writer, const ObjectChange& change) override {
    if (mutant_ != Mutant::kLoseRow || random_() % 10 != 0) {
      LARDER_RETURN_IF_ERROR(listener_->Stage(writer, change));
    }
    if (mutant_ == Mutant::kLoseQueueItem && change.type == ChangeType::kDeleted) return {};
    const std::string key = KeyOf(*change.current());
    journal_.Overtake(key);
    return queue_->Stage(writer.transaction(), key, static_cast<int32_t>(random_() % 3), &staged_);
  }
  void Publish(bool committed) override {
    WorkQueue::Staged staged = std::exchange(staged_, {});
    if (committed) queue_->Committed(std::move(staged));
    listener_->Publish(committed);
  }
  void Synced() override { listener_->ListComplete(); }

  // ---- Target: passes everything on, and is where the crash happens
  template <typename Call>
  auto Through(const Call& call) -> decltype(call()) {
    if (!world_is_calm() && random_() % 50 == 0) {
      return MakeError(ErrorCode::kNoSpace, "the disk is full for a moment");
    }
    if (calls_left_ != 0 && --calls_left_ == 0) {
      // Before the call, or after it and before anybody knows.
      if (random_() % 2 == 0) {
        auto outcome = call();
        Crash();
        return outcome;
      }
      Crash();
      return MakeError(ErrorCode::kCancelled, "dead");
    }
    auto outcome = call();
    // The committer is as fast as the reflector, or is not.
    if (random_() % 3 == 0) sync_->CommitWaiting();
    // RocksDB gets some of its background work done.
    while (random_() % 2 == 0 && disk_.RunOne()) {
    }
    return outcome;
  }
  bool world_is_calm() const { return calls_left_ == 0; }
  void Crash() {
    if (dead_) return;
    dead_ = true;
    if (random_() % 2 == 0) {
      // In the middle of a flush, if there is one to do.
      disk_.DieInstead(1 + static_cast<int64_t>(random_() % 40));
      while (!disk_.IsDead() && disk_.RunOne()) {
      }
    }
    disk_.Die();
    stop_.request_stop();
  }
  void Worker() {
    if (dead_) return;
    if (random_() % 4 == 0) work_clock_.Advance(std::chrono::milliseconds(random_() % 20'000));
    if (random_() % 3 == 0) Work();
    if (random_() % 4 == 0) Deliver();
    if (dead_) return;
    if (!running_.empty() && random_() % 3 == 0) Finish();
    if (random_() % 6 == 0 && queue_->Flush()) journal_.Written();
    if (random_() % 9 == 0 && store_->Sync()) journal_.Synced();
  }

  Result<Position> Start() override { return sync_->Start(); }
  Result<void> Rewound() override {
    return Through([&] { return sync_->Rewound(); });
  }
  Result<void> BeginList(std::string_view why) override {
    return Through([&] { return sync_->BeginList(why); });
  }
  Result<void> ListItem(ObjectPtr object) override {
    return Through([&] { return sync_->ListItem(std::move(object)); });
  }
  Result<bool> ListItemUnchanged(const ObjectKey& key, std::string_view uid,
                                 std::string_view version) override {
    return Through([&] { return sync_->ListItemUnchanged(key, uid, version); });
  }
  Result<bool> StoredIsNewer(const ObjectKey& key, std::string_view version) override {
    return Through([&] { return sync_->StoredIsNewer(key, version); });
  }
  Result<bool> UnseenIsNewer(std::string_view version) override {
    return Through([&]() -> Result<bool> {
      if (mutant_ == Mutant::kSkipSweep) LARDER_RETURN_IF_ERROR(SeeEverything());
      return sync_->UnseenIsNewer(version);
    });
  }
  Result<void> EndList(std::string_view version) override {
    // A list that ends is flushed; before a second such flush the first must be done.
    while (disk_.RunOne()) {
    }
    auto outcome = Through([&] { return sync_->EndList(version); });
    Worker();
    return outcome;
  }
  Result<void> Event(EventType type, ObjectPtr object) override {
    auto outcome = Through([&]() -> Result<void> {
      const std::string version(object->resource_version());
      if (mutant_ == Mutant::kEarlyCursor) LARDER_RETURN_IF_ERROR(SetCursor(version));
      if (mutant_ == Mutant::kDropWaiting && random_() % 10 == 0) {
        LARDER_RETURN_IF_ERROR(sync_->Start().map([](const Position&) {}));
      }
      if (mutant_ == Mutant::kIgnoreFailure && sync_->Stats().error) {
        LARDER_RETURN_IF_ERROR(sync_->Start().map([](const Position&) {}));
      }
      if (mutant_ == Mutant::kLoseEvent && random_() % 10 == 0) return sync_->Bookmark(version);
      if (mutant_ == Mutant::kRowAhead) return EventAheadOfCursor(type, object);
      return sync_->Event(type, object);
    });
    Worker();
    return outcome;
  }
  Result<void> Bookmark(std::string_view version) override {
    return Through([&] { return sync_->Bookmark(version); });
  }

  // ---- mutants
  Result<void> SetCursor(const std::string& version) {
    LARDER_ASSIGN_OR_RETURN(Cursor cursor, store_->GetCursor(indexer_->collection().id));
    cursor.resource_version = version;
    Transaction transaction = store_->Begin();
    transaction.SetCursor(indexer_->collection().id, cursor);
    LARDER_RETURN_IF_ERROR(store_->Commit(std::move(transaction), Durability::kRelaxed));
    if (random_() % 20 == 0) Crash();
    return {};
  }
  Result<void> EventAheadOfCursor(EventType type, const ObjectPtr& object) {
    LARDER_ASSIGN_OR_RETURN(const Cursor cursor, store_->GetCursor(indexer_->collection().id));
    LARDER_RETURN_IF_ERROR(sync_->Event(type, object));
    LARDER_RETURN_IF_ERROR(sync_->Flush());
    return SetCursor(cursor.resource_version);
  }
  // As if everything stored had been in the list.
  Result<void> SeeEverything() {
    std::vector<std::pair<ObjectKey, ObjectHead>> rows;
    LARDER_RETURN_IF_ERROR(store_->ScanHeads(indexer_->collection().id, {},
                                             [&](const ObjectKey& key, const ObjectHead& head) {
                                               rows.emplace_back(key, head);
                                               return true;
                                             }));
    for (const auto& [key, head] : rows) {
      LARDER_RETURN_IF_ERROR(
          sync_->ListItemUnchanged(key, head.uid, head.resource_version).map([](bool) {}));
    }
    return {};
  }

  World& world_;
  VolatileDisk& disk_;
  InstantClock& clock_;
  const std::string path_;
  Journal& journal_;
  Deliveries& deliveries_;
  Judge& judge_;
  const Mutant mutant_;
  std::mt19937_64 random_;
  FakeClock work_clock_;  // the queue's, which has no thread
  FakeClock still_;       // for what has threads of its own: they wait to be woken, not for time
  std::stop_source stop_;
  uint64_t calls_left_ = 0;
  bool last_ = false;
  bool dead_ = false;
  std::deque<WorkItem> running_;
  std::stop_source pause_;  // of the handler's turn
  uint64_t tell_ = 0;       // how many changes are left of it; 0: all
  WorkQueue::Staged staged_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<HotTier> hot_;
  std::unique_ptr<Indexer> indexer_;
  std::unique_ptr<WorkQueue> queue_;
  std::unique_ptr<DurableNames> names_;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<CollectionSync> sync_;
};

// The process or its disk does not come through the opening of the store, as a rule.
void BreakOpening(VolatileDisk& disk, std::mt19937_64& random) {
  const auto operation = 1 + static_cast<int64_t>(random() % kOpeningOperations);
  if (random() % 2 == 0) {
    disk.DieInstead(operation);
  } else {
    disk.FailIn(operation);
  }
}

}  // namespace

Verdict Run(uint64_t seed, const std::string& directory, Mutant mutant) {
  Verdict verdict;
  std::mt19937_64 random(seed);
  InstantClock clock;
  World world(random(), &clock);
  world.trace = [&](std::string_view text) {
    verdict.trace = XXH3_64bits_withSeed(text.data(), text.size(), verdict.trace);
  };
  world.Change(static_cast<int>(random() % 8));
  VolatileDisk disk;
  Journal journal;
  Deliveries deliveries;
  Judge judge(&world, &journal, &deliveries);
  const std::string path = directory + "/store";
  std::filesystem::remove_all(path);
  for (int number = 0; number <= kLives && verdict.violation.empty(); ++number) {
    const bool last = number == kLives;
    Life life(&world, &disk, &clock, path, &journal, &deliveries, &judge, mutant, random());
    if (!last && random() % 3 == 0) BreakOpening(disk, random);
    const bool open = life.Open();
    disk.DieInstead(0);
    world.trace(open ? "open" : "not open");
    if (open) {
      judge.Check(life.parts());
      if (last) {
        world.Calm();
        life.Run(0);
        life.Settle();
        judge.Check(life.parts());
        judge.CheckCaughtUp(life.parts());
      } else {
        life.Run(1 + random() % 60);
      }
    }
    verdict.violation = judge.violation();
    life.Close();
    const bool power = random() % 3 == 0;
    disk.Revive(power ? VolatileDisk::Loss::kPower : VolatileDisk::Loss::kProcess, random);
    journal.Crash(power);
    deliveries.Crash(power);
    if (random() % 5 == 0) {
      world.Rewind();
      deliveries.ClusterWasRestored();
    }
  }
  return verdict;
}

}  // namespace larder::simulation
