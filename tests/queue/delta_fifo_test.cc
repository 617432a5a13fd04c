#include "queue/delta_fifo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace larder {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

ObjectPtr Pod(const std::string& name, int version, const std::string& uid = "") {
  const std::string json = R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
                           R"(","uid":")" + (uid.empty() ? "uid-" + name : uid) +
                           R"(","resourceVersion":")" + std::to_string(version) + R"("}})";
  auto object = Object::Parse(json);
  EXPECT_TRUE(object) << object.error().ToString();
  return *object;
}

Delta Make(DeltaType type, const ObjectPtr& object) {
  Delta delta;
  delta.type = type;
  delta.key = object->key();
  delta.object = object;
  return delta;
}

// "Added foo 10", "Deleted foo ? 10" where the final state is not known.
std::vector<std::string> Describe(const DeltaFifo::Batch& batch) {
  std::vector<std::string> lines;
  for (const Delta& delta : batch.deltas) {
    std::string line = std::string(ToString(delta.type)) + " " + delta.key.ToString();
    if (delta.final_state_unknown) line += " ?";
    if (delta.object != nullptr) line += " " + std::string(delta.object->resource_version());
    lines.push_back(line);
  }
  return lines;
}

class DeltaFifoTest : public ::testing::Test {
 protected:
  void Put(DeltaType type, const ObjectPtr& object) {
    EXPECT_TRUE(fifo_.Put(Make(type, object), object->resource_version()));
  }
  void Add(const std::string& name, int version) { Put(DeltaType::kAdded, Pod(name, version)); }
  void Update(const std::string& name, int version) {
    Put(DeltaType::kUpdated, Pod(name, version));
  }
  void Delete(const std::string& name, int version) {
    Put(DeltaType::kDeleted, Pod(name, version));
  }
  void List(const std::string& name, int version) {
    Delta delta = Make(DeltaType::kReplaced, Pod(name, version));
    delta.in_list = true;
    EXPECT_TRUE(fifo_.Put(std::move(delta), {}));
  }
  // What the consumer sees.
  std::vector<std::string> Pop() {
    auto batch = fifo_.Pop({}, 0ns);
    if (!batch) return {"nothing"};
    fifo_.Ack(*batch);
    return Describe(*batch);
  }

  FakeClock clock_;
  DeltaFifo fifo_{DeltaFifoOptions{.max_items = 1000, .clock = &clock_}};
};

TEST_F(DeltaFifoTest, ProducersKeepTheirOrder) {
  constexpr int kEach = 500;
  std::vector<std::jthread> producers;
  for (const std::string prefix : {"a", "b"}) {
    producers.emplace_back([this, prefix] {
      for (int i = 1; i <= kEach; ++i) Add(prefix + std::to_string(i), i);
    });
  }
  int last[2] = {0, 0};
  for (int count = 0; count < 2 * kEach;) {
    auto batch = fifo_.Pop();
    for (const Delta& delta : batch->deltas) {
      int& before = last[delta.key.name[0] - 'a'];
      const int number = std::stoi(delta.key.name.substr(1));
      EXPECT_EQ(number, before + 1);
      before = number;
      ++count;
    }
    fifo_.Ack(*batch);
  }
}

TEST_F(DeltaFifoTest, UpdatesOfOneObjectMergeIntoTheNewest) {
  Update("foo", 10);
  Update("foo", 12);
  Update("foo", 15);
  EXPECT_THAT(Pop(), ElementsAre("Updated foo 15"));
  EXPECT_THAT(Pop(), ElementsAre("nothing"));
}

TEST_F(DeltaFifoTest, AnAddFollowedByUpdatesIsAnAddOfTheNewest) {
  Add("foo", 10);
  Update("foo", 12);
  EXPECT_THAT(Pop(), ElementsAre("Added foo 12"));
}

TEST_F(DeltaFifoTest, ADeleteFollowsWhatWasBeforeIt) {
  Add("foo", 10);
  Update("foo", 12);
  Delete("foo", 15);
  EXPECT_THAT(Pop(), ElementsAre("Added foo 12", "Deleted foo 15"));
}

TEST_F(DeltaFifoTest, ADeleteFollowedByAnAddStaysTwoChanges) {
  Delete("foo", 10);
  Put(DeltaType::kAdded, Pod("foo", 12, "another"));
  Put(DeltaType::kUpdated, Pod("foo", 13, "another"));
  EXPECT_THAT(Pop(), ElementsAre("Deleted foo 10", "Added foo 13"));
}

