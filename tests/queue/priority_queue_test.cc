// Priorities: the rules of controller-runtime's priority queue.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "queue/work_queue.h"
#include "tests/queue/queue_harness.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

class PriorityQueueTest : public ::testing::Test {
 protected:
  PriorityQueueTest() { Open(nullptr); }

  void Open(RateLimiterPtr limiter) {
    WorkQueueOptions options;
    options.clock = &clock_;
    options.rate_limiter = std::move(limiter);
    queue_ = OpenQueue(std::move(options));
  }
  void Add(const std::string& item, int32_t priority, WorkQueue::Duration after = {}) {
    AddOptions options;
    options.priority = priority;
    options.after = after;
    EXPECT_TRUE(queue_->AddWithOptions(item, options));
  }
  std::string Next() {
    const auto item = queue_->GetWithPriority({}, kNoWait);
    return item ? item->item + "@" + std::to_string(item->priority) : "none";
  }
  void AwaitWaiters(size_t count) {
    while (clock_.Waiters() < count) std::this_thread::yield();
  }

  FakeClock clock_;
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(PriorityQueueTest, ReturnsAnItemWithItsPriority) {
  Add("foo", 0);
  EXPECT_EQ(Next(), "foo@0");
  const QueueCounters counters = queue_->Counters();
  EXPECT_EQ(counters.depth, 0u);
  EXPECT_EQ(counters.adds, 1u);
  EXPECT_EQ(counters.retries, 0u);
}

TEST_F(PriorityQueueTest, EqualPrioritiesKeepTheirOrder) {
  Add("foo", 0);
  Add("bar", 0);
  EXPECT_EQ(Next(), "foo@0");
  EXPECT_EQ(Next(), "bar@0");
  EXPECT_EQ(queue_->Counters().adds, 2u);
}

TEST_F(PriorityQueueTest, DoesNotReturnAnItemInProcess) {
  Add("foo", 0);
  EXPECT_EQ(Next(), "foo@0");
  Add("foo", 0);
  Add("bar", 0);
  EXPECT_EQ(Next(), "bar@0");
  EXPECT_EQ(queue_->Counters().depth, 1u);
  EXPECT_EQ(queue_->Counters().adds, 3u);
}

TEST_F(PriorityQueueTest, ReturnsAnItemAddedWhileInProcessAfterDone) {
  Add("foo", 0);
  EXPECT_EQ(Next(), "foo@0");
  Add("foo", 0);
  queue_->Done("foo");
  EXPECT_EQ(queue_->Len(), 1u);
  EXPECT_EQ(Next(), "foo@0");
}

TEST_F(PriorityQueueTest, AddedTwiceIsReturnedOnce) {
  Add("foo", 0);
  Add("foo", 0);
  EXPECT_EQ(queue_->Len(), 1u);
  EXPECT_EQ(queue_->Counters().depth, 1u);
  EXPECT_EQ(queue_->Counters().adds, 1u);
}

TEST_F(PriorityQueueTest, KeepsTheHighestPriority) {
  Add("foo", 1);
  Add("foo", 2);
  EXPECT_EQ(Next(), "foo@2");
  EXPECT_EQ(queue_->Len(), 0u);
  EXPECT_EQ(queue_->Counters().adds, 1u);
}

TEST_F(PriorityQueueTest, DoesNotLowerAPriority) {
  Add("foo", 2);
  Add("foo", 1);
  EXPECT_EQ(Next(), "foo@2");
  EXPECT_EQ(queue_->Len(), 0u);
}

TEST_F(PriorityQueueTest, ARaisedItemPassesThoseOfLowerPriority) {
  Add("foo", 0);
  Add("bar", 0);
  Add("baz", 0);
  Add("baz", 1);
  EXPECT_EQ(Next(), "baz@1");
  EXPECT_EQ(queue_->Len(), 2u);
  EXPECT_EQ(queue_->Counters().adds, 3u);
}

TEST_F(PriorityQueueTest, ARaisedItemGoesBehindThoseOfItsNewPriority) {
  Add("foo", 0);
  Add("bar", 1);
  Add("foo", 1);
  EXPECT_EQ(Next(), "bar@1");
  EXPECT_EQ(Next(), "foo@1");
}

TEST_F(PriorityQueueTest, KeepsTheShortestDelay) {
  Add("foo", 0, 0s);
  Add("foo", 0, 1h);
  EXPECT_EQ(Next(), "foo@0");
  EXPECT_EQ(queue_->Len(), 0u);
}

TEST_F(PriorityQueueTest, LenLeavesOutWhatIsNotReady) {
  Add("foo", 0, 1min);
  Add("baz", 0);
  Add("bar", 0, 1min);
  Add("bal", 0);
  EXPECT_EQ(queue_->Len(), 2u);
  EXPECT_EQ(queue_->Counters().depth, 2u);
}

TEST_F(PriorityQueueTest, ItemsAreCountedWhenTheyBecomeReady) {
  for (int round = 0; round < 2; ++round) {
    Add("foo", 0, 500ms);
    Add("baz", 0);
    Add("bar", 0, 500ms);
    Add("bal", 0);
    EXPECT_EQ(queue_->Len(), 2u);
    clock_.Advance(1s);
    EXPECT_EQ(queue_->Len(), 4u);
    EXPECT_EQ(queue_->Counters().depth, 4u);
    for (int i = 0; i < 4; ++i) queue_->Done(*queue_->Get());
    EXPECT_EQ(queue_->Len(), 0u);
    EXPECT_EQ(queue_->Counters().depth, 0u);
  }
  EXPECT_EQ(queue_->Counters().adds, 8u);
}

TEST_F(PriorityQueueTest, ADelayedItemAddedWithoutDelayIsCountedOnce) {
  Add("foo", 0, 1h);
  EXPECT_EQ(queue_->Counters().depth, 0u);
  Add("foo", 1);
  EXPECT_EQ(queue_->Counters().depth, 1u);
  EXPECT_EQ(Next(), "foo@1");
  EXPECT_EQ(queue_->Counters().depth, 0u);
  EXPECT_EQ(queue_->Counters().adds, 1u);
}

TEST_F(PriorityQueueTest, AnItemWhoseDelayIsOverAddedAgainIsCountedOnce) {
  Add("foo", 0, 50ms);
  clock_.Advance(50ms);
  EXPECT_EQ(queue_->Len(), 1u);
  Add("foo", 0);
  EXPECT_EQ(queue_->Counters().depth, 1u);
  EXPECT_EQ(Next(), "foo@0");
  EXPECT_EQ(queue_->Counters().depth, 0u);
  EXPECT_EQ(queue_->Counters().adds, 1u);
}

TEST_F(PriorityQueueTest, ReturnsHigherPrioritiesFirstHoweverManyThereAre) {
  for (const auto after : {-1s, 0s, 1s}) {
    Open(nullptr);
    constexpr int kEach = 1000;
    const std::vector<int32_t> priorities = {10, 5, 0, -5, -10};
    for (int i = 0; i < kEach; ++i) {
      for (const int32_t priority : priorities) {
        Add(std::to_string(priority) + "/" + std::to_string(i), priority, after);
      }
    }
    clock_.Advance(1s);
    for (const int32_t priority : priorities) {
      for (int i = 0; i < kEach; ++i) {
        ASSERT_EQ(Next(), std::to_string(priority) + "/" + std::to_string(i) + "@" +
                              std::to_string(priority));
      }
    }
    EXPECT_EQ(queue_->Counters().adds, priorities.size() * kEach);
    EXPECT_EQ(queue_->Counters().retries, after > 0s ? priorities.size() * kEach : 0);
  }
}

TEST_F(PriorityQueueTest, AHighPriorityThatBecameReadyPassesALowOne) {
  Add("foo", -100);
  Add("prio", 0, 1s);
  clock_.Advance(1s);
  EXPECT_EQ(Next(), "prio@0");
  EXPECT_EQ(queue_->Counters().depth, 1u);
  EXPECT_EQ(queue_->Counters().retries, 1u);
}

TEST_F(PriorityQueueTest, AWaitingWorkerGetsAnItemAtOnce) {
  std::jthread worker([&] { EXPECT_EQ(queue_->Get(), "foo"); });
  AwaitWaiters(1);
  Add("foo", 0);
  worker.join();
}

TEST_F(PriorityQueueTest, AWaitingWorkerGetsADelayedItemThatIsAddedAgainWithoutDelay) {
  std::jthread worker([&] { EXPECT_EQ(queue_->Get(), "foo"); });
  AwaitWaiters(1);
  Add("foo", 0, 1min);
  Add("foo", 0);
  worker.join();
  EXPECT_EQ(queue_->Counters().adds, 1u);
}

TEST_F(PriorityQueueTest, AWaitingWorkerIsReleasedByShutDown) {
  std::jthread worker([&] { EXPECT_EQ(queue_->GetWithPriority(), std::nullopt); });
  AwaitWaiters(1);
  queue_->ShutDown();
  worker.join();
}

TEST_F(PriorityQueueTest, RateLimitedItemsDoNotAffectEachOther) {
  auto limiter = std::make_unique<ItemExponentialRateLimiter>(5ms, 1000s);
  for (int i = 0; i < 7; ++i) limiter->When("bar");
  Open(std::move(limiter));
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  EXPECT_TRUE(queue_->AddRateLimited("bar"));
  clock_.Advance(5ms);
  EXPECT_EQ(Next(), "foo@0");
  EXPECT_EQ(Next(), "none");
  clock_.Advance(635ms);
  EXPECT_EQ(Next(), "bar@0");
  EXPECT_EQ(queue_->Counters().retries, 2u);
}

TEST_F(PriorityQueueTest, ARetryKeepsThePriorityOfItsRun) {
  Add("foo", 7);
  EXPECT_EQ(Next(), "foo@7");
  EXPECT_TRUE(queue_->AddRateLimited("foo"));
  queue_->Done("foo");
  clock_.Advance(1s);
  EXPECT_EQ(Next(), "foo@7");
}

TEST_F(PriorityQueueTest, AnAddWhileInProcessHasItsOwnPriority) {
  Add("foo", -100);
  EXPECT_EQ(Next(), "foo@-100");
  EXPECT_TRUE(queue_->Add("foo"));
  queue_->Done("foo");
  EXPECT_EQ(Next(), "foo@0");
}

TEST_F(PriorityQueueTest, ManyPrioritiesComeAndGo) {
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 1000; ++i) {
      const int p = (i * 7919 + round) % 100;
      Add("foo" + std::to_string(i), p, p < 10 ? std::chrono::milliseconds(p) : 0ms);
    }
    clock_.Advance(10ms);
    int last = 1000;
    int count = 0;
    while (auto item = queue_->GetWithPriority({}, kNoWait)) {
      EXPECT_LE(item->priority, last);
      last = item->priority;
      queue_->Done(item->item);
      ++count;
    }
    ASSERT_EQ(count, 1000);
  }
}

