// Dead letters as the larder command changes them: of a closed queue, and on request of an open
// one.
#include "queue/dead_letter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "queue/work_queue.h"
#include "tests/queue/queue_harness.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

class DeadLetterTest : public ::testing::Test {
 protected:
  DeadLetterTest() { Open(); }

  void Open() {
    WorkQueueOptions options = ManualOptions(store_.get(), &clock_);
    options.max_retries = 0;
    queue_ = OpenQueue(std::move(options));
  }
  std::vector<std::string> GetAll() {
    std::vector<std::string> items;
    while (auto item = queue_->Get({}, kNoWait)) items.push_back(*item);
    return items;
  }

  FakeClock clock_;
  TempStore store_{&clock_};
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(DeadLetterTest, DeadLettersOfAClosedQueueAreListedRequeuedAndDropped) {
  for (const char* item : {"a", "b", "c"}) EXPECT_TRUE(queue_->AddRateLimited(item, "why"));
  EXPECT_TRUE(queue_->Add("live"));
  queue_.reset();
  auto letters = ListDeadLetters(*store_, "test");
  ASSERT_TRUE(letters);
  ASSERT_EQ(letters->size(), 3u);
  EXPECT_EQ((*letters)[1].item, "b");
  EXPECT_EQ((*letters)[1].last_error, "why");
  const auto change = [this](DeadLetterChange what, const std::vector<std::string>& items) {
    return ChangeDeadLetters(*store_, "test", what, items);
  };
  EXPECT_EQ(change(DeadLetterChange::kRequeue, {"b"}), 1u);
  EXPECT_EQ(change(DeadLetterChange::kDrop, {"c"}), 1u);
  // All of them or none.
  EXPECT_EQ(change(DeadLetterChange::kRequeue, {"a", "live"}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(change(DeadLetterChange::kDrop, {"a", "c"}).error().code, ErrorCode::kNotFound);
  Open();
  EXPECT_THAT(GetAll(), ::testing::UnorderedElementsAre("b", "live"));
  EXPECT_EQ(queue_->DeadLetters().size(), 1u);
}

TEST_F(DeadLetterTest, AllDeadLettersOfAClosedQueueAreChangedAtOnce) {
  for (const char* item : {"a", "b", "c"}) {
    EXPECT_TRUE(queue_->AddWithPriority(item, 7));
    EXPECT_EQ(queue_->Get({}, kNoWait), item);
    EXPECT_TRUE(queue_->AddRateLimited(item, "why"));
    queue_->Done(item);
  }
  queue_.reset();
  EXPECT_EQ(ChangeDeadLetters(*store_, "test", DeadLetterChange::kRequeue), 3u);
  EXPECT_EQ(ChangeDeadLetters(*store_, "test", DeadLetterChange::kRequeue), 0u);
  Open();
  EXPECT_EQ(queue_->GetWithPriority({}, kNoWait)->priority, 7);
  EXPECT_EQ(queue_->Len(), 2u);
}

TEST_F(DeadLetterTest, OfAllDeadLettersOneThatIsBackAtWorkIsPassedOver) {
  std::vector<std::string> requeued;
  const auto apply = [&](DeadLetterChange, const std::string& item) -> Result<void> {
    if (item == "b") return MakeError(ErrorCode::kNotFound, "back at work");
    requeued.push_back(item);
    return {};
  };
  std::vector<DeadLetter> letters;
  for (const char* item : {"a", "b", "c"}) letters.emplace_back().item = item;
  EXPECT_EQ(
      internal::AnswerDeadLetterRequest(R"({"requeue":true,"items":[]})", letters, apply).value(),
      "2");
  EXPECT_THAT(requeued, ::testing::ElementsAre("a", "c"));
  EXPECT_EQ(internal::AnswerDeadLetterRequest(R"({"requeue":true,"items":["b"]})", letters, apply)
                .error()
                .code,
            ErrorCode::kNotFound);
}

// A store that looks for requests every few milliseconds.
class DeadLetterRequestTest : public ::testing::Test {
 protected:
  void Open(Durability durability) {
    if (!store_) {
      store_ = testing::Must(
          Store::Open({.path = dir_.path(), .sync_interval = std::chrono::milliseconds(10)}));
    }
    WorkQueueOptions options = ManualOptions(store_.get(), RealClock());
    options.max_retries = 0;
    options.durability = durability;
    queue_ = OpenQueue(std::move(options));
  }
  void Bury(size_t letters) {
    AddOptions relaxed{.rate_limited = true, .durability = Durability::kRelaxed};
    for (size_t i = 0; i < letters; ++i) {
      EXPECT_TRUE(queue_->AddWithOptions(std::to_string(i), relaxed));
    }
    EXPECT_TRUE(queue_->Flush());
    EXPECT_EQ(queue_->DeadLetters().size(), letters);
  }
  Result<size_t> Ask(DeadLetterChange change, const std::vector<std::string>& items = {}) {
    return AskToChangeDeadLetters(dir_.path(), "test", change, items);
  }

  testing::TempDir dir_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(DeadLetterRequestTest, WhatALiveQueueWasAskedForIsOnTheDiskWhenItAnswers) {
  Open(Durability::kRelaxed);
  Bury(3);
  EXPECT_EQ(Ask(DeadLetterChange::kRequeue, {"1"}), 1u);
  EXPECT_EQ(Ask(DeadLetterChange::kDrop), 2u);
  WorkQueueTestPeer::Kill(std::move(queue_));
  Open(Durability::kRelaxed);
  EXPECT_TRUE(queue_->DeadLetters().empty());
  EXPECT_EQ(queue_->Get({}, kNoWait), "1");
  EXPECT_EQ(queue_->Get({}, kNoWait), std::nullopt);
}

TEST_F(DeadLetterRequestTest, AQueueThatSyncsEachItemSyncsOnceForAllThatItWasAskedFor) {
  Open(Durability::kSync);
  Bury(100);
  const uint64_t flushes = queue_->Counters().flushes;
  EXPECT_EQ(Ask(DeadLetterChange::kRequeue), 100u);
  EXPECT_EQ(queue_->Counters().flushes, flushes + 1);
  EXPECT_EQ(queue_->Len(), 100u);
}

}  // namespace
}  // namespace larder
