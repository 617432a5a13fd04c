// What survives: kills, restarts, failed commits, and what never needs the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "queue/work_queue.h"
#include "tests/queue/queue_harness.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

class DurableQueueTest : public ::testing::Test {
 protected:
  DurableQueueTest() { Open(); }

  WorkQueueOptions Options() {
    WorkQueueOptions options = ManualOptions(store_.get(), &clock_);
    options.max_retries = max_retries_;
    return options;
  }
  void Open() { queue_ = OpenQueue(Options()); }
  // As after kill -9: what was not written is gone.
  void KillAndOpen() {
    WorkQueueTestPeer::Kill(std::move(queue_));
    Open();
  }
  void CloseAndOpen() {
    queue_.reset();
    Open();
  }
  std::optional<std::string> GetNow() { return queue_->Get({}, kNoWait); }
  std::vector<std::string> GetAll() {
    std::vector<std::string> items;
    while (auto item = GetNow()) items.push_back(*item);
    return items;
  }

  FakeClock clock_;
  TempStore store_{&clock_};
  std::optional<uint32_t> max_retries_;
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(DurableQueueTest, PendingItemsComeBackInOrder) {
  for (const char* item : {"c", "a", "b"}) EXPECT_TRUE(queue_->Add(item));
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  EXPECT_THAT(GetAll(), ::testing::ElementsAre("c", "a", "b"));
}

TEST_F(DurableQueueTest, ItemsInProcessComeBack) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DurableQueueTest, AnItemTakenBeforeItWasWrittenIsWrittenWhileInProcess) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DurableQueueTest, ARunThatEndsInACrashIsDueAtOnceWhateverWasAddedForLater) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_TRUE(queue_->AddAfter("foo", 1h));
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DurableQueueTest, DoneItemsDoNotComeBack) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_EQ(GetNow(), "foo");
  queue_->Done("foo");
  EXPECT_TRUE(queue_->Flush());
  EXPECT_TRUE(Stored(*store_).empty());
  KillAndOpen();
  EXPECT_EQ(GetNow(), std::nullopt);
}

TEST_F(DurableQueueTest, ADoneThatWasNotWrittenIsRepeated) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_EQ(GetNow(), "foo");
  queue_->Done("foo");
  KillAndOpen();
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DurableQueueTest, AnItemDoneBeforeTheNextWriteNeverReachesTheDisk) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(queue_->Add("foo" + std::to_string(i)));
    queue_->Done(*GetNow());
  }
  EXPECT_EQ(queue_->Status().unwritten, 0u);
  EXPECT_TRUE(queue_->Flush());
  EXPECT_EQ(queue_->Counters().records_written, 0u);
  EXPECT_EQ(queue_->Counters().records_deleted, 0u);
}

TEST_F(DurableQueueTest, ClosingWritesWhatIsLeft) {
  EXPECT_TRUE(queue_->Add("foo"));
  CloseAndOpen();
  EXPECT_EQ(GetNow(), "foo");
  queue_->Done("foo");
  CloseAndOpen();
  EXPECT_EQ(GetNow(), std::nullopt);
}

// More acknowledgements than one transaction takes, beside items whose stored records are replaced.
TEST_F(DurableQueueTest, ClosingWritesEveryAcknowledgement) {
  constexpr int kDone = 3000, kRaised = 1000;
  for (int i = 0; i < kDone; ++i) EXPECT_TRUE(queue_->AddWithPriority(std::to_string(i), 1));
  for (int i = 0; i < kRaised; ++i) EXPECT_TRUE(queue_->Add("later" + std::to_string(i)));
  EXPECT_TRUE(queue_->Flush());
  for (int i = 0; i < kDone; ++i) queue_->Done(*GetNow());
  for (int i = 0; i < kRaised; ++i) {
    EXPECT_TRUE(queue_->AddWithPriority("later" + std::to_string(i), 2));
  }
  queue_.reset();
  EXPECT_EQ(Stored(*store_).size(), size_t{kRaised});
}