TEST_F(DeltaFifoTest, StatesOfDifferentObjectsDoNotMerge) {
  Put(DeltaType::kUpdated, Pod("foo", 10, "one"));
  Put(DeltaType::kUpdated, Pod("foo", 12, "two"));
  EXPECT_THAT(Pop(), ElementsAre("Updated foo 10", "Updated foo 12"));
}

TEST_F(DeltaFifoTest, DeletesInARowMergeAndTheOneThatWasSeenWins) {
  Delete("foo", 10);
  Delta unknown = Make(DeltaType::kDeleted, Pod("foo", 9));
  unknown.final_state_unknown = true;
  EXPECT_TRUE(fifo_.Put(unknown, {}));
  EXPECT_THAT(Pop(), ElementsAre("Deleted foo 10"));
  EXPECT_TRUE(fifo_.Put(unknown, {}));
  Delete("foo", 11);
  EXPECT_THAT(Pop(), ElementsAre("Deleted foo 11"));
}

TEST_F(DeltaFifoTest, AKeyKeepsItsPlaceInTheLine) {
  Add("foo", 10);
  Add("bar", 11);
  Add("foo", 12);
  Add("foo", 13);
  Add("zab", 30);
  EXPECT_THAT(Pop(), ElementsAre("Added foo 13", "Added bar 11", "Added zab 30"));
  Add("foo", 14);
  EXPECT_THAT(Pop(), ElementsAre("Added foo 14"));
}

TEST_F(DeltaFifoTest, EveryChangeComesOnceWithItsType) {
  Add("foo", 10);
  Update("bar", 15);
  Add("qux", 17);
  Delete("qux", 18);
  Delete("baz", 20);  // whether it exists the store knows, not the FIFO
  EXPECT_THAT(Pop(), ElementsAre("Added foo 10", "Updated bar 15", "Added qux 17", "Deleted qux 18",
                                 "Deleted baz 20"));
  EXPECT_EQ(fifo_.Len(), 0u);
}

TEST_F(DeltaFifoTest, TheCursorIsThatOfTheLastEventOfTheBatch) {
  Update("foo", 10);
  Update("bar", 11);
  auto batch = fifo_.Pop();
  Update("foo", 12);
  EXPECT_EQ(batch->resource_version, "11");
  fifo_.Ack(*batch);
  EXPECT_TRUE(fifo_.PutCursor("20"));
  batch = fifo_.Pop();
  EXPECT_EQ(batch->resource_version, "20");
  EXPECT_THAT(Describe(*batch), ElementsAre("Updated foo 12"));
  fifo_.Ack(*batch);
}

TEST_F(DeltaFifoTest, ABookmarkAloneIsABatch) {
  EXPECT_TRUE(fifo_.PutCursor("20"));
  auto batch = fifo_.Pop();
  ASSERT_TRUE(batch);
  EXPECT_THAT(batch->deltas, IsEmpty());
  EXPECT_EQ(batch->resource_version, "20");
  fifo_.Ack(*batch);
}

TEST_F(DeltaFifoTest, AListedObjectDoesNotMergeWithAChange) {
  Add("foo", 10);
  List("foo", 15);
  EXPECT_THAT(Pop(), ElementsAre("Added foo 10", "Replaced foo 15"));
}

TEST_F(DeltaFifoTest, AListAfterADeleteBringsTheObjectBack) {
  Delete("foo", 1);
  List("foo", 2);
  EXPECT_THAT(Pop(), ElementsAre("Deleted foo 1", "Replaced foo 2"));
}

TEST_F(DeltaFifoTest, AKeyThatIsListedTwiceComesOnce) {
  List("a", 1);
  List("a", 2);
  EXPECT_THAT(Pop(), ElementsAre("Replaced a 2"));
}

