#include "indexer/hot_tier.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
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

// A commit that failed.
void Forget(HotTier& hot, const ObjectKey& key) {
  const Changes changes = {{key, nullptr}};
  hot.BeginCommit(kCollection, changes);
  hot.EndCommit(kCollection, changes, false);
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
  const uint64_t before_reading = hot.sequence();
  hot.Fill(kCollection, Version(1), before_reading);
  EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), "1");
}

// The reader read version 1 from the store; a commit of version 2 (or a delete) falls anywhere
// around that. Whatever the order, version 1 must not stay.
TEST(HotTier, AReaderOnItsWayCannotPutAnOldVersionBack) {
  for (const ObjectPtr& next : {Version(2), ObjectPtr()}) {
    const Changes changes = {{kKey, next}};
    const std::string expected = VersionOf(next);
    {
      HotTier hot({});  // all of the commit between the reading's beginning and the fill
      const uint64_t before_reading = hot.sequence();
      hot.BeginCommit(kCollection, changes);
      hot.EndCommit(kCollection, changes, true);
      hot.Fill(kCollection, Version(1), before_reading);
      EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), expected);
    }
    {
      HotTier hot({});  // the commit ends after the fill
      const uint64_t before_reading = hot.sequence();
      hot.BeginCommit(kCollection, changes);
      hot.Fill(kCollection, Version(1), before_reading);
      hot.EndCommit(kCollection, changes, true);
      EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), expected);
    }
    {
      HotTier hot({});  // the reading begins during the commit, before its write
      hot.BeginCommit(kCollection, changes);
      const uint64_t before_reading = hot.sequence();
      hot.EndCommit(kCollection, changes, true);
      hot.Fill(kCollection, Version(1), before_reading);
      EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), expected);
    }
    {
      HotTier hot({});  // all of the reading within the commit
      hot.BeginCommit(kCollection, changes);
      const uint64_t before_reading = hot.sequence();
      hot.Fill(kCollection, Version(1), before_reading);
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
  const uint64_t before_reading = hot.sequence();
  hot.Fill(kCollection, Version(2), before_reading);
  EXPECT_EQ(hot.Get(kCollection, kKey, view), nullptr);
}

// What was read in a snapshot may stay only where it is still the newest.
TEST(HotTier, WhatASnapshotShowedIsKeptUnlessItWasReplacedSince) {
  HotTier hot({});
  const uint64_t view = hot.sequence();
  Commit(hot, kKey, Version(2));
  Forget(hot, kKey);
  hot.Fill(kCollection, Version(1), view);
  EXPECT_EQ(hot.Get(kCollection, kKey), nullptr);
  hot.Fill(kCollection, Version(2), hot.sequence());
  EXPECT_EQ(VersionOf(hot.Get(kCollection, kKey)), "2");
}