TEST_F(DurableQueueTest, DelaysAreAbsolute) {
  EXPECT_TRUE(queue_->AddAfter("soon", 10s));
  EXPECT_TRUE(queue_->AddAfter("later", 60s));
  EXPECT_TRUE(queue_->Flush());
  clock_.Advance(30s);  // while down
  KillAndOpen();
  EXPECT_EQ(GetNow(), "soon");
  EXPECT_EQ(GetNow(), std::nullopt);
  clock_.Advance(30s - 1ms);
  EXPECT_EQ(GetNow(), std::nullopt);
  clock_.Advance(1ms);
  EXPECT_EQ(GetNow(), "later");
}

// A machine that starts with its clock at 1970, or that wrote while it was years ahead.
TEST_F(DurableQueueTest, ACalendarThatIsWrongPutsNoItemOffForLongerThanItsDelay) {
  EXPECT_TRUE(queue_->AddAfter("foo", 10s));
  EXPECT_TRUE(queue_->Flush());
  WorkQueueTestPeer::Kill(std::move(queue_));
  FakeClock wrong(Clock::Wall(1000s));
  WorkQueueOptions options = Options();
  options.clock = &wrong;
  queue_ = OpenQueue(std::move(options));
  wrong.Advance(10s - 1ms);
  EXPECT_EQ(GetNow(), std::nullopt);
  wrong.Advance(1ms);
  EXPECT_EQ(GetNow(), "foo");
  queue_.reset();  // before its clock
}

TEST_F(DurableQueueTest, ACalendarThatIsWrongPutsOffNothingAnewAtEachRestart) {
  EXPECT_TRUE(queue_->AddAfter("foo", 10s));
  EXPECT_TRUE(queue_->Flush());
  FakeClock set_back(Clock::Wall(1000s));
  const auto restart = [&] {
    WorkQueueTestPeer::Kill(std::move(queue_));
    WorkQueueOptions options = Options();
    options.clock = &set_back;
    queue_ = OpenQueue(std::move(options));
  };
  restart();
  set_back.Advance(6s);
  EXPECT_TRUE(queue_->Flush());
  restart();
  EXPECT_EQ(Stored(*store_).size(), 1u);
  set_back.Advance(4s - 1ms);
  EXPECT_EQ(GetNow(), std::nullopt);
  set_back.Advance(1ms);
  EXPECT_EQ(GetNow(), "foo");
  queue_.reset();  // before its clock
}

TEST_F(DurableQueueTest, TheLongestDelayIsForEverAlsoAfterARestart) {
  EXPECT_TRUE(queue_->AddAfter("foo", WorkQueue::kForever));
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  clock_.Advance(std::chrono::hours(24 * 365));
  EXPECT_EQ(GetNow(), std::nullopt);
  EXPECT_EQ(Stored(*store_).size(), 1u);
}

TEST_F(DurableQueueTest, FailureCountsSurviveAndTheBackoffGoesOn) {
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  EXPECT_EQ(queue_->NumRequeues("foo"), 3u);
  clock_.Advance(1s);
  EXPECT_EQ(queue_->GetWithPriority({}, kNoWait)->failures, 3u);
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  queue_->Done("foo");
  clock_.Advance(39ms);
  EXPECT_EQ(GetNow(), std::nullopt);
  clock_.Advance(1ms);
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DurableQueueTest, TheLastErrorOfAnItemThatIsTriedAgainIsStored) {
  const auto stored = [&] {
    EXPECT_TRUE(queue_->Flush());
    const auto items = Stored(*store_);
    return items.empty() ? std::string("none") : items.back().record.last_error;
  };
  EXPECT_TRUE(queue_->AddRateLimited("foo", "first"));
  EXPECT_TRUE(queue_->AddRateLimited("foo", "second"));
  EXPECT_EQ(stored(), "second");
  KillAndOpen();
  // It stays through a run that is not over, and through an event.
  clock_.Advance(1s);
  EXPECT_EQ(GetNow(), "foo");
  Transaction transaction = store_->Begin();
  WorkQueue::Staged staged = queue_->Stage(transaction, "foo");
  EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  queue_->Committed(std::move(staged));
  EXPECT_EQ(stored(), "second");
  // Not a part of a character, and not all of a long one.
  EXPECT_TRUE(queue_->AddRateLimited("foo", std::string(255, 'x') + "\u00e4"));
  EXPECT_EQ(stored(), std::string(255, 'x'));
  queue_->Forget("foo");
  EXPECT_EQ(stored(), "");
  queue_->Done("foo");
  EXPECT_EQ(GetNow(), "foo");
  queue_->Done("foo");
  EXPECT_EQ(stored(), "none");
}