TEST_F(DeltaFifoTest, AFailedBatchStopsTheProducerUntilReset) {
  Update("foo", 10);
  auto batch = fifo_.Pop();
  Update("bar", 12);
  fifo_.Fail(*batch);
  const auto put = fifo_.Put(Make(DeltaType::kUpdated, Pod("baz", 13)), "13");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(fifo_.WaitUntilEmpty().error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(Pop(), ElementsAre("nothing"));
  fifo_.Reset();
  Update("foo", 10);
  EXPECT_THAT(Pop(), ElementsAre("Updated foo 10"));
}

TEST_F(DeltaFifoTest, PutWaitsWhileItIsFull) {
  DeltaFifo small(DeltaFifoOptions{.max_items = 2, .clock = &clock_});
  EXPECT_TRUE(small.Put(Make(DeltaType::kAdded, Pod("a", 1)), "1"));
  EXPECT_TRUE(small.Put(Make(DeltaType::kAdded, Pod("b", 2)), "2"));
  std::atomic<bool> passed = false;
  std::jthread producer([&] {
    EXPECT_TRUE(small.Put(Make(DeltaType::kAdded, Pod("c", 3)), "3"));
    passed = true;
  });
  while (clock_.Waiters() == 0) std::this_thread::yield();
  EXPECT_FALSE(passed);
  auto batch = small.Pop();
  EXPECT_EQ(batch->deltas.size(), 2u);
  EXPECT_EQ(batch->resource_version, "2");
  producer.join();  // the next segment fills while this one is being committed
  small.Ack(*batch);
  EXPECT_EQ(small.Len(), 1u);
}

TEST_F(DeltaFifoTest, PutWaitsForBytesToo) {
  DeltaFifo small(DeltaFifoOptions{.max_bytes = 1, .clock = &clock_});
  EXPECT_TRUE(small.Put(Make(DeltaType::kAdded, Pod("a", 1)), "1"));  // one passes alone
  std::jthread producer([&](const std::stop_token& stop) {
    const auto put = small.Put(Make(DeltaType::kAdded, Pod("b", 2)), "2", stop);
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, ErrorCode::kCancelled);
  });
  while (clock_.Waiters() == 0) std::this_thread::yield();
  producer.request_stop();
  producer.join();
  EXPECT_EQ(small.Len(), 1u);
}

TEST_F(DeltaFifoTest, WaitUntilEmptyWaitsForTheAcknowledgement) {
  EXPECT_TRUE(fifo_.WaitUntilEmpty());
  Update("foo", 10);
  std::atomic<bool> empty = false;
  std::jthread waiter([&] {
    EXPECT_TRUE(fifo_.WaitUntilEmpty());
    empty = true;
  });
  auto batch = fifo_.Pop();
  while (clock_.Waiters() == 0) std::this_thread::yield();
  EXPECT_FALSE(empty);
  fifo_.Ack(*batch);
  waiter.join();
}

TEST_F(DeltaFifoTest, PopEndsWhenItIsClosed) {
  std::jthread consumer([&] { EXPECT_EQ(fifo_.Pop().has_value(), false); });
  while (clock_.Waiters() == 0) std::this_thread::yield();
  fifo_.Close();
  consumer.join();
}

TEST_F(DeltaFifoTest, PopEndsWhenItsTimeIsOverOrAStopIsRequested) {
  std::jthread timed([&] { EXPECT_EQ(fifo_.Pop({}, 5s).has_value(), false); });
  while (clock_.Waiters() == 0) std::this_thread::yield();
  clock_.Advance(5s);
  timed.join();
  std::jthread stopped(
      [&](const std::stop_token& stop) { EXPECT_EQ(fifo_.Pop(stop).has_value(), false); });
  stopped.request_stop();
  stopped.join();
}

TEST_F(DeltaFifoTest, WhatWaitsWhenItIsClosedIsStillHandedOut) {
  Update("foo", 10);
  fifo_.Close();
  EXPECT_FALSE(fifo_.Put(Make(DeltaType::kUpdated, Pod("bar", 11)), "11"));
  EXPECT_THAT(Pop(), ElementsAre("Updated foo 10"));
  EXPECT_THAT(Pop(), ElementsAre("nothing"));
}

TEST_F(DeltaFifoTest, ADeltaIsKnownByItsKeyEvenWithoutAnObject) {
  Delta gone;
  gone.type = DeltaType::kDeleted;
  gone.key = {"", "foo"};
  gone.final_state_unknown = true;
  Update("foo", 3);
  EXPECT_TRUE(fifo_.Put(gone, {}));
  EXPECT_THAT(Pop(), ElementsAre("Updated foo 3", "Deleted foo ?"));
}

}  // namespace
}  // namespace larder
