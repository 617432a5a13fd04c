// A stored queue that cannot be read, for a while or for good: it says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <thread>

#include "queue/work_queue.h"
#include "storage/maintenance.h"
#include "storage/testing.h"
#include "tests/queue/damage.h"
#include "tests/queue/queue_harness.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

class LoadingQueueTest : public ::testing::Test {
 protected:
  LoadingQueueTest() { OpenStore(); }

  void OpenStore() {
    auto store = OpenStoreOnEnv({.path = dir_.path()}, disk_.env());
    ASSERT_TRUE(store) << store.error().ToString();
    store_ = *std::move(store);
  }
  void Put(const std::vector<std::string>& items) {
    Transaction transaction = store_->Begin();
    uint64_t generation = 0;
    for (const std::string& item : items) {
      transaction.PutQueueItem("test", item, ++generation, {});
    }
    ASSERT_TRUE(store_->Commit(std::move(transaction), Durability::kSync));
  }
  // So that Open itself has no reason to read the rows.
  void NoteEpoch() {
    Transaction transaction = store_->Begin();
    transaction.PutNote("queue/test/epoch", "1");
    ASSERT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  }
  void Open() {
    WorkQueueOptions options;
    options.name = "test";
    options.store = store_.get();
    options.metrics = &registry_;
    queue_ = OpenQueue(std::move(options));
  }
  std::vector<std::string> GetAll() {
    std::vector<std::string> items;
    while (auto item = queue_->Get({}, kNoWait)) items.push_back(*item);
    return items;
  }

  testing::TempDir dir_;
  testing::UnreadableDisk disk_;
  std::unique_ptr<Store> store_;
  prometheus::Registry registry_;
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(LoadingQueueTest, ADiskThatFailsForAMomentIsReadAgain) {
  Put({"a", "b", "c"});
  ASSERT_TRUE(Compact(*store_));  // into tables, which are read
  store_.reset();
  OpenStore();
  NoteEpoch();  // which is not in a table
  disk_.FailReads(true);
  Open();
  while (disk_.failures() < 2) std::this_thread::sleep_for(1ms);
  const WorkQueue::QueueStatus status = queue_->Status();
  EXPECT_FALSE(status.loaded);
  ASSERT_TRUE(status.error);
  EXPECT_EQ(status.error->code, ErrorCode::kIo);
  disk_.FailReads(false);
  EXPECT_TRUE(queue_->WaitUntilLoaded());
  EXPECT_FALSE(queue_->Status().error);
  EXPECT_THAT(GetAll(), ::testing::ElementsAre("a", "b", "c"));
}

TEST_F(LoadingQueueTest, MetricsShowWhatIsInAQueueThatCannotBeLoaded) {
  Put({"a"});
  ASSERT_TRUE(Compact(*store_));
  store_.reset();
  OpenStore();
  NoteEpoch();
  disk_.FailReads(true);
  Open();
  while (disk_.failures() < 2) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(queue_->Add("b"));
  ASSERT_TRUE(queue_->Add("c"));
  const auto shown = [&] {
    const std::string text = prometheus::TextSerializer().Serialize(registry_.Collect());
    return text.find("\nworkqueue_depth{name=\"test\"} 2\n") != std::string::npos;
  };
  const auto deadline = RealClock()->Now() + 1s;
  while (!shown() && RealClock()->Now() < deadline) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(shown());
  EXPECT_FALSE(queue_->Status().loaded);
  disk_.FailReads(false);
  EXPECT_TRUE(queue_->WaitUntilLoaded());
}

TEST_F(LoadingQueueTest, ADamagedRecordIsNamedHidesNoOtherAndItsItemIsDoneOnceMore) {
  Put({"a", "b", "d"});
  store_.reset();
  testing::PutDamagedQueueRecord(dir_.path(), "test", "c", 9);
  OpenStore();
  NoteEpoch();
  Open();
  const Result<void> loaded = queue_->WaitUntilLoaded();
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kCorruption);
  EXPECT_THAT(loaded.error().message, ::testing::HasSubstr("the record of \"c\""));
  EXPECT_THAT(loaded.error().message, ::testing::HasSubstr("larder verify --repair"));
  ASSERT_TRUE(queue_->Status().error) << "/readyz says so";
  EXPECT_EQ(store_->Health().error().code, ErrorCode::kCorruption);
  EXPECT_THAT(GetAll(), ::testing::UnorderedElementsAre("a", "b", "c", "d"));
}

TEST_F(LoadingQueueTest, ADamagedRecordThatIsDoneIsGone) {
  Put({"a"});
  store_.reset();
  testing::PutDamagedQueueRecord(dir_.path(), "test", "c", 9);
  OpenStore();
  Open();
  EXPECT_FALSE(queue_->WaitUntilLoaded());
  for (const std::string& item : GetAll()) queue_->Done(item);
  ASSERT_TRUE(queue_->Flush());
  queue_.reset();
  Open();
  EXPECT_TRUE(queue_->WaitUntilLoaded()) << "nothing is damaged any more";
}

TEST_F(LoadingQueueTest, ARepairKeepsTheItemOfADamagedRecord) {
  Put({"a"});
  store_.reset();
  testing::PutDamagedQueueRecord(dir_.path(), "test", "c", 9);
  const auto report = Repair({.path = dir_.path()});
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->other_rows_lost, 1u) << "its failures, delay and priority are";
  OpenStore();
  Open();
  EXPECT_TRUE(queue_->WaitUntilLoaded()) << "nothing is damaged any more";
  EXPECT_THAT(GetAll(), ::testing::UnorderedElementsAre("a", "c"));
}

TEST_F(LoadingQueueTest, ADamagedRecordKeepsNoDeadLetterFromBeingChanged) {
  Transaction transaction = store_->Begin();
  QueueRecord dead;
  dead.dead = true;
  for (const char* item : {"a", "b"}) transaction.PutQueueItem("test", item, 1, dead);
  ASSERT_TRUE(store_->Commit(std::move(transaction), Durability::kSync));
  store_.reset();
  testing::PutDamagedQueueRecord(dir_.path(), "test", "c", 9);
  OpenStore();
  Open();
  EXPECT_FALSE(queue_->WaitUntilLoaded());
  EXPECT_TRUE(queue_->Requeue("a"));
  EXPECT_TRUE(queue_->Drop("b"));
  EXPECT_TRUE(queue_->DeadLetters().empty());
  EXPECT_THAT(GetAll(), ::testing::UnorderedElementsAre("a", "c"));
}

TEST_F(LoadingQueueTest, OfSeveralDamagedRecordsTheFirstIsNamedAndTheOthersAreCounted) {
  Put({"a"});
  store_.reset();
  for (const char* item : {"b", "c", "d"}) {
    testing::PutDamagedQueueRecord(dir_.path(), "test", item, 9);
  }
  OpenStore();
  Open();
  const Result<void> loaded = queue_->WaitUntilLoaded();
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, ::testing::HasSubstr("the record of \"b\""));
  EXPECT_THAT(loaded.error().message, ::testing::HasSubstr("and 2 more"));
}

}  // namespace
}  // namespace larder