TEST_F(DurableQueueTest, ForgottenFailuresStayForgotten) {
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  EXPECT_TRUE(queue_->Flush());
  queue_->Forget("foo");
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  EXPECT_EQ(queue_->NumRequeues("foo"), 0u);
}

TEST_F(DurableQueueTest, PrioritiesSurvive) {
  EXPECT_TRUE(queue_->AddWithPriority("low", -100));
  EXPECT_TRUE(queue_->AddWithPriority("high", 100));
  EXPECT_TRUE(queue_->Add("raised"));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_TRUE(queue_->AddWithPriority("raised", 200));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_EQ(Stored(*store_).size(), 3u);
  KillAndOpen();
  EXPECT_THAT(GetAll(), ::testing::ElementsAre("raised", "high", "low"));
}

TEST_F(DurableQueueTest, DeadLettersSurviveAndAreRequeued) {
  max_retries_ = 0;
  CloseAndOpen();
  EXPECT_TRUE(queue_->AddRateLimited("foo", "the reason"));
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  EXPECT_EQ(GetNow(), std::nullopt);
  ASSERT_EQ(queue_->DeadLetters().size(), 1u);
  EXPECT_EQ(queue_->DeadLetters()[0].last_error, "the reason");
  EXPECT_EQ(queue_->DeadLetters()[0].failures, 1u);
  EXPECT_EQ(queue_->DeadLetters()[0].died_ms, 1'700'000'000'000);
  EXPECT_TRUE(queue_->Requeue("foo"));
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  EXPECT_TRUE(queue_->DeadLetters().empty());
  EXPECT_EQ(queue_->GetWithPriority({}, kNoWait)->failures, 0u);
}

TEST_F(DurableQueueTest, ADroppedDeadLetterIsGone) {
  max_retries_ = 0;
  CloseAndOpen();
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_TRUE(queue_->Drop("foo"));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_TRUE(Stored(*store_).empty());
}

TEST_F(DurableQueueTest, ItemsAddedAfterShutDownAreForTheNextStart) {
  EXPECT_TRUE(queue_->Add("failing"));
  EXPECT_EQ(GetNow(), "failing");
  queue_->ShutDown();
  EXPECT_TRUE(queue_->AddRateLimited("failing"));
  queue_->Done("failing");
  EXPECT_TRUE(queue_->Add("new"));
  EXPECT_EQ(queue_->Get(), std::nullopt);
  CloseAndOpen();
  clock_.Advance(1s);
  EXPECT_THAT(GetAll(), ::testing::UnorderedElementsAre("failing", "new"));
}

