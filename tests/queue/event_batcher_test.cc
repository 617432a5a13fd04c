#include "queue/event_batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <stdexcept>

namespace larder {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Records batches; fails the next `failures` of them.
class Recorder {
 public:
  EventBatcher<int>::Handler Handler() {
    return [this](const std::vector<int>& batch) -> Result<void> {
      std::lock_guard lock(mutex_);
      ++calls_;
      if (failures > 0) {
        --failures;
        return MakeError(ErrorCode::kUnavailable, "not now");
      }
      batches_.push_back(batch);
      return {};
    };
  }
  std::vector<std::vector<int>> Await(size_t count) {
    for (;;) {
      {
        std::lock_guard lock(mutex_);
        if (batches_.size() >= count) return batches_;
      }
      std::this_thread::yield();
    }
  }
  void AwaitCalls(int count) {
    while (calls_ < count) std::this_thread::yield();
  }
  std::vector<std::vector<int>> batches() { return Await(0); }

  std::atomic<int> failures = 0;

 private:
  std::mutex mutex_;
  std::atomic<int> calls_ = 0;
  std::vector<std::vector<int>> batches_;
};

class EventBatcherTest : public ::testing::Test {
 protected:
  EventBatcherOptions Options() {
    EventBatcherOptions options;
    options.max_items = 3;
    options.max_delay = 100ms;
    options.clock = &clock_;
    return options;
  }
  void AwaitWaiters(size_t count) {
    while (clock_.Waiters() < count) std::this_thread::yield();
  }

  FakeClock clock_;
  Recorder recorder_;
};

TEST_F(EventBatcherTest, HandsOverWhenEnoughAreThere) {
  EventBatcher<int> batcher(Options(), recorder_.Handler());
  for (int i = 1; i <= 6; ++i) EXPECT_TRUE(batcher.Add(i));
  EXPECT_THAT(recorder_.Await(2), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5, 6)));
}

TEST_F(EventBatcherTest, HandsOverWhenTheFirstHasWaitedLongEnough) {
  EventBatcher<int> batcher(Options(), recorder_.Handler());
  EXPECT_TRUE(batcher.Add(1));
  clock_.Advance(60ms);
  EXPECT_TRUE(batcher.Add(2));
  EXPECT_THAT(recorder_.batches(), IsEmpty());
  clock_.Advance(40ms);
  EXPECT_THAT(recorder_.Await(1), ElementsAre(ElementsAre(1, 2)));
}

TEST_F(EventBatcherTest, AFailedBatchComesAgainBeforeEverythingNewer) {
  recorder_.failures = 2;
  EventBatcher<int> batcher(Options(), recorder_.Handler());
  for (int i = 1; i <= 4; ++i) EXPECT_TRUE(batcher.Add(i));
  recorder_.AwaitCalls(1);
  AwaitWaiters(1);
  clock_.Advance(10ms);
  recorder_.AwaitCalls(2);
  AwaitWaiters(1);
  clock_.Advance(10ms);  // the pause is twice as long now
  EXPECT_THAT(recorder_.batches(), IsEmpty());
  clock_.Advance(10ms);
  EXPECT_THAT(recorder_.Await(1), ElementsAre(ElementsAre(1, 2, 3)));
  EXPECT_EQ(batcher.failures(), 2u);
  EXPECT_THAT(batcher.Close(), IsEmpty());
  EXPECT_THAT(recorder_.batches(), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4)));
}

TEST_F(EventBatcherTest, FlushHandsOverWhatWasAddedOrReturnsTheError) {
  EventBatcher<int> batcher(Options(), recorder_.Handler());
  EXPECT_TRUE(batcher.Flush());
  EXPECT_TRUE(batcher.Add(1));
  EXPECT_TRUE(batcher.Add(2));
  recorder_.failures = 1;
  EXPECT_EQ(batcher.Flush().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(batcher.size(), 2u);
  EXPECT_TRUE(batcher.Flush());
  EXPECT_THAT(recorder_.batches(), ElementsAre(ElementsAre(1, 2)));
}

TEST_F(EventBatcherTest, WhatItsHandlerThrowsIsAFailure) {
  int calls = 0;
  EventBatcher<int> batcher(Options(), [&calls](const std::vector<int>&) -> Result<void> {
    if (++calls == 1) throw std::runtime_error("no luck");
    return {};
  });
  EXPECT_TRUE(batcher.Add(1));
  const Result<void> flushed = batcher.Flush();
  ASSERT_FALSE(flushed);
  EXPECT_NE(flushed.error().message.find("no luck"), std::string::npos);
  EXPECT_EQ(batcher.failures(), 1u);
  EXPECT_TRUE(batcher.Flush());
}

// Who flushes and the batcher's own thread never hand over two batches at once, nor one twice.
TEST_F(EventBatcherTest, FlushesFromManyThreadsKeepTheOrder) {
  EventBatcherOptions options;
  options.max_items = 7;
  std::atomic<int> at_once = 0;
  std::vector<int> taken;
  EventBatcher<int> batcher(options, [&](const std::vector<int>& batch) -> Result<void> {
    EXPECT_EQ(++at_once, 1);
    taken.insert(taken.end(), batch.begin(), batch.end());
    --at_once;
    return {};
  });
  std::atomic<int> next = 0;
  std::mutex adding;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          {
            std::lock_guard lock(adding);
            EXPECT_TRUE(batcher.Add(next++));
          }
          if (i % 3 == 0) {
            EXPECT_TRUE(batcher.Flush());
          }
        }
      });
    }
  }
  EXPECT_THAT(batcher.Close(), IsEmpty());
  ASSERT_EQ(taken.size(), 1500u);
  for (int i = 0; i < 1500; ++i) EXPECT_EQ(taken[static_cast<size_t>(i)], i);
}

