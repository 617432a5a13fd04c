// The interleavings with writer, loader and committer that the public calls cannot force.
#include "queue/queue_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr TimePoint kNow{1'000'000'000, 5'000};

class QueueStateTest : public ::testing::Test {
 protected:
  void Add(std::string_view item, Nanos delay = 0, int32_t priority = 0) {
    state_.Add(item, HashItem(item), kNow.steady, {kNow.steady + delay, priority, 0});
  }
  void Retry(std::string_view item) {
    state_.AddRetry(item, HashItem(item), kNow, {kNow.steady + 1'000'000, {}, 0, {}, {}});
  }
  void Take(std::string_view item) {
    const QueueNode* node = state_.Take(kNow.steady);
    ASSERT_NE(node, nullptr);
    EXPECT_EQ(node->item(), item);
  }
  void Finish(std::string_view item) { state_.Finish(item, HashItem(item), kNow.steady); }
  void Adopt(std::string_view item, uint64_t generation, int32_t priority = 0) {
    state_.Adopt(item, HashItem(item), kNow.steady, {kNow.steady, priority, 0}, generation);
  }
  QueueWrites Collect(size_t limit = 1000) {
    QueueWrites writes;
    state_.Collect(
        limit, kNow, [this] { return ++generation_; }, &writes);
    return writes;
  }
  static std::vector<std::pair<std::string, uint64_t>> Puts(const QueueWrites& writes) {
    std::vector<std::pair<std::string, uint64_t>> puts;
    for (const StoredQueueItem& put : writes.puts) puts.emplace_back(put.item, put.generation);
    return puts;
  }

  uint64_t generation_ = 0;
  QueueState state_{/*durable=*/true};
};

TEST_F(QueueStateTest, AnAcknowledgementNeverOvertakesTheRetryItBelongsTo) {
  Add("other");
  Add("foo");
  EXPECT_THAT(Puts(Collect()), ElementsAre(Pair("other", 1), Pair("foo", 2)));
  Take("other");
  Take("foo");
  Finish("other");
  Add("more");
  Retry("foo");
  Finish("foo");
  // With room for one change only, the delete of foo takes its write along.
  const QueueWrites first = Collect(1);
  EXPECT_THAT(first.deletes, ElementsAre(Pair("foo", 2)));
  EXPECT_THAT(Puts(first), ElementsAre(Pair("foo", 3)));
  const QueueWrites second = Collect(1);
  EXPECT_THAT(second.deletes, ElementsAre(Pair("other", 1)));
  EXPECT_THAT(Puts(second), ElementsAre(Pair("more", 4)));
}

TEST_F(QueueStateTest, AChangedItemIsReplacedInOneTransaction) {
  Add("foo");
  Collect();
  Add("foo", 0, 5);
  const QueueWrites writes = Collect();
  EXPECT_THAT(Puts(writes), ElementsAre(Pair("foo", 2)));
  EXPECT_THAT(writes.deletes, ElementsAre(Pair("foo", 1)));
}

TEST_F(QueueStateTest, DoneDuringTheWriteDeletesWhatIsBeingWritten) {
  Add("foo");
  const QueueWrites writing = Collect();
  Take("foo");
  Finish("foo");
  EXPECT_THAT(Collect().deletes, ElementsAre(Pair("foo", 1)));
  EXPECT_EQ(state_.SnapshotCounters().items, 0u);
}

TEST_F(QueueStateTest, AFailedWriteIsTriedAgain) {
  Add("foo");
  Add("bar");
  state_.Restore(Collect());
  EXPECT_THAT(Puts(Collect()), UnorderedElementsAre(Pair("foo", 3), Pair("bar", 4)));
}

TEST_F(QueueStateTest, AFailedWriteOfAnItemTakenMeanwhileIsTriedAgain) {
  Add("foo");
  QueueWrites writing = Collect();
  Take("foo");
  state_.Restore(std::move(writing));
  EXPECT_THAT(Puts(Collect()), ElementsAre(Pair("foo", 2)));
  Finish("foo");
  EXPECT_THAT(Collect().deletes, ElementsAre(Pair("foo", 2)));
}

TEST_F(QueueStateTest, AFailedWriteOfAnItemDoneMeanwhileIsForgotten) {
  Add("foo");
  QueueWrites writing = Collect();
  Take("foo");
  Finish("foo");
  state_.Restore(std::move(writing));
  EXPECT_THAT(Collect().puts, IsEmpty());
}

TEST_F(QueueStateTest, AFailedReplacementKeepsTheOldRecordUntilTheNextOneIsThere) {
  Add("foo");
  Collect();
  Add("foo", 0, 5);
  state_.Restore(Collect());
  const QueueWrites writes = Collect();
  EXPECT_THAT(Puts(writes), ElementsAre(Pair("foo", 3)));
  EXPECT_THAT(writes.deletes, ElementsAre(Pair("foo", 1)));
}