TEST_F(DurableQueueTest, SyncAddsAreOnDiskWhenTheyReturn) {
  AddOptions sync;
  sync.durability = Durability::kSync;
  EXPECT_TRUE(queue_->AddWithOptions("foo", sync));
  EXPECT_EQ(Stored(*store_).size(), 1u);
  const uint64_t flushes = queue_->Counters().flushes;
  // It is there already: nothing to write and nothing to wait for.
  EXPECT_TRUE(queue_->AddWithOptions("foo", sync));
  EXPECT_EQ(queue_->Counters().flushes, flushes);
  KillAndOpen();
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DurableQueueTest, ConcurrentSyncAddsShareCommits) {
  constexpr int kThreads = 16;
  constexpr int kEach = 20;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      AddOptions sync;
      sync.durability = Durability::kSync;
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(queue_->AddWithOptions(std::to_string(t) + "/" + std::to_string(i), sync));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(Stored(*store_).size(), static_cast<size_t>(kThreads * kEach));
  // Groups of nearly all threads each, a few smaller ones where a thread was late.
  EXPECT_LT(queue_->Counters().flushes, static_cast<uint64_t>(kThreads * kEach) / 3);
}

TEST_F(DurableQueueTest, AStagedItemIsStoredIfAndOnlyIfItsTransactionIs) {
  {
    Transaction dropped = store_->Begin();
    WorkQueue::Staged staged = queue_->Stage(dropped, "dropped");
    EXPECT_EQ(staged.size(), 1u);
  }
  EXPECT_EQ(GetNow(), std::nullopt);
  EXPECT_TRUE(Stored(*store_).empty());

  Transaction transaction = store_->Begin();
  WorkQueue::Staged staged;
  queue_->Stage(transaction, "a", 0, &staged);
  queue_->Stage(transaction, "b", 5, &staged);
  EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  EXPECT_EQ(GetNow(), std::nullopt);  // not before Committed
  EXPECT_EQ(Stored(*store_).size(), 2u);
  queue_->Committed(std::move(staged));
  EXPECT_EQ(queue_->Status().unwritten, 0u);  // it is written already
  EXPECT_THAT(GetAll(), ::testing::ElementsAre("b", "a"));
}

TEST_F(DurableQueueTest, AStagedItemSurvivesACrashBeforeCommittedWasCalled) {
  Transaction transaction = store_->Begin();
  WorkQueue::Staged staged = queue_->Stage(transaction, "foo");
  EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  KillAndOpen();
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DurableQueueTest, AnItemThatIsTooLongIsNotStaged) {
  // Of 16 bits for the length, and of the largest class of nodes.
  for (const size_t bytes : {WorkQueue::kMaxItemBytes + 1, size_t{70'000}, size_t{300'000}}) {
    const std::string item(bytes, 'x');
    Transaction transaction = store_->Begin();
    WorkQueue::Staged staged;
    const Result<void> refused = queue_->Stage(transaction, item, 0, &staged);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(queue_->Stage(transaction, item).size(), 0u);
    EXPECT_TRUE(queue_->Stage(transaction, "short", 0, &staged));
    EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
    queue_->Committed(std::move(staged));
    EXPECT_THAT(GetAll(), ::testing::ElementsAre("short"));
    queue_->Done("short");
    EXPECT_TRUE(queue_->Flush());
    EXPECT_TRUE(Stored(*store_).empty());
  }
}