TEST_F(EventBatcherTest, CloseHandsOverTheRest) {
  EventBatcher<int> batcher(Options(), recorder_.Handler());
  EXPECT_TRUE(batcher.Add(1));
  EXPECT_TRUE(batcher.Add(2));
  EXPECT_THAT(batcher.Close(), IsEmpty());
  EXPECT_THAT(recorder_.batches(), ElementsAre(ElementsAre(1, 2)));
  EXPECT_EQ(batcher.Add(3).error().code, ErrorCode::kCancelled);
}

TEST_F(EventBatcherTest, CloseReturnsWhatCouldNotBeDelivered) {
  recorder_.failures = 1000;
  EventBatcher<int> batcher(Options(), recorder_.Handler());
  for (int i = 1; i <= 4; ++i) EXPECT_TRUE(batcher.Add(i));
  EXPECT_THAT(batcher.Close(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(batcher.Close(), IsEmpty());
}

TEST_F(EventBatcherTest, FlushAfterCloseSaysWhatWasGivenBack) {
  recorder_.failures = 1000;
  EventBatcher<int> batcher(Options(), recorder_.Handler());
  EXPECT_TRUE(batcher.Add(1));
  EXPECT_THAT(batcher.Close(), ElementsAre(1));
  const Result<void> flushed = batcher.Flush();
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code, ErrorCode::kCancelled);
}

// What a Flush has with the handler is not given back: it is taken, or not, before.
TEST_F(EventBatcherTest, CloseWaitsForTheBatchOfAFlush) {
  std::atomic<bool> handling = false;
  std::atomic<bool> closed = false;
  EventBatcherOptions options = Options();
  options.attempts_at_close = 0;
  EventBatcher<int> batcher(options, [&](const std::vector<int>&) -> Result<void> {
    handling = true;
    for (int i = 0; i < 100 && !closed; ++i) std::this_thread::sleep_for(1ms);
    return {};
  });
  EXPECT_TRUE(batcher.Add(1));
  std::jthread flusher([&] { EXPECT_TRUE(batcher.Flush()); });
  while (!handling) std::this_thread::yield();
  EXPECT_THAT(batcher.Close(), IsEmpty());
  closed = true;
}

// Anyone may look at it meanwhile: what could not be delivered leaves under the lock, too.
TEST_F(EventBatcherTest, SizeIsReadWhileItCloses) {
  constexpr size_t kEvents = 5000;  // so many that others get to look while they leave
  for (int round = 0; round < 3; ++round) {
    EventBatcher<int> batcher(Options(), [](const std::vector<int>&) -> Result<void> {
      return MakeError(ErrorCode::kUnavailable, "never");
    });
    for (size_t i = 0; i < kEvents; ++i) ASSERT_TRUE(batcher.Add(static_cast<int>(i)));
    std::atomic<bool> looking = false;
    std::jthread reader([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const size_t size = batcher.size();
        EXPECT_TRUE(size == 0 || size == kEvents) << size;
        looking = true;
      }
    });
    while (!looking) std::this_thread::yield();
    EXPECT_EQ(batcher.Close().size(), kEvents);
    EXPECT_EQ(batcher.size(), 0U);
  }
}

TEST_F(EventBatcherTest, AddWaitsWhileTooManyArePending) {
  recorder_.failures = 1;
  EventBatcherOptions options = Options();
  options.max_pending = 3;
  EventBatcher<int> batcher(options, recorder_.Handler());
  for (int i = 1; i <= 3; ++i) EXPECT_TRUE(batcher.Add(i));
  recorder_.AwaitCalls(1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(batcher.Add(4, stop.get_token()).error().code, ErrorCode::kCancelled);
  std::jthread producer([&] { EXPECT_TRUE(batcher.Add(5)); });
  AwaitWaiters(2);
  clock_.Advance(10ms);
  producer.join();
  EXPECT_THAT(batcher.Close(), IsEmpty());
  EXPECT_THAT(recorder_.batches(), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(5)));
}

TEST_F(EventBatcherTest, ManyProducersLoseNothing) {
  EventBatcherOptions options;
  options.max_items = 64;
  options.max_pending = 100;
  EventBatcher<int> batcher(options, recorder_.Handler());
  {
    std::vector<std::jthread> producers;
    for (int p = 0; p < 4; ++p) {
      producers.emplace_back([&batcher, p] {
        for (int i = 0; i < 1000; ++i) EXPECT_TRUE(batcher.Add(p * 1000 + i));
      });
    }
  }
  EXPECT_THAT(batcher.Close(), IsEmpty());
  std::vector<int> next = {0, 1000, 2000, 3000};
  for (const std::vector<int>& batch : recorder_.batches()) {
    EXPECT_LE(batch.size(), 64u);
    for (const int event : batch) EXPECT_EQ(event, next[static_cast<size_t>(event / 1000)]++);
  }
  EXPECT_THAT(next, ElementsAre(1000, 2000, 3000, 4000));
}

}  // namespace
}  // namespace larder
