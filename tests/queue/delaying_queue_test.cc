// Delays and retries, on a clock that the test moves.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "queue/work_queue.h"
#include "tests/queue/queue_harness.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

class DelayingQueueTest : public ::testing::Test {
 protected:
  void Open(WorkQueueOptions options = {}) {
    options.clock = &clock_;
    queue_ = OpenQueue(std::move(options));
  }
  std::optional<std::string> GetNow() { return queue_->Get({}, kNoWait); }
  void AwaitWaiters(size_t count) {
    while (clock_.Waiters() < count) std::this_thread::yield();
  }

  FakeClock clock_;
  std::unique_ptr<WorkQueue> queue_ = OpenQueue([this] {
    WorkQueueOptions options;
    options.clock = &clock_;
    return options;
  }());
};

TEST_F(DelayingQueueTest, AnItemIsReadyWhenItsDelayIsOver) {
  EXPECT_TRUE(queue_->AddAfter("foo", 50ms));
  EXPECT_EQ(queue_->Len(), 0u);
  clock_.Advance(60ms);
  EXPECT_EQ(queue_->Len(), 1u);
  EXPECT_EQ(GetNow(), "foo");
  queue_->Done("foo");
  clock_.Advance(10s);
  EXPECT_EQ(queue_->Len(), 0u);
}

TEST_F(DelayingQueueTest, TheLongestDelayIsForEver) {
  EXPECT_TRUE(queue_->AddAfter("foo", WorkQueue::kForever));
  EXPECT_EQ(GetNow(), std::nullopt);
  clock_.Advance(std::chrono::hours(24 * 365 * 100));
  EXPECT_EQ(GetNow(), std::nullopt);
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(queue_->Get({}, WorkQueue::kForever - 1ns), "foo");
}

TEST_F(DelayingQueueTest, OfTwoDelaysTheEarlierCounts) {
  EXPECT_TRUE(queue_->AddAfter("foo", 50ms));
  EXPECT_TRUE(queue_->AddAfter("foo", 70ms));
  clock_.Advance(60ms);
  EXPECT_EQ(GetNow(), "foo");
  queue_->Done("foo");
  clock_.Advance(20ms);
  EXPECT_EQ(queue_->Len(), 0u);

  EXPECT_TRUE(queue_->AddAfter("foo", 50ms));
  EXPECT_TRUE(queue_->AddAfter("foo", 30ms));
  EXPECT_EQ(queue_->Len(), 0u);
  clock_.Advance(40ms);
  EXPECT_EQ(GetNow(), "foo");
  queue_->Done("foo");
  clock_.Advance(20ms);
  EXPECT_EQ(queue_->Len(), 0u);
}

TEST_F(DelayingQueueTest, TheItemThatIsDueFirstComesFirst) {
  EXPECT_TRUE(queue_->AddAfter("first", 1s));
  EXPECT_TRUE(queue_->AddAfter("second", 50ms));
  clock_.Advance(60ms);
  EXPECT_EQ(GetNow(), "second");
  EXPECT_TRUE(queue_->AddAfter("third", 2s));
  clock_.Advance(1s);
  EXPECT_EQ(GetNow(), "first");
  EXPECT_EQ(GetNow(), std::nullopt);
  clock_.Advance(2s);
  EXPECT_EQ(GetNow(), "third");
}

TEST_F(DelayingQueueTest, ItemsThatAreDueTogetherComeInTheOrderOfTheirTimes) {
  EXPECT_TRUE(queue_->AddAfter("first", 1s));
  EXPECT_TRUE(queue_->AddAfter("second", 500ms));
  EXPECT_TRUE(queue_->AddAfter("third", 250ms));
  EXPECT_EQ(queue_->Len(), 0u);
  clock_.Advance(2s);
  EXPECT_EQ(queue_->Len(), 3u);
  EXPECT_EQ(GetNow(), "third");
  EXPECT_EQ(GetNow(), "second");
  EXPECT_EQ(GetNow(), "first");
}

