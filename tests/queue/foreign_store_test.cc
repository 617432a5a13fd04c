// A queue and a cause that are kept in different stores: Secrets without a key are in memory, the
// queue is on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "queue/work_queue.h"
#include "tests/queue/queue_harness.h"

namespace larder {
namespace {

class ForeignStoreTest : public ::testing::Test {
 protected:
  ForeignStoreTest() { Open(); }

  void Open() { queue_ = OpenQueue(ManualOptions(own_.get(), &clock_)); }
  void KillAndOpen() {
    WorkQueueTestPeer::Kill(std::move(queue_));
    Open();
  }
  // An event's commit in `store`, which causes this item.
  void Commit(TempStore& store, const std::string& item) {
    Transaction transaction = store->Begin();
    WorkQueue::Staged staged = queue_->Stage(transaction, item);
    ASSERT_TRUE(store->Commit(std::move(transaction), Durability::kRelaxed));
    queue_->Committed(std::move(staged));
  }

  FakeClock clock_;
  TempStore own_{&clock_};
  TempStore other_{&clock_};
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(ForeignStoreTest, WhatIsStagedThereReplacesNoRecordHere) {
  Commit(own_, "x");
  Commit(other_, "x");
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  EXPECT_EQ(queue_->Get({}, kNoWait), "x");
}

TEST_F(ForeignStoreTest, WhatIsStagedThereIsWrittenHere) {
  Commit(other_, "x");
  EXPECT_EQ(queue_->Len(), 1u);
  EXPECT_TRUE(queue_->Flush());
  EXPECT_EQ(Stored(*own_).size(), 1u);
  KillAndOpen();
  EXPECT_EQ(queue_->Get({}, kNoWait), "x");
  queue_->Done("x");
  EXPECT_TRUE(queue_->Flush());
  EXPECT_TRUE(Stored(*own_).empty());
  EXPECT_TRUE(Stored(*other_).empty()) << "nobody would ever delete it";
}

TEST_F(ForeignStoreTest, WhatIsStagedThereDuringARunRunsOnceMore) {
  Commit(own_, "x");
  EXPECT_EQ(queue_->Get({}, kNoWait), "x");
  Commit(other_, "x");
  queue_->Done("x");
  EXPECT_TRUE(queue_->Flush());
  KillAndOpen();
  EXPECT_EQ(queue_->Get({}, kNoWait), "x");
}

}  // namespace
}  // namespace larder
