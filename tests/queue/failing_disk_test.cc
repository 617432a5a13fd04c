// A queue on a disk that fails writes: nothing is lost, it says so, and goes on by itself.
#include "tests/storage/failing_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "queue/work_queue.h"
#include "storage/testing.h"
#include "tests/queue/queue_harness.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

class FailingDiskTest : public ::testing::Test {
 protected:
  FailingDiskTest() {
    StoreOptions options;
    options.path = dir_.path();
    options.sync_interval = 1h;  // the failures are the queue's alone
    auto store = OpenStoreOnEnv(options, disk_.env());
    EXPECT_TRUE(store) << store.error().ToString();
    store_ = *std::move(store);
  }
  // Within ten seconds.
  static bool Eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  testing::TempDir dir_;
  testing::FailingDisk disk_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(FailingDiskTest, ASyncAddThatFailedIsWrittenWithoutAnotherCall) {
  WorkQueueOptions options;
  options.name = "test";
  options.store = store_.get();
  queue_ = OpenQueue(std::move(options));
  ASSERT_TRUE(queue_->WaitUntilLoaded());
  // Several times: now and then the writer's thread is slow and finds the item without being told.
  for (size_t round = 1; round <= 3; ++round) {
    const std::string item = "item-" + std::to_string(round);
    disk_.FailLogWritesWith(item);
    disk_.HoldLogWriteWith(item);
    Result<void> added;
    std::jthread adder([&] {
      AddOptions sync;
      sync.durability = Durability::kSync;
      added = queue_->AddWithOptions(item, sync);
    });
    // While the write is held up, the writer finds nothing to do and goes to sleep.
    disk_.AwaitHeld();
    EXPECT_EQ(queue_->Status().unwritten, 0u);
    disk_.LetGo();
    adder.join();
    EXPECT_FALSE(added);
    disk_.FailLogWritesWith("");
    ASSERT_TRUE(Eventually([&] { return Stored(*store_).size() == round; }));
    EXPECT_TRUE(Eventually([this] { return queue_->Status().unwritten == 0; }));
  }
}

TEST_F(FailingDiskTest, AnErrorIsReportedWhileSomethingIsUnwritten) {
  queue_ = OpenQueue(ManualOptions(store_.get(), RealClock()));
  disk_.FailLogWritesWith("the-item");
  EXPECT_TRUE(queue_->Add("the-item"));
  EXPECT_FALSE(queue_->Flush());
  EXPECT_TRUE(queue_->Status().error);
  // Done before it could be written: there is nothing left that could fail.
  EXPECT_EQ(queue_->Get({}, kNoWait), "the-item");
  queue_->Done("the-item");
  EXPECT_EQ(queue_->Status().unwritten, 0u);
  EXPECT_FALSE(queue_->Status().error);
}

TEST_F(FailingDiskTest, AnErrorIsReportedDuringTheNextAttempt) {
  queue_ = OpenQueue(ManualOptions(store_.get(), RealClock()));
  disk_.FailLogWritesWith("the-item");
  EXPECT_TRUE(queue_->Add("the-item"));
  EXPECT_FALSE(queue_->Flush());
  disk_.FailLogWritesWith("");
  disk_.HoldLogWriteWith("the-item");
  std::jthread flusher([this] { EXPECT_TRUE(queue_->Flush()); });
  disk_.AwaitHeld();
  EXPECT_TRUE(queue_->Status().error);
  disk_.LetGo();
  flusher.join();
  EXPECT_FALSE(queue_->Status().error);
}

}  // namespace
}  // namespace larder