TEST_F(DelayingQueueTest, ManyDelaysComeInOrder) {
  // Enough to move entries through every level of the heap, with removals from its middle.
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(queue_->AddAfter(std::to_string(i), std::chrono::seconds(1 + (i * 7919) % 1000)));
  }
  for (int i = 0; i < 1000; i += 3) EXPECT_TRUE(queue_->Add(std::to_string(i)));
  for (int i = 0; i < 1000; i += 3) EXPECT_EQ(GetNow(), std::to_string(i));
  clock_.Advance(1001s);
  int last = 0;
  int count = 0;
  while (auto item = GetNow()) {
    const int due = 1 + (std::stoi(*item) * 7919) % 1000;
    EXPECT_GE(due, last);
    last = due;
    ++count;
  }
  EXPECT_EQ(count, 666);
}

TEST_F(DelayingQueueTest, AddingWithoutDelayMakesADelayedItemReady) {
  EXPECT_TRUE(queue_->AddAfter("foo", 1h));
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), "foo");
  queue_->Done("foo");
  clock_.Advance(2h);
  EXPECT_EQ(queue_->Len(), 0u);
}

TEST_F(DelayingQueueTest, ADelayOfZeroOrLessIsReadyAtOnce) {
  EXPECT_TRUE(queue_->AddAfter("zero", 0s));
  EXPECT_TRUE(queue_->AddAfter("less", -5s));
  EXPECT_EQ(GetNow(), "zero");
  EXPECT_EQ(GetNow(), "less");
}

TEST_F(DelayingQueueTest, ADelayThatEndsWhileInProcessWaitsForDone) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_TRUE(queue_->AddAfter("foo", 1s));
  clock_.Advance(2s);
  EXPECT_EQ(GetNow(), std::nullopt);
  queue_->Done("foo");
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DelayingQueueTest, AWaitingWorkerIsWokenWhenTheDelayIsOver) {
  std::atomic<bool> got = false;
  std::jthread worker([&] {
    EXPECT_EQ(queue_->Get(), "foo");
    got = true;
  });
  AwaitWaiters(1);
  EXPECT_TRUE(queue_->AddAfter("foo", 1s));
  EXPECT_FALSE(got);
  // The worker may have to wake once to set its alarm; the time must not pass before that is done
  // or seen.
  clock_.Advance(1s);
  worker.join();
}

TEST_F(DelayingQueueTest, EveryWaitingWorkerGetsItsDelayedItem) {
  std::vector<std::jthread> workers;
  std::atomic<int> got = 0;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] {
      if (queue_->Get()) ++got;
    });
  }
  AwaitWaiters(4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(queue_->AddAfter(std::to_string(i), std::chrono::seconds(4 - i)));
  }
  clock_.Advance(10s);
  workers.clear();
  EXPECT_EQ(got, 4);
}

TEST_F(DelayingQueueTest, AnEarlierDelayMovesTheAlarmOfAWaitingWorker) {
  std::jthread worker([&] { EXPECT_EQ(queue_->Get(), "soon"); });
  AwaitWaiters(1);
  EXPECT_TRUE(queue_->AddAfter("late", 1h));
  EXPECT_TRUE(queue_->AddAfter("soon", 1s));
  clock_.Advance(1s);
  worker.join();
}

TEST_F(DelayingQueueTest, RateLimitedItemsBackOffPerItem) {
  WorkQueueOptions options;
  options.rate_limiter = std::make_unique<ItemExponentialRateLimiter>(1ms, 1s);
  Open(std::move(options));
  const auto expect_due_after = [this](const std::string& item, std::chrono::milliseconds delay) {
    clock_.Advance(delay - 1us);
    EXPECT_EQ(GetNow(), std::nullopt) << item;
    clock_.Advance(1us);
    EXPECT_EQ(GetNow(), item);
    queue_->Done(item);
  };
  for (const std::string item : {"one", "two"}) {
    EXPECT_TRUE(queue_->AddRateLimited(item));
    expect_due_after(item, 1ms);
    EXPECT_TRUE(queue_->AddRateLimited(item));
    expect_due_after(item, 2ms);
    EXPECT_EQ(queue_->NumRequeues(item), 2u);
  }
  queue_->Forget("one");
  EXPECT_EQ(queue_->NumRequeues("one"), 0u);
  EXPECT_TRUE(queue_->AddRateLimited("one"));
  expect_due_after("one", 1ms);
  EXPECT_EQ(queue_->NumRequeues("two"), 2u);
}

