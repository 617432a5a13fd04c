// A durable queue with a thread of its own: when it writes, loads, and says what went wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "queue/work_queue.h"
#include "tests/queue/queue_harness.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

// With the queue's own thread.
class BackgroundQueueTest : public ::testing::Test {
 protected:
  void Open(Clock* clock) {
    WorkQueueOptions options;
    options.name = "test";
    options.store = store_.get();
    options.clock = clock;
    queue_ = OpenQueue(std::move(options));
  }

  FakeClock clock_;
  TempStore store_;
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(BackgroundQueueTest, WritesWithinTheFlushInterval) {
  Open(&clock_);
  EXPECT_TRUE(queue_->WaitUntilLoaded());
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(Stored(*store_).empty());
  // The writer sets its alarm when it has seen the item, at some time of its own.
  while (queue_->Status().unwritten > 0) {
    clock_.Advance(10ms);
    std::this_thread::yield();
  }
  while (Stored(*store_).empty()) std::this_thread::yield();
  WorkQueueTestPeer::Kill(std::move(queue_));
  Open(RealClock());
  EXPECT_EQ(queue_->Get(), "foo");
}

TEST_F(BackgroundQueueTest, ServesTheFirstItemBeforeAllAreLoaded) {
  constexpr int kItems = 50'000;
  {
    Transaction transaction = store_->Begin();
    for (uint64_t i = 0; i < kItems; ++i) {
      transaction.PutQueueItem("test", "item-" + std::to_string(100'000 + i), i + 1, {});
    }
    ASSERT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  }
  Open(RealClock());
  EXPECT_EQ(queue_->Get(), "item-100000");
  EXPECT_TRUE(queue_->Add("item-149999"));  // perhaps before it is loaded
  EXPECT_TRUE(queue_->WaitUntilLoaded());
  EXPECT_TRUE(queue_->Status().loaded);
  EXPECT_EQ(queue_->Len(), static_cast<size_t>(kItems - 1));
}

TEST_F(BackgroundQueueTest, LosesNothingWhenItIsKilledWhileLoading) {
  constexpr int kItems = 20'000;
  {
    Transaction transaction = store_->Begin();
    for (uint64_t i = 0; i < kItems; ++i) {
      transaction.PutQueueItem("test", std::to_string(i), i + 1, {});
    }
    ASSERT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  }
  size_t done = 0;
  for (int round = 0; round < 10; ++round) {
    Open(RealClock());
    for (int i = 0; i < 100; ++i, ++done) queue_->Done(*queue_->Get());
    EXPECT_TRUE(queue_->Flush());
    WorkQueueTestPeer::Kill(std::move(queue_));
  }
  Open(RealClock());
  EXPECT_TRUE(queue_->WaitUntilLoaded());
  EXPECT_EQ(queue_->Len(), kItems - done);
}

// Many threads, the writer, and kills: what was promised before the kill is there after it.
TEST_F(BackgroundQueueTest, KeepsItsPromisesUnderConcurrency) {
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    Open(RealClock());
    std::mutex mutex;
    std::set<std::string> promised;  // added and synced; not yet done
    std::atomic<bool> stop = false;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; !stop; ++i) {
          const std::string item = std::to_string(t) + "/" + std::to_string(i % 500);
          Transaction transaction = store_->Begin();
          WorkQueue::Staged staged = queue_->Stage(transaction, item);
          EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
          {
            std::lock_guard lock(mutex);
            promised.insert(item);
          }
          queue_->Committed(std::move(staged));
        }
      });
    }
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; !stop; ++i) {
          const auto item = queue_->Get({}, 1ms);
          if (!item) continue;
          {
            std::lock_guard lock(mutex);
            promised.erase(*item);
          }
          if (i % 3 == t) {
            // Failed: it is promised again as soon as Done is called, without any flush.
            EXPECT_TRUE(queue_->AddAfter(*item, 1ms));
            std::lock_guard lock(mutex);
            promised.insert(*item);
          }
          queue_->Done(*item);
        }
      });
    }
    std::this_thread::sleep_for(30ms);
    stop = true;
    threads.clear();
    WorkQueueTestPeer::Kill(std::move(queue_));
    Open(RealClock());
    EXPECT_TRUE(queue_->WaitUntilLoaded());
    std::set<std::string> found;
    for (const QueueItemInfo& info : queue_->Items()) found.insert(info.item);
    for (const std::string& item : promised) EXPECT_EQ(found.count(item), 1u) << item;
    while (auto item = queue_->Get({}, kNoWait)) queue_->Done(*item);
    queue_.reset();
  }
}

}  // namespace
}  // namespace larder