TEST_F(DurableQueueTest, AStoredItemThatIsTooLongIsSkippedAndHidesNoOther) {
  queue_.reset();
  Transaction transaction = store_->Begin();
  transaction.PutQueueItem("test", "a", 1, {});
  transaction.PutQueueItem("test", std::string(300'000, 'b'), 2, {});
  transaction.PutQueueItem("test", "c", 3, {});
  EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  Open();
  EXPECT_THAT(GetAll(), ::testing::ElementsAre("a", "c"));
}

TEST_F(DurableQueueTest, DoneDoesNotRemoveWhatAnEventStoredMeanwhile) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_EQ(GetNow(), "foo");
  Transaction transaction = store_->Begin();
  WorkQueue::Staged staged = queue_->Stage(transaction, "foo");
  EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  queue_->Done("foo");
  EXPECT_TRUE(queue_->Flush());
  EXPECT_EQ(Stored(*store_).size(), 1u);
  queue_->Committed(std::move(staged));
  EXPECT_EQ(GetNow(), "foo");
  KillAndOpen();
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DurableQueueTest, StagedItemsOfOneKeyLeaveOneRecord) {
  for (int i = 0; i < 10; ++i) {
    Transaction transaction = store_->Begin();
    WorkQueue::Staged staged = queue_->Stage(transaction, "foo", i % 3);
    EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
    queue_->Committed(std::move(staged));
  }
  EXPECT_EQ(Stored(*store_).size(), 10u);
  EXPECT_TRUE(queue_->Flush());
  ASSERT_EQ(Stored(*store_).size(), 1u);
  EXPECT_EQ(Stored(*store_)[0].record.priority, 2);
  EXPECT_EQ(queue_->Len(), 1u);
}

TEST_F(DurableQueueTest, AnEventMakesADelayedRetryReadyAndKeepsItsFailures) {
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  EXPECT_TRUE(queue_->Flush());
  Transaction transaction = store_->Begin();
  WorkQueue::Staged staged = queue_->Stage(transaction, "foo");
  EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  queue_->Committed(std::move(staged));
  EXPECT_TRUE(queue_->Flush());
  ASSERT_EQ(Stored(*store_).size(), 1u);
  KillAndOpen();
  const auto item = queue_->GetWithPriority({}, kNoWait);
  ASSERT_TRUE(item);
  EXPECT_EQ(item->failures, 1u);
}

TEST_F(DurableQueueTest, SeveralGenerationsOfAnItemMergeWhenLoaded) {
  queue_.reset();
  Transaction transaction = store_->Begin();
  QueueRecord record;
  record.not_before_ms = 1'700'000'060'000;
  record.priority = 3;
  transaction.PutQueueItem("test", "foo", 1, record);
  record.not_before_ms = 1'700'000'030'000;
  record.priority = 1;
  record.failures = 4;
  transaction.PutQueueItem("test", "foo", 2, record);
  EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  Open();
  EXPECT_TRUE(queue_->Flush());
  ASSERT_EQ(Stored(*store_).size(), 1u);
  clock_.Advance(30s);
  const auto item = queue_->GetWithPriority({}, kNoWait);
  ASSERT_TRUE(item);
  EXPECT_EQ(item->priority, 3);
  EXPECT_EQ(item->failures, 4u);
  queue_->Done("foo");
  EXPECT_TRUE(queue_->Flush());
  EXPECT_TRUE(Stored(*store_).empty());
}

TEST_F(DurableQueueTest, ItemsBroughtByAToolAreLoaded) {
  // No process opened this queue before, so nothing says which generations are in use.
  Transaction transaction = store_->Begin();
  transaction.PutQueueItem("other", "foo", uint64_t{7} << 40, {});
  EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  WorkQueueOptions options = Options();
  options.name = "other";
  auto other = OpenQueue(std::move(options));
  EXPECT_EQ(other->Get({}, kNoWait), "foo");
}

TEST_F(DurableQueueTest, AQueueIsOpenedOnce) {
  const auto second = WorkQueue::Open(Options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  queue_.reset();
  EXPECT_TRUE(WorkQueue::Open(Options()));
}

TEST_F(DurableQueueTest, ADurableQueueNeedsAName) {
  WorkQueueOptions options = Options();
  options.name.clear();
  const auto queue = WorkQueue::Open(std::move(options));
  ASSERT_FALSE(queue);
  EXPECT_EQ(queue.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(DurableQueueTest, QueuesOfOneStoreAreSeparate) {
  WorkQueueOptions options = Options();
  options.name = "test/other";
  auto other = OpenQueue(std::move(options));
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(other->Add("bar"));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_TRUE(other->Flush());
  KillAndOpen();
  EXPECT_THAT(GetAll(), ::testing::ElementsAre("foo"));
}

}  // namespace
}  // namespace larder
