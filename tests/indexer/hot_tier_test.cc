#include "indexer/hot_tier.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::SmallObject;
using Changes = std::vector<HotTier::Change>;

constexpr CollectionId kCollection = 3;
const ObjectKey kKey{"n", "a"};

ObjectPtr Version(uint64_t version, std::string_view name = "a") {
  return SmallObject("n", name, version);
}

// What a committer does with one object; the store's write would stand between the two.
void Commit(HotTier& hot, const ObjectKey& key, const ObjectPtr& object) {
  const Changes changes = {{key, object}};
  hot.BeginCommit(kCollection, changes);
  hot.EndCommit(kCollection, changes, true);
}

std::string VersionOf(const ObjectPtr& object) {
  return object ? std::string(object->resource_version()) : "none";
}

TEST(HotTier, ServesTheNewestCommittedVersion) {
  HotTier hot({});
  EXPECT_EQ(hot.Get(kCollection, kKey), nullptr);
  Commit(hot, kKey, Version(1));
  EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), "1");
  Commit(hot, kKey, Version(2));
  EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), "2");
  Commit(hot, kKey, nullptr);
  EXPECT_EQ(hot.Get(kCollection, kKey), nullptr);
  EXPECT_EQ(hot.Get(kCollection + 1, kKey), nullptr);
  const HotTier::Stats stats = hot.GetStats();
  EXPECT_EQ(stats.hits, 2U);
  EXPECT_EQ(stats.misses, 3U);
}

TEST(HotTier, AFirstListTakesFreeRoomAndNobodyElses) {
  HotTier hot({.max_objects = 2});
  const auto list = [&](const std::string& name) {
    const Changes changes = {{{"n", name}, Version(1, name), /*if_room=*/true}};
    hot.BeginCommit(kCollection, changes);
    hot.EndCommit(kCollection, changes, true);
  };
  Commit(hot, kKey, Version(1));
  list("b");
  list("c");
  EXPECT_NE(hot.Get(kCollection, {"n", "a"}), nullptr);
  EXPECT_NE(hot.Get(kCollection, {"n", "b"}), nullptr);
  EXPECT_EQ(hot.Get(kCollection, {"n", "c"}), nullptr);
  EXPECT_EQ(hot.GetStats().evictions, 0U);
  Commit(hot, {"n", "c"}, Version(2, "c"));
  EXPECT_EQ(hot.GetStats().evictions, 1U) << "a change may need another's";
  EXPECT_NE(hot.Get(kCollection, {"n", "c"}), nullptr) << "and is not the one to go itself";
}

TEST(HotTier, GivesTheSameObjectToAll) {
  HotTier hot({});
  const ObjectPtr object = Version(1);
  Commit(hot, kKey, object);
  EXPECT_EQ(hot.Get(kCollection, kKey).get(), object.get());
}

TEST(HotTier, AFailedCommitOnlyForgets) {
  HotTier hot({});
  Commit(hot, kKey, Version(1));
  const Changes changes = {{kKey, Version(2)}};
  hot.BeginCommit(kCollection, changes);
  EXPECT_EQ(hot.Get(kCollection, kKey), nullptr) << "while it is written, the store answers";
  hot.EndCommit(kCollection, changes, false);
  EXPECT_EQ(hot.Get(kCollection, kKey), nullptr);
  const auto ticket = hot.BeginFill(kCollection, kKey);
  hot.Fill(kCollection, Version(1), ticket);
  EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), "1");
}

// The reader read version 1 from the store; a commit of version 2 (or a delete) falls anywhere
// around that. Whatever the order, version 1 must not stay.
TEST(HotTier, AReaderOnItsWayCannotPutAnOldVersionBack) {
  for (const ObjectPtr& next : {Version(2), ObjectPtr()}) {
    const Changes changes = {{kKey, next}};
    const std::string expected = VersionOf(next);
    {
      HotTier hot({});  // all of the commit between ticket and fill
      const auto ticket = hot.BeginFill(kCollection, kKey);
      hot.BeginCommit(kCollection, changes);
      hot.EndCommit(kCollection, changes, true);
      hot.Fill(kCollection, Version(1), ticket);
      EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), expected);
    }
    {
      HotTier hot({});  // the commit ends after the fill
      const auto ticket = hot.BeginFill(kCollection, kKey);
      hot.BeginCommit(kCollection, changes);
      hot.Fill(kCollection, Version(1), ticket);
      hot.EndCommit(kCollection, changes, true);
      EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), expected);
    }
    {
      HotTier hot({});  // the ticket is taken during the commit, before its write
      hot.BeginCommit(kCollection, changes);
      const auto ticket = hot.BeginFill(kCollection, kKey);
      hot.EndCommit(kCollection, changes, true);
      hot.Fill(kCollection, Version(1), ticket);
      EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), expected);
    }
    {
      HotTier hot({});  // all of the reading within the commit
      hot.BeginCommit(kCollection, changes);
      const auto ticket = hot.BeginFill(kCollection, kKey);
      hot.Fill(kCollection, Version(1), ticket);
      hot.EndCommit(kCollection, changes, true);
      EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), expected);
    }
  }
}

TEST(HotTier, AnEntryIsNoNewerThanASnapshotThatTakesIt) {
  HotTier hot({});
  Commit(hot, kKey, Version(1));
  const uint64_t view = hot.sequence();
  Commit(hot, kKey, Version(2));
  EXPECT_EQ(hot.Get(kCollection, kKey, view), nullptr);
  EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey, hot.sequence())), "2");
  // Evicted, and filled again by a reader: still not older than it is.
  Commit(hot, kKey, nullptr);
  const auto ticket = hot.BeginFill(kCollection, kKey);
  hot.Fill(kCollection, Version(2), ticket);
  EXPECT_EQ(hot.Get(kCollection, kKey, view), nullptr);
}