TEST_F(QueueStateTest, AFailedDeleteIsTriedAgain) {
  Add("foo");
  Collect();
  Take("foo");
  Finish("foo");
  state_.Restore(Collect());
  EXPECT_THAT(Collect().deletes, ElementsAre(Pair("foo", 1)));
}

TEST_F(QueueStateTest, AnEventsRecordTakesOverAnUnwrittenAdd) {
  Add("foo");
  Adopt("foo", 100);
  EXPECT_TRUE(Collect().empty());
  Take("foo");
  Finish("foo");
  EXPECT_THAT(Collect().deletes, ElementsAre(Pair("foo", 100)));
}

TEST_F(QueueStateTest, AnEventsRecordThatSaysLessIsDeleted) {
  Add("foo", 0, 5);
  Collect();
  Adopt("foo", 100, 0);
  const QueueWrites writes = Collect();
  EXPECT_THAT(writes.puts, IsEmpty());
  EXPECT_THAT(writes.deletes, ElementsAre(Pair("foo", 100)));
}

TEST_F(QueueStateTest, AnEventDuringTheWriteThatThenFailsLosesNothing) {
  Add("foo", 0, 5);
  QueueWrites writing = Collect();
  Adopt("foo", 100, 0);  // what is being written says more, so this one goes
  state_.Restore(std::move(writing));
  const QueueWrites writes = Collect(1);
  EXPECT_THAT(Puts(writes), ElementsAre(Pair("foo", 2)));
  EXPECT_THAT(writes.deletes, ElementsAre(Pair("foo", 100)));
}

TEST_F(QueueStateTest, AnEventWhileInProcessStaysWhenTheRunIsDone) {
  Add("foo");
  Collect();
  Take("foo");
  Adopt("foo", 100);
  Finish("foo");
  const QueueWrites writes = Collect();
  EXPECT_THAT(writes.puts, IsEmpty());
  EXPECT_THAT(writes.deletes, ElementsAre(Pair("foo", 1)));
  Take("foo");
}

TEST_F(QueueStateTest, ALoadedRecordMergesWithWhatWasAddedSinceTheStart) {
  Add("foo", 0, 1);
  QueueState::Loaded loaded;
  loaded.item = "foo";
  loaded.generation = 50;
  loaded.record.priority = 7;
  loaded.record.failures = 2;
  state_.Load(loaded, kNow);
  const QueueWrites writes = Collect();
  EXPECT_THAT(writes.puts, IsEmpty());  // the stored one says it all
  EXPECT_EQ(state_.ready(), 1u);
  const QueueNode* node = state_.Take(kNow.steady);
  EXPECT_EQ(node->priority, 7);
  EXPECT_EQ(node->failures, 2u);
  Finish("foo");
  EXPECT_THAT(Collect().deletes, ElementsAre(Pair("foo", 50)));
}

TEST_F(QueueStateTest, ALoadedRecordOfAnItemInProcessRunsOnceMore) {
  Add("foo");
  Take("foo");
  QueueState::Loaded loaded;
  loaded.item = "foo";
  loaded.generation = 50;
  state_.Load(loaded, kNow);
  Finish("foo");
  EXPECT_THAT(Collect().deletes, IsEmpty());
  Take("foo");
}

TEST_F(QueueStateTest, ALoadedDeadLetterGivesWayToNewWork) {
  Add("foo");
  QueueState::Loaded loaded;
  loaded.item = "foo";
  loaded.generation = 50;
  loaded.record.dead = true;
  state_.Load(loaded, kNow);
  EXPECT_THAT(state_.DeadItems(), IsEmpty());
  const QueueWrites writes = Collect(1);
  EXPECT_THAT(Puts(writes), ElementsAre(Pair("foo", 1)));
  EXPECT_THAT(writes.deletes, ElementsAre(Pair("foo", 50)));
}

TEST_F(QueueStateTest, ADeadLetterThatWasWorkedOnWhileLoadingIsGone) {
  Add("foo");
  Take("foo");
  Finish("foo");
  QueueState::Loaded loaded;
  loaded.item = "foo";
  loaded.generation = 50;
  loaded.older = {49};
  loaded.record.dead = true;
  state_.Load(loaded, kNow);
  EXPECT_THAT(state_.DeadItems(), IsEmpty());
  const QueueWrites writes = Collect();
  EXPECT_THAT(writes.puts, IsEmpty());
  EXPECT_THAT(writes.deletes, UnorderedElementsAre(Pair("foo", 50), Pair("foo", 49)));
}

TEST_F(QueueStateTest, StoredTimesAreRoundedUp) {
  Add("foo", 1);
  EXPECT_EQ(Collect().puts[0].record.not_before_ms, kNow.wall_ms + 1);
}

TEST_F(QueueStateTest, AQueueInMemoryKeepsNoBooks) {
  QueueState memory(/*durable=*/false);
  memory.Add("foo", HashItem("foo"), 0, {});
  memory.Take(0);
  memory.Finish("foo", HashItem("foo"), 0);
  EXPECT_EQ(memory.unwritten(), 0u);
}

}  // namespace
}  // namespace larder::internal