TEST_F(DelayingQueueTest, RetriesThatAreUsedUpMakeADeadLetter) {
  WorkQueueOptions options;
  options.max_retries = 2;
  Open(std::move(options));
  EXPECT_TRUE(queue_->Add("foo"));
  for (int run = 0; run < 3; ++run) {
    clock_.Advance(1min);
    ASSERT_EQ(GetNow(), "foo");
    EXPECT_TRUE(queue_->AddRateLimited("foo", "error " + std::to_string(run)));
    queue_->Done("foo");
  }
  clock_.Advance(1h);
  EXPECT_EQ(GetNow(), std::nullopt);
  const std::vector<DeadLetter> dead = queue_->DeadLetters();
  ASSERT_EQ(dead.size(), 1u);
  EXPECT_EQ(dead[0].item, "foo");
  EXPECT_EQ(dead[0].failures, 3u);
  EXPECT_EQ(dead[0].last_error, "error 2");
}

TEST_F(DelayingQueueTest, ADeadLetterIsRequeuedWithNoFailures) {
  WorkQueueOptions options;
  options.max_retries = 0;
  Open(std::move(options));
  EXPECT_TRUE(queue_->AddRateLimited("foo", "broken"));
  ASSERT_EQ(queue_->DeadLetters().size(), 1u);
  EXPECT_EQ(queue_->Requeue("bar").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(queue_->Requeue("foo"));
  EXPECT_EQ(queue_->Requeue("foo").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(queue_->DeadLetters().empty());
  EXPECT_EQ(queue_->NumRequeues("foo"), 0u);
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DelayingQueueTest, ADeadLetterIsRequeuedWithItsPriority) {
  WorkQueueOptions options;
  options.max_retries = 0;
  Open(std::move(options));
  EXPECT_TRUE(queue_->AddWithPriority("foo", 7));
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_TRUE(queue_->AddRateLimited("foo", "broken"));
  queue_->Done("foo");
  ASSERT_EQ(queue_->DeadLetters().size(), 1u);
  EXPECT_EQ(queue_->DeadLetters()[0].priority, 7);
  EXPECT_TRUE(queue_->Requeue("foo"));
  EXPECT_EQ(queue_->GetWithPriority({}, kNoWait)->priority, 7);
}

TEST_F(DelayingQueueTest, ADeadLetterIsDropped) {
  WorkQueueOptions options;
  options.max_retries = 0;
  Open(std::move(options));
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  EXPECT_EQ(queue_->Drop("bar").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(queue_->Drop("foo"));
  EXPECT_TRUE(queue_->DeadLetters().empty());
  EXPECT_EQ(queue_->Counters().items, 0u);
}

TEST_F(DelayingQueueTest, SomethingNewBringsADeadLetterBackToWork) {
  WorkQueueOptions options;
  options.max_retries = 0;
  Open(std::move(options));
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(queue_->DeadLetters().empty());
  EXPECT_EQ(GetNow(), "foo");
}

TEST_F(DelayingQueueTest, AnItemIsNotGivenUpWhileSomethingNewWaits) {
  WorkQueueOptions options;
  options.max_retries = 0;
  Open(std::move(options));
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  queue_->Done("foo");
  EXPECT_TRUE(queue_->DeadLetters().empty());
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  queue_->Done("foo");
  EXPECT_EQ(queue_->DeadLetters().size(), 1u);
}

}  // namespace
}  // namespace larder