TEST(HotTier, KeepsToItsByteBudget) {
  HotTier hot({.max_bytes = size_t{1} << 20});
  for (uint64_t i = 0; i < 500; ++i) Commit(hot, testing::PodKey(i), testing::Pod(i));
  const HotTier::Stats stats = hot.GetStats();
  EXPECT_LE(stats.bytes, size_t{1} << 20);
  EXPECT_GT(stats.bytes, size_t{900} << 10);
  EXPECT_EQ(stats.evictions, 500 - stats.objects);
}

TEST(HotTier, KeepsToItsObjectLimit) {
  for (const size_t limit : {1U, 10U, 100U, 1000U}) {
    HotTier hot({.max_objects = limit});
    for (uint64_t i = 0; i < 2000; ++i) {
      Commit(hot, {"n", "o" + std::to_string(i)}, Version(i, "o" + std::to_string(i)));
    }
    EXPECT_LE(hot.GetStats().objects, limit);
    EXPECT_GT(hot.GetStats().objects, limit * 2 / 3);
  }
}

TEST(HotTier, WhatIsUsedOutlivesWhatIsNot) {
  HotTier hot({.max_objects = 50});
  const auto key = [](uint64_t i) { return ObjectKey{"n", "o" + std::to_string(i)}; };
  for (uint64_t i = 0; i < 50; ++i) Commit(hot, key(i), Version(i, key(i).name));
  for (uint64_t i = 50; i < 500; ++i) {
    for (uint64_t hot_one = 0; hot_one < 10; ++hot_one) {
      EXPECT_NE(hot.Get(kCollection, key(hot_one)), nullptr) << i;
    }
    Commit(hot, key(i), Version(i, key(i).name));
  }
}

TEST(HotTier, AnObjectLargerThanTheBudgetIsNotKept) {
  HotTier hot({.max_bytes = 4096});
  Commit(hot, testing::PodKey(1), testing::Pod(1));
  EXPECT_EQ(hot.GetStats().objects, 0U);
  EXPECT_EQ(hot.GetStats().bytes, 0U);
}

TEST(HotTier, DropsAfterItsTime) {
  FakeClock clock;
  HotTierOptions options;
  options.ttl = std::chrono::seconds(10);
  options.clock = &clock;
  HotTier hot(options);
  Commit(hot, kKey, Version(1));
  clock.Advance(std::chrono::seconds(9));
  EXPECT_NE(hot.Get(kCollection, kKey), nullptr);
  clock.Advance(std::chrono::seconds(1));
  EXPECT_EQ(hot.Get(kCollection, kKey), nullptr);
  EXPECT_EQ(hot.GetStats().expired, 1U);
  EXPECT_EQ(hot.GetStats().objects, 0U);
}

TEST(HotTier, WhatNobodyAsksForDoesNotOutliveItsTimeForLong) {
  FakeClock clock;
  HotTierOptions options;
  options.max_bytes = size_t{1} << 20;  // one shard
  options.ttl = std::chrono::seconds(10);
  options.clock = &clock;
  HotTier hot(options);
  for (uint64_t i = 0; i < 100; ++i)
    Commit(hot, {"n", "old" + std::to_string(i)}, Version(1, "old" + std::to_string(i)));
  clock.Advance(std::chrono::seconds(11));
  for (uint64_t i = 0; i < 60; ++i)
    Commit(hot, {"n", "new" + std::to_string(i)}, Version(1, "new" + std::to_string(i)));
  EXPECT_EQ(hot.GetStats().objects, 60U);
}

TEST(HotTier, DropsACollection) {
  HotTier hot({});
  Commit(hot, kKey, Version(1));
  const Changes changes = {{kKey, Version(7)}};
  hot.BeginCommit(kCollection + 1, changes);
  hot.EndCommit(kCollection + 1, changes, true);
  hot.DropCollection(kCollection);
  EXPECT_EQ(hot.Get(kCollection, kKey), nullptr);
  EXPECT_EQ(VersionOf(hot.Get(kCollection + 1, kKey)), "7");
}

// A "store" of one number per key, read and written under the tier's protocol by many threads: what
// the tier serves is never older than what was committed before the read began.
TEST(HotTier, NeverServesWhatWasReplacedBeforeTheReadBegan) {
  constexpr size_t kKeys = 8;
  HotTier hot({.max_objects = 4});  // evicts all the time
  std::array<std::atomic<uint64_t>, kKeys> stored{}, committed{};
  const auto key = [](size_t i) { return ObjectKey{"n", "k" + std::to_string(i)}; };
  std::atomic<bool> stop{false};
  std::vector<std::jthread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      std::mt19937_64 random(static_cast<uint64_t>(r));
      while (!stop.load()) {
        const size_t i = random() % kKeys;
        const uint64_t before = committed[i].load();
        ObjectPtr object = hot.Get(kCollection, key(i));
        if (!object) {
          const auto ticket = hot.BeginFill(kCollection, key(i));
          object = Version(stored[i].load(), key(i).name);
          hot.Fill(kCollection, object, ticket);
        }
        ASSERT_GE(std::stoull(std::string(object->resource_version())), before);
      }
    });
  }
  std::mt19937_64 random(99);
  for (uint64_t version = 1; version < 3000; ++version) {
    const size_t i = random() % kKeys;
    const Changes changes = {{key(i), Version(version, key(i).name)}};
    hot.BeginCommit(kCollection, changes);
    stored[i].store(version);
    hot.EndCommit(kCollection, changes, true);
    committed[i].store(version);
  }
  stop.store(true);
}

}  // namespace
}  // namespace larder
