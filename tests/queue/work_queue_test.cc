// The queue's rules, in memory and on disk alike.
#include "queue/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/queue/queue_harness.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

enum class Kept { kInMemory, kOnDisk };

class WorkQueueTest : public ::testing::TestWithParam<Kept> {
 protected:
  WorkQueueTest() {
    if (GetParam() == Kept::kOnDisk) store_ = std::make_unique<TempStore>();
    queue_ = OpenQueue(ManualOptions(store_ ? store_->get() : nullptr, &clock_));
  }

  std::optional<std::string> GetNow() { return queue_->Get({}, kNoWait); }
  void AwaitWaiters(size_t count) {
    while (clock_.Waiters() < count) std::this_thread::yield();
  }

  FakeClock clock_;
  std::unique_ptr<TempStore> store_;
  std::unique_ptr<WorkQueue> queue_;
};

INSTANTIATE_TEST_SUITE_P(Kept, WorkQueueTest, ::testing::Values(Kept::kInMemory, Kept::kOnDisk),
                         [](const auto& kept) {
                           return kept.param == Kept::kInMemory ? "InMemory" : "OnDisk";
                         });

// Twenty producers, ten workers; then the given way to shut down. Nothing runs twice at once,
// nothing is left.
void RunManyProducersAndWorkers(WorkQueue& queue, bool drain) {
  std::mutex mutex;
  std::set<std::string> running;
  std::map<std::string, int> runs;
  std::vector<std::jthread> workers;
  for (int w = 0; w < 10; ++w) {
    workers.emplace_back([&] {
      while (auto item = queue.Get()) {
        {
          std::lock_guard lock(mutex);
          EXPECT_TRUE(running.insert(*item).second) << *item << " runs twice at once";
          ++runs[*item];
        }
        std::this_thread::yield();
        {
          std::lock_guard lock(mutex);
          running.erase(*item);
        }
        queue.Done(*item);
      }
    });
  }
  std::vector<std::jthread> producers;
  for (int p = 0; p < 20; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(queue.Add("item-" + std::to_string(p)));
    });
  }
  producers.clear();
  drain ? queue.ShutDownWithDrain() : queue.ShutDown();
  static_cast<void>(queue.Add("added after shutdown"));
  workers.clear();
  EXPECT_EQ(queue.Len(), 0u);
  EXPECT_EQ(runs.size(), 20u);
  EXPECT_EQ(runs.count("added after shutdown"), 0u);
}

TEST_P(WorkQueueTest, ManyProducersAndWorkersLoseNothing) {
  RunManyProducersAndWorkers(*queue_, /*drain=*/false);
}

TEST_P(WorkQueueTest, ManyProducersAndWorkersLoseNothingWhenDrained) {
  RunManyProducersAndWorkers(*queue_, /*drain=*/true);
}

TEST_P(WorkQueueTest, ItemsAddedAgainByTheirWorkersAreAllRun) {
  constexpr int kItems = 50;
  std::mutex mutex;
  std::map<std::string, int> runs;
  std::vector<std::jthread> workers;
  for (int w = 0; w < 10; ++w) {
    workers.emplace_back([&] {
      while (auto item = queue_->Get()) {
        bool first = false;
        {
          std::lock_guard lock(mutex);
          first = ++runs[*item] == 1;
        }
        if (first) {
          EXPECT_TRUE(queue_->Add(*item));
        }
        queue_->Done(*item);
      }
    });
  }
  for (int i = 0; i < kItems; ++i) EXPECT_TRUE(queue_->Add(std::to_string(i)));
  const auto all_ran_twice = [&] {
    std::lock_guard lock(mutex);
    int ran = 0;
    for (const auto& entry : runs) ran += entry.second == 2;
    return ran == kItems;
  };
  while (!all_ran_twice()) std::this_thread::yield();
  queue_->ShutDownWithDrain();
  workers.clear();
  EXPECT_EQ(queue_->Len(), 0u);
  EXPECT_EQ(queue_->Counters().items, 0u);
}

TEST_P(WorkQueueTest, LenCountsAnItemOnce) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(queue_->Len(), 1u);
  EXPECT_TRUE(queue_->Add("bar"));
  EXPECT_EQ(queue_->Len(), 2u);
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(queue_->Len(), 2u);
}

TEST_P(WorkQueueTest, HandsOutInTheOrderOfAdding) {
  for (const char* item : {"c", "a", "b", "a"}) EXPECT_TRUE(queue_->Add(item));
  EXPECT_EQ(GetNow(), "c");
  EXPECT_EQ(GetNow(), "a");
  EXPECT_EQ(GetNow(), "b");
  EXPECT_EQ(GetNow(), std::nullopt);
}

TEST_P(WorkQueueTest, AddedAgainWhileInProcessRunsOnceMoreAfterDone) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), std::nullopt);
  queue_->Done("foo");
  EXPECT_EQ(GetNow(), "foo");
  queue_->Done("foo");
  EXPECT_EQ(queue_->Len(), 0u);
  EXPECT_EQ(GetNow(), std::nullopt);
}

TEST_P(WorkQueueTest, AddedTwiceRunsOnce) {
  EXPECT_TRUE(queue_->Add("bar"));
  EXPECT_TRUE(queue_->Add("bar"));
  EXPECT_EQ(GetNow(), "bar");
  queue_->Done("bar");
  EXPECT_EQ(queue_->Len(), 0u);
  EXPECT_EQ(GetNow(), std::nullopt);
}