// Producers and workers at random: handed out with the highest priority it was added with, and
// never twice at once.
TEST(PriorityQueueRandomTest, HoldsUnderConcurrency) {
  const auto seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::cout << "seed " << seed << "\n";
  WorkQueue queue;
  std::mutex mutex;
  std::map<std::string, int32_t> expected;
  std::set<std::string> handed_out;
  std::atomic<int> producing = 4;
  std::vector<std::jthread> threads;
  for (unsigned p = 0; p < 4; ++p) {
    threads.emplace_back([&, p] {
      std::mt19937 random(seed + p);
      for (int i = 0; i < 2000; ++i) {
        const std::string item = std::to_string(random() % 50);
        const auto priority = static_cast<int32_t>(random() % 100) - 50;
        std::lock_guard lock(mutex);
        EXPECT_TRUE(queue.AddWithPriority(item, priority));
        const auto found = expected.try_emplace(item, priority).first;
        found->second = std::max(found->second, priority);
      }
      --producing;
    });
  }
  for (int w = 0; w < 8; ++w) {
    threads.emplace_back([&] {
      for (;;) {
        std::optional<WorkItem> item;
        {
          std::lock_guard lock(mutex);
          item = queue.GetWithPriority({}, kNoWait);
          if (item) {
            EXPECT_EQ(item->priority, expected[item->item]);
            expected.erase(item->item);
            EXPECT_TRUE(handed_out.insert(item->item).second);
          } else if (producing == 0 && expected.empty()) {
            return;
          }
        }
        std::this_thread::yield();
        if (!item) continue;
        std::lock_guard lock(mutex);
        handed_out.erase(item->item);
        queue.Done(item->item);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(queue.Counters().items, 0u);
}

TEST(PriorityQueueRandomTest, ShutDownWhileHandingOutBlocksNobody) {
  for (int round = 0; round < 50; ++round) {
    WorkQueue queue;
    std::vector<std::jthread> workers;
    for (unsigned w = 0; w < 20; ++w) {
      workers.emplace_back([&queue, w] {
        std::mt19937 random(w);
        do {
          static_cast<void>(queue.AddWithPriority(std::to_string(random() % 1000),
                                                  static_cast<int32_t>(random() % 100)));
        } while (queue.GetWithPriority());
      });
    }
    queue.ShutDown();
  }
}

}  // namespace
}  // namespace larder
