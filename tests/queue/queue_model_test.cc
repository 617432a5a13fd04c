// The real queue on a real store beside QueueModel, under random calls and crashes. Nothing that
// was promised is lost, nothing is processed twice at once, the order is fair, and nothing comes
// back that was acknowledged on disk.
//
// LARDER_SEED=n begins with that seed, LARDER_SEEDS=n runs that many of them.
#include "tests/queue/queue_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>

#include "queue/work_queue.h"
#include "storage/testing.h"
#include "tests/queue/queue_harness.h"
#include "tests/storage/failing_disk.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kMaxRetries = 3;

// Waits as long as the model can foretell.
class FixedRateLimiter final : public RateLimiter {
 public:
  Duration When(std::string_view) override { return 50ms; }
  void Forget(std::string_view) override {}
  uint32_t NumRequeues(std::string_view) const override { return 0; }
};

class Simulation {
 public:
  // `foreign` is a store in which some of the causes are committed; `disk`, of the queue's own
  // store, fails now and then, or is null.
  Simulation(Store* store, Store* foreign, testing::FailingDisk* disk, FakeClock* clock,
             uint32_t seed)
      : store_(store),
        foreign_(foreign),
        disk_(disk),
        clock_(clock),
        random_(seed),
        name_("model-" + std::to_string(seed)) {
    model_.SetTime(Now());
    Open();
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      Step();
      Compare();
    }
    if (!::testing::Test::HasFailure()) Drain();
  }

  std::string Trace() const { return trace_.str(); }

 private:
  int64_t Now() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               clock_->WallNow().time_since_epoch())
        .count();
  }
  int Random(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  std::string RandomItem() { return std::string(1, static_cast<char>('a' + Random(6))); }
  int32_t RandomPriority() { return Random(4) == 0 ? Random(3) - 1 : 0; }
  std::ostream& Say() { return trace_ << "\n  "; }

  void Open() {
    WorkQueueOptions options = ManualOptions(store_, clock_);
    options.name = name_;
    options.max_retries = kMaxRetries;
    options.rate_limiter = std::make_unique<FixedRateLimiter>();
    queue_ = OpenQueue(std::move(options));
  }

  void Step() {
    switch (Random(16)) {
      case 0:
      case 1:
      case 2:
        return Add();
      case 3:
        return AddAfter();
      case 4:
      case 5:
      case 6:
        return Get();
      case 7:
      case 8:
        return Finish(/*failed=*/false);
      case 9:
        return Finish(/*failed=*/true);
      case 10:
        return Stage();
      case 11:
        return CommittedOldest();
      case 12:
        return Advance();
      case 13:
        return Flush();
      case 14:
        return Random(3) == 0 ? Crash() : Requeue();
      default:
        return Random(12) != 0 ? Forget() : AddSync();
    }
  }

  void Add() {
    const std::string item = RandomItem();
    const int32_t priority = RandomPriority();
    Say() << "Add " << item << " @" << priority;
    ASSERT_TRUE(queue_->AddWithPriority(item, priority));
    model_.Add(item, 0, priority);
  }

  void AddSync() {
    const std::string item = RandomItem();
    Say() << "AddSync " << item;
    AddOptions options;
    options.durability = Durability::kSync;
    const uint64_t flushes = queue_->Counters().flushes;
    const bool nothing_new = queue_->Status().unwritten == 0;
    ASSERT_TRUE(queue_->AddWithOptions(item, options));
    model_.Add(item, 0, 0);
    const bool flushed = queue_->Counters().flushes > flushes;
    // An item that is there and synced writes nothing; the rest then stays unwritten, too.
    if (flushed || nothing_new) model_.Flush(StagedHere());
  }

  void AddAfter() {
    const std::string item = RandomItem();
    const int delay = 1 + Random(100);
    const int32_t priority = RandomPriority();
    Say() << "AddAfter " << item << " " << delay << "ms @" << priority;
    AddOptions options;
    options.after = std::chrono::milliseconds(delay);
    options.priority = priority;
    ASSERT_TRUE(queue_->AddWithOptions(item, options));
    model_.Add(item, Now() + delay, priority);
  }

  void Get() {
    const auto item = queue_->GetWithPriority({}, kNoWait);
    Say() << "Get " << (item ? item->item : "nothing");
    if (!item) {
      ASSERT_FALSE(model_.AnyReady());
      return;
    }
    ASSERT_TRUE(model_.MayBeNext(item->item));
    ASSERT_EQ(item->priority, model_.items[item->item].pending->priority);
    model_.Get(item->item);
    in_process_.push_back(item->item);
  }

  void Finish(bool failed) {
    if (in_process_.empty()) return;
    const size_t index = static_cast<size_t>(Random(static_cast<int>(in_process_.size())));
    const std::string item = in_process_[index];
    if (failed) {
      Say() << "AddRateLimited " << item;
      ASSERT_TRUE(queue_->AddRateLimited(item, "failed"));
      model_.Retry(item, Now() + 50);
      if (Random(3) == 0) return;  // Done comes later
    }
    Say() << "Done " << item;
    in_process_.erase(in_process_.begin() + static_cast<std::ptrdiff_t>(index));
    queue_->Done(item);
    model_.Done(item);
  }

  void Stage() {
    const std::string item = RandomItem();
    const int32_t priority = RandomPriority();
    const bool foreign = Random(4) == 0;
    Store* const store = foreign ? foreign_ : store_;
    Transaction transaction = store->Begin();
    WorkQueue::Staged staged = queue_->Stage(transaction, item, priority);
    if (Random(4) == 0) {
      Say() << "Stage " << item << ", not committed";
      return;
    }
    Say() << "Stage " << item << " @" << priority << (foreign ? ", in another store" : "");
    ASSERT_TRUE(store->Commit(std::move(transaction), Durability::kRelaxed));
    if (!foreign) model_.CommitStaged(item, priority);
    staged_.push_back({std::move(staged), item, priority, foreign});
    if (Random(2) == 0) CommittedOldest();
  }

  void CommittedOldest() {
    if (staged_.empty()) return;
    Cause cause = std::move(staged_.front());
    staged_.erase(staged_.begin());
    Say() << "Committed " << cause.item;
    queue_->Committed(std::move(cause.staged));
    if (cause.foreign) {
      model_.Add(cause.item, 0, cause.priority);
    } else {
      model_.Committed(cause.item, cause.priority);
    }
  }

  // What is on disk and not known to the queue yet.
  std::vector<std::pair<std::string, int32_t>> StagedHere() const {
    std::vector<std::pair<std::string, int32_t>> here;
    for (const Cause& cause : staged_) {
      if (!cause.foreign) here.emplace_back(cause.item, cause.priority);
    }
    return here;
  }

  void Advance() {
    const int step = Random(60);
    Say() << "Advance " << step << "ms";
    clock_->Advance(std::chrono::milliseconds(step));
    model_.SetTime(Now());
  }

  void Flush() {
    if (disk_ != nullptr && Random(2) == 0 && queue_->Status().unwritten > 0) return FailFlush();
    Say() << "Flush";
    ASSERT_TRUE(queue_->Flush());
    model_.Flush(StagedHere());
    CompareDisk();
  }

  void FailFlush() {
    Say() << "Flush, which fails";
    disk_->FailLogWritesWith(name_);
    ASSERT_FALSE(queue_->Flush());
    disk_->FailLogWritesWith("");
    ASSERT_TRUE(queue_->Status().error);
    model_.FailFlush();
    CompareDisk();
    // The store takes its time before it opens its database again.
    while (!CommitNote()) std::this_thread::sleep_for(1ms);
  }

  bool CommitNote() {
    Transaction transaction = store_->Begin();
    transaction.PutNote("healed", "");
    return store_->Commit(std::move(transaction), Durability::kRelaxed).has_value();
  }

  void Crash() {
    const bool killed = Random(3) != 0;
    Say() << (killed ? "Kill" : "Close");
    if (killed) {
      WorkQueueTestPeer::Kill(std::move(queue_));
    } else {
      queue_.reset();
      model_.Flush(StagedHere());
    }
    staged_.clear();
    in_process_.clear();
    const int down = Random(80);
    clock_->Advance(std::chrono::milliseconds(down));
    model_.SetTime(Now());
    model_.Crash();
    Open();
  }

  void Requeue() {
    const std::string item = RandomItem();
    const bool dead = model_.items.count(item) != 0 && model_.items[item].dead;
    Say() << "Requeue " << item << (dead ? "" : ", not dead");
    ASSERT_EQ(queue_->Requeue(item).has_value(), dead);
    if (dead) model_.Add(item, 0, QueueModel::Priority(model_.items[item]));
  }

  void Forget() {
    const std::string item = RandomItem();
    Say() << "Forget " << item;
    queue_->Forget(item);
    model_.Forget(item);
  }

  // The queue's memory is the model's.
  void Compare() {
    model_.Sweep();
    std::map<std::string, QueueItemInfo> infos;
    for (QueueItemInfo& info : queue_->Items()) infos.emplace(info.item, info);
    for (const auto& [name, item] : model_.items) {
      if (!item.Known()) {
        ASSERT_EQ(infos.count(name), 0u) << name;
        continue;
      }
      ASSERT_EQ(infos.count(name), 1u) << name << " is lost";
      const QueueItemInfo& info = infos[name];
      ASSERT_EQ(info.in_process, item.in_process) << name;
      ASSERT_EQ(info.pending == PendingPhase::kDead, item.dead) << name;
      ASSERT_EQ(info.pending == PendingPhase::kReady, item.pending && item.pending->due == 0)
          << name;
      ASSERT_EQ(info.not_before_ms, item.pending ? item.pending->due : 0) << name;
      ASSERT_EQ(info.priority, QueueModel::Priority(item)) << name;
      ASSERT_EQ(info.failures, item.failures) << name;
      infos.erase(name);
    }
    ASSERT_TRUE(infos.empty()) << infos.begin()->first << " came from nowhere";
  }

  // After a flush the disk has a record for each piece of work, and no other.
  void CompareDisk() {
    std::map<std::string, size_t> records;
    ASSERT_TRUE(store_->ScanQueue(name_, {}, [&records](const StoredQueueItem& stored) {
      ++records[stored.item];
      return true;
    }));
    for (const auto& [name, item] : model_.items) {
      const size_t expected = item.leftovers.size() + (item.stored ? 1 : 0) + (item.taken ? 1 : 0);
      ASSERT_EQ(records[name], expected) << name;
      records.erase(name);
    }
    for (const auto& [name, count] : records) ASSERT_EQ(count, 0u) << name;
  }

  // Works off all there is; then nothing may be left on disk.
  void Drain() {
    while (!staged_.empty()) CommittedOldest();
    while (!in_process_.empty()) Finish(/*failed=*/false);
    clock_->Advance(1s);
    model_.SetTime(Now());
    while (auto item = queue_->Get({}, kNoWait)) {
      ASSERT_TRUE(model_.MayBeNext(*item)) << *item;
      model_.Get(*item);
      queue_->Done(*item);
      model_.Done(*item);
    }
    ASSERT_FALSE(model_.AnyReady());
    for (const DeadLetter& letter : queue_->DeadLetters()) ASSERT_TRUE(queue_->Drop(letter.item));
    ASSERT_TRUE(queue_->Flush());
    ASSERT_TRUE(store_->ScanQueue(name_, {}, [](const StoredQueueItem& stored) {
      ADD_FAILURE() << stored.item << " is left on disk";
      return true;
    }));
    ASSERT_TRUE(foreign_->ScanQueue(name_, {}, [](const StoredQueueItem& stored) {
      ADD_FAILURE() << stored.item << " is in another store";
      return true;
    }));
  }

  // Items of an event's commit that the queue has not been told of.
  struct Cause {
    WorkQueue::Staged staged;
    std::string item;
    int32_t priority = 0;
    bool foreign = false;
  };

  Store* const store_;
  Store* const foreign_;
  testing::FailingDisk* const disk_;
  FakeClock* const clock_;
  std::mt19937 random_;
  const std::string name_;
  QueueModel model_{kMaxRetries};
  std::unique_ptr<WorkQueue> queue_;
  std::vector<std::string> in_process_;
  std::vector<Cause> staged_;
  std::ostringstream trace_;
};