TEST(HotTier, APeekCountsAsNoUse) {
  HotTier hot({.max_objects = 2});
  Commit(hot, kKey, Version(1));
  const uint64_t view = hot.sequence();
  Commit(hot, {"n", "b"}, Version(1, "b"));
  EXPECT_EQ(VersionOf(hot.Peek(kCollection, kKey, view)), "1");
  EXPECT_EQ(hot.Peek(kCollection, {"n", "b"}, view), nullptr) << "newer than the view";
  EXPECT_EQ(hot.GetStats().hits + hot.GetStats().misses, 0U);
  EXPECT_NE(hot.Get(kCollection, {"n", "b"}), nullptr);
  Commit(hot, {"n", "c"}, Version(1, "c"));
  EXPECT_EQ(hot.Get(kCollection, kKey), nullptr) << "nobody used it, so it was the one to go";
  EXPECT_NE(hot.Get(kCollection, {"n", "b"}), nullptr);
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

// Begins to read when it is made, and ends with the block.
class Reading {
 public:
  explicit Reading(HotTier* hot) : hot_(*hot), reader_(hot->BeginRead()) {}
  ~Reading() { hot_.EndRead(reader_, hits_); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  const Object* Find(const ObjectKey& key) {
    const Object* object = hot_.Find(kCollection, key);
    if (object != nullptr) ++hits_;
    return object;
  }

 private:
  HotTier& hot_;
  const uint64_t reader_;
  uint64_t hits_ = 0;
};

TEST(HotTier, WhatAReaderFoundStaysUntilItEnds) {
  HotTier hot({});
  std::weak_ptr<const Object> first;
  {
    ObjectPtr object = Version(1);
    first = object;
    Commit(hot, kKey, object);
  }
  {
    Reading reading(&hot);
    const Object* found = reading.Find(kKey);
    ASSERT_NE(found, nullptr);
    Commit(hot, kKey, Version(2));
    EXPECT_EQ(found->resource_version(), "1") << "replaced, and still there";
    EXPECT_EQ(reading.Find(kKey)->resource_version(), "2") << "a new look shows what is new";
    Forget(hot, kKey);
    EXPECT_EQ(reading.Find(kKey), nullptr);
    EXPECT_EQ(found->resource_version(), "1");
    EXPECT_FALSE(first.expired());
    EXPECT_EQ(hot.GetStats().readers, 1U);
    EXPECT_GT(hot.GetStats().kept_bytes, 0U);
  }
  EXPECT_TRUE(first.expired());
  const HotTier::Stats stats = hot.GetStats();
  EXPECT_EQ(stats.kept_bytes, 0U);
  EXPECT_EQ(stats.readers, 0U);
  EXPECT_EQ(stats.hits, 2U);
}

TEST(HotTier, WhatIsKeptForAReaderWaitsForNoLaterOne) {
  HotTier hot({});
  Commit(hot, kKey, Version(1));
  std::optional<Reading> early(&hot);
  Commit(hot, kKey, Version(2));
  std::optional<Reading> late(&hot);
  const size_t kept = hot.GetStats().kept_bytes;
  EXPECT_GT(kept, 0U);
  early.reset();
  EXPECT_EQ(hot.GetStats().kept_bytes, 0U);
  Commit(hot, kKey, Version(3));
  EXPECT_EQ(hot.GetStats().kept_bytes, kept);
  late.reset();
  EXPECT_EQ(hot.GetStats().kept_bytes, 0U);
}

TEST(HotTier, AReaderThatDoesNotEndTakesNoMoreThanTheBudget) {
  constexpr size_t kBudget = size_t{1} << 20;
  HotTier hot({.max_bytes = kBudget});
  for (uint64_t i = 0; i < 500; ++i) Commit(hot, testing::PodKey(i), testing::Pod(i));
  const size_t objects = hot.GetStats().objects;
  {
    Reading reading(&hot);
    for (uint64_t i = 0; i < 2000; ++i) {
      Commit(hot, testing::PodKey(i % 700), testing::Pod(i % 700));
      ASSERT_LE(hot.GetStats().bytes, kBudget);
    }
    EXPECT_GT(hot.GetStats().kept_bytes, kBudget / 16);
  }
  EXPECT_EQ(hot.GetStats().kept_bytes, 0U);
  for (uint64_t i = 0; i < 500; ++i) Commit(hot, testing::PodKey(i), testing::Pod(i));
  EXPECT_NEAR(static_cast<double>(hot.GetStats().objects), static_cast<double>(objects), 10)
      << "as before";
}

// A new object does not come in while readers keep what went for it; but it makes room for the
// next, and does not empty the tier.
TEST(HotTier, EvictsNoMoreForAReaderThanWithout) {
  constexpr size_t kBudget = size_t{1} << 20;
  HotTier hot({.max_bytes = kBudget});
  for (uint64_t i = 0; i < 500; ++i) Commit(hot, testing::PodKey(i), testing::Pod(i));
  const size_t objects = hot.GetStats().objects;
  {
    Reading reading(&hot);
    Commit(hot, testing::PodKey(1000), testing::Pod(1000));
    EXPECT_EQ(reading.Find(testing::PodKey(1000)), nullptr);
    EXPECT_GE(hot.GetStats().objects, objects - 2);
  }
  Commit(hot, testing::PodKey(1001), testing::Pod(1001));
  EXPECT_NE(hot.Get(kCollection, testing::PodKey(1001)), nullptr);
}

TEST(HotTier, AReaderFindsNothingPastItsTime) {
  FakeClock clock;
  HotTierOptions options;
  options.ttl = std::chrono::seconds(10);
  options.clock = &clock;
  HotTier hot(options);
  Commit(hot, kKey, Version(1));
  Reading reading(&hot);
  EXPECT_NE(reading.Find(kKey), nullptr);
  clock.Advance(std::chrono::seconds(10));
  EXPECT_EQ(reading.Find(kKey), nullptr);
}

TEST(HotTier, WhatAReaderUsesOutlivesWhatIsNot) {
  HotTier hot({.max_objects = 50});
  const auto key = [](uint64_t i) { return ObjectKey{"n", "o" + std::to_string(i)}; };
  for (uint64_t i = 0; i < 50; ++i) Commit(hot, key(i), Version(i, key(i).name));
  for (uint64_t i = 50; i < 500; ++i) {
    for (uint64_t hot_one = 0; hot_one < 10; ++hot_one) {
      EXPECT_NE(Reading(&hot).Find(key(hot_one)), nullptr) << i;
    }
    Commit(hot, key(i), Version(i, key(i).name));
  }
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
          const uint64_t before_reading = hot.sequence();
          object = Version(stored[i].load(), key(i).name);
          hot.Fill(kCollection, object, before_reading);
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

// The same without a lock: what a reader found is also whole for as long as it reads, while entries
// are replaced, evicted, and moved to larger tables.
TEST(HotTier, WhatReadersFindIsNewEnoughAndStaysWhole) {
  constexpr size_t kKeys = 300;
  constexpr uint64_t kVersions = 20'000;
  HotTier hot({.max_bytes = size_t{64} << 10});  // evicts all the time
  std::vector<std::atomic<uint64_t>> committed(kKeys);
  const auto key = [](size_t i) { return ObjectKey{"n", "k" + std::to_string(i)}; };
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> found{0};
  std::vector<std::jthread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      std::mt19937_64 random(static_cast<uint64_t>(r));
      while (!stop.load()) {
        Reading reading(&hot);
        std::vector<std::pair<const Object*, std::string>> seen;
        for (int get = 0; get < 20; ++get) {
          const size_t i = random() % kKeys;
          const uint64_t before = committed[i].load();
          const Object* object = reading.Find(key(i));
          if (object == nullptr) continue;
          ++found;
          ASSERT_EQ(object->name(), key(i).name);
          ASSERT_GE(std::stoull(std::string(object->resource_version())), before);
          seen.emplace_back(object, object->json());
        }
        for (const auto& [object, json] : seen) ASSERT_EQ(object->json(), json);
      }
    });
  }
  const auto commit = [&](size_t i, uint64_t version) {
    const Changes changes = {{key(i), Version(version, key(i).name)}};
    hot.BeginCommit(kCollection, changes);
    hot.EndCommit(kCollection, changes, true);
    committed[i].store(version);
  };
  std::mt19937_64 random(99);
  for (uint64_t version = 1; version < kVersions; ++version) commit(random() % kKeys, version);
  stop.store(true);
  readers.clear();
  EXPECT_GT(found, 0U);
  // A reader that was never at an end meanwhile may have kept everything from being evicted.
  for (size_t i = 0; i < kKeys; ++i) commit(i, kVersions + i);
  EXPECT_GT(hot.GetStats().evictions, 0U);
  EXPECT_EQ(hot.GetStats().kept_bytes, 0U);
  EXPECT_LE(hot.GetStats().bytes, size_t{64} << 10);
}

}  // namespace
}  // namespace larder