TEST_P(WorkQueueTest, AddedTwiceWhileInProcessWaitsForDoneAndRunsOnce) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(queue_->Add("foo"));
  std::atomic<bool> got = false;
  std::jthread worker([&] {
    EXPECT_EQ(queue_->Get(), "foo");
    got = true;
    queue_->Done("foo");
  });
  AwaitWaiters(1);
  EXPECT_FALSE(got);
  queue_->Done("foo");
  worker.join();
  EXPECT_TRUE(got);
  EXPECT_EQ(queue_->Len(), 0u);
}

TEST_P(WorkQueueTest, DrainWaitsForItemsInProcess) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(queue_->Add("bar"));
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_EQ(GetNow(), "bar");
  std::atomic<bool> drained = false;
  std::jthread drain([&] {
    queue_->ShutDownWithDrain();
    drained = true;
  });
  EXPECT_EQ(queue_->Get(), std::nullopt);  // returns when the shutdown has begun
  EXPECT_TRUE(queue_->ShuttingDown());
  queue_->Done("foo");
  EXPECT_FALSE(drained);
  queue_->Done("bar");
  drain.join();
  EXPECT_TRUE(drained);
}

TEST_P(WorkQueueTest, ShutDownDoesNotWaitForItemsInProcess) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), "foo");
  queue_->ShutDown();
  EXPECT_TRUE(queue_->ShuttingDown());
}

TEST_P(WorkQueueTest, ShutDownEndsADrain) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), "foo");
  std::jthread drain([&] { queue_->ShutDownWithDrain(); });
  EXPECT_EQ(queue_->Get(), std::nullopt);
  queue_->ShutDown();
  drain.join();
}

TEST_P(WorkQueueTest, DrainRunsAnItemThatWasAddedAgainBefore) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_TRUE(queue_->Add("foo"));
  std::jthread drain([&] { queue_->ShutDownWithDrain(); });
  EXPECT_EQ(queue_->Get(), std::nullopt);
  queue_->Done("foo");
  EXPECT_EQ(queue_->Get(), "foo");
  queue_->Done("foo");
  EXPECT_EQ(queue_->Get(), std::nullopt);
  drain.join();
}

TEST_P(WorkQueueTest, ShutDownStillHandsOutWhatIsReady) {
  EXPECT_TRUE(queue_->Add("foo"));
  queue_->ShutDown();
  EXPECT_EQ(queue_->Get(), "foo");
  queue_->Done("foo");
  EXPECT_EQ(queue_->Get(), std::nullopt);
}

TEST_P(WorkQueueTest, NothingIsHandedOutThatWasAddedAfterShutDown) {
  queue_->ShutDown();
  const Result<void> added = queue_->Add("late");
  EXPECT_EQ(added.has_value(), GetParam() == Kept::kOnDisk);
  static_cast<void>(queue_->AddAfter("later", 1s));
  clock_.Advance(2s);
  EXPECT_EQ(queue_->Get(), std::nullopt);
  EXPECT_EQ(queue_->Get(), std::nullopt);
  EXPECT_EQ(queue_->Len(), 0u);
}

TEST_P(WorkQueueTest, KeepsNothingOfAnItemThatIsDone) {
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(queue_->Counters().items, 1u);
  EXPECT_EQ(GetNow(), "foo");
  EXPECT_EQ(queue_->Counters().items, 1u);
  queue_->Done("foo");
  EXPECT_EQ(queue_->Counters().items, 0u);
}

TEST_P(WorkQueueTest, DoneOfAnItemThatIsNotInProcessDoesNothing) {
  queue_->Done("unknown");
  EXPECT_TRUE(queue_->Add("foo"));
  queue_->Done("foo");
  EXPECT_EQ(GetNow(), "foo");
}

TEST_P(WorkQueueTest, GetEndsWhenAStopIsRequested) {
  std::jthread worker(
      [&](const std::stop_token& stop) { EXPECT_EQ(queue_->Get(stop), std::nullopt); });
  AwaitWaiters(1);
  worker.request_stop();
  worker.join();
  EXPECT_FALSE(queue_->ShuttingDown());
}

TEST_P(WorkQueueTest, GetEndsWhenItsTimeIsOver) {
  std::jthread worker([&] { EXPECT_EQ(queue_->Get({}, 5s), std::nullopt); });
  AwaitWaiters(1);
  clock_.Advance(5s);
  worker.join();
}

TEST_P(WorkQueueTest, AWorkerThatStopsPassesItsWakeUpOn) {
  for (int round = 0; round < 200; ++round) {
    std::jthread stays([&] {
      EXPECT_EQ(queue_->Get(), "foo");
      queue_->Done("foo");
    });
    std::jthread leaves([&](const std::stop_token& stop) {
      if (auto item = queue_->Get(stop)) {
        queue_->Done(*item);
        EXPECT_TRUE(queue_->Add(*item));
      }
    });
    AwaitWaiters(2);
    std::jthread adder([&] { EXPECT_TRUE(queue_->Add("foo")); });
    leaves.request_stop();
  }
}

TEST_P(WorkQueueTest, RefusesAnItemThatIsTooLong) {
  const Result<void> added = queue_->Add(std::string(WorkQueue::kMaxItemBytes + 1, 'x'));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(queue_->Add(std::string(WorkQueue::kMaxItemBytes, 'x')));
  EXPECT_TRUE(queue_->Flush());
}

TEST_P(WorkQueueTest, ItemsMayHaveAnyBytes) {
  const std::string bytes("a\0/\xff\n b", 7);
  EXPECT_TRUE(queue_->Add(bytes));
  EXPECT_TRUE(queue_->Add(""));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_EQ(GetNow(), bytes);
  EXPECT_EQ(GetNow(), "");
}

}  // namespace
}  // namespace larder