uint32_t FromEnvironment(const char* name, uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

void RunSeeds(Store* store, testing::FailingDisk* disk, uint32_t otherwise) {
  const uint32_t first = FromEnvironment("LARDER_SEED", std::random_device()());
  const uint32_t count = FromEnvironment("LARDER_SEEDS", otherwise);
  std::cout << "LARDER_SEED=" << first << " LARDER_SEEDS=" << count << "\n";
  TempStore foreign;
  for (uint32_t i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    FakeClock clock;
    Simulation simulation(store, foreign.get(), disk, &clock, first + i);
    simulation.Run(120);
    if (::testing::Test::HasFailure()) {
      std::cout << "LARDER_SEED=" << first + i << " LARDER_SEEDS=1" << simulation.Trace() << "\n";
    }
  }
}

TEST(QueueModelTest, EveryRunIsTheModels) {
  TempStore store;
  RunSeeds(store.get(), nullptr, 3000);
}

// Fewer: the store opens its database anew after each write that failed.
TEST(QueueModelTest, EveryRunIsTheModelsOnADiskThatFails) {
  testing::TempDir dir;
  testing::FailingDisk disk;
  StoreOptions options;
  options.path = dir.path();
  options.sync_interval = 1h;  // the failures are the queue's alone
  const auto store = OpenStoreOnEnv(options, disk.env());
  ASSERT_TRUE(store) << store.error().ToString();
  RunSeeds(store->get(), &disk, 30);
}

}  // namespace
}  // namespace larder
