// Dictionaries in a store: trained, replaced when the objects change, moved over in compaction.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "storage/keys.h"
#include "storage/maintenance.h"
#include "storage/store.h"
#include "storage/store_impl.h"
#include "storage/testing.h"
#include "tests/storage/failing_disk.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::Must;
using testing::Pod;
using testing::PodKey;
using testing::SpecOf;

// Objects of quite another shape under the same resource.
ObjectPtr Other(size_t i) {
  std::mt19937_64 random(i);
  std::string data;
  for (int line = 0; line < 60; ++line) {
    data += fmt::format(R"({}"setting-{}.example.org/kind-{}":"completely-different-{}")",
                        line ? "," : "", line, line % 7, random() % 4);
  }
  return testing::SmallObject("other", "o" + std::to_string(i), 1, "\"data\":{" + data + "}");
}

class DictionaryTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    StoreOptions options{.path = dir_.path()};
    options.clock = &clock_;
    store_ = Must(Store::Open(options));
    pods_ = Must(store_->OpenCollection(SpecOf("pods")));
  }
  template <typename Make>
  void PutMany(size_t from, size_t to, const Make& make) {
    std::vector<ObjectPtr> batch;
    for (size_t i = from; i < to; ++i) {
      batch.push_back(make(i));
      if (batch.size() == 100) {
        testing::PutAll(*store_, pods_.id, batch);
        batch.clear();
      }
    }
    testing::PutAll(*store_, pods_.id, batch);
  }
  // Writes objects of another shape until a dictionary for them is in use.
  void ChangeShape() {
    const size_t before = SizeOf(*Other(1));
    for (int round = 0; round < 40 && SizeOf(*Other(1)) >= before * 2 / 3; ++round) {
      PutMany(0, 500, Other);
      store_->WaitForDictionaries();
    }
    EXPECT_LT(SizeOf(*Other(1)), before * 2 / 3);
  }
  std::vector<DictionaryStats> Dictionaries() { return Must(GetStats(*store_)).dictionaries; }
  size_t SizeOf(const Object& object) {
    return Must(store_->Encode(pods_.id, object)).value.size();
  }

  testing::TempDir dir_;
  FakeClock clock_;
  std::unique_ptr<Store> store_;
  CollectionInfo pods_;
};

TEST_F(DictionaryTest, IsTrainedByItselfAndMakesObjectsSmall) {
  const size_t before = SizeOf(*Pod(5000));
  PutMany(0, 500, [](size_t i) { return Pod(i); });
  store_->WaitForDictionaries();
  ASSERT_EQ(Dictionaries().size(), 1U);
  EXPECT_TRUE(Dictionaries()[0].current);
  EXPECT_LT(SizeOf(*Pod(5000)), before / 2);
  // It survives, and so does everything written before and after it.
  PutMany(500, 600, [](size_t i) { return Pod(i); });
  Open();
  EXPECT_LT(SizeOf(*Pod(5000)), before / 2);
  for (size_t i = 0; i < 600; i += 7) {
    EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(i)))->json(), Pod(i)->json());
  }
}

TEST_F(DictionaryTest, CompactionMovesOldValuesOver) {
  PutMany(0, 600, [](size_t i) { return Pod(i); });
  store_->WaitForDictionaries();
  const uint64_t before = Must(GetStats(*store_)).collections[0].stored_bytes;
  std::vector<std::string> told;
  CompactOptions options;
  options.progress = [&](const std::string& what, double) { told.push_back(what); };
  Must(Compact(*store_, options));
  EXPECT_EQ(told.front(), "pods");
  const StoreStats stats = Must(GetStats(*store_));
  EXPECT_LT(stats.collections[0].stored_bytes, before / 2);
  EXPECT_EQ(stats.collections[0].objects, 600U);
  ASSERT_EQ(stats.dictionaries.size(), 1U);
  EXPECT_EQ(stats.dictionaries[0].values, 600U) << "every value names it now";
  for (size_t i = 0; i < 600; i += 7) {
    EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(i)))->json(), Pod(i)->json());
  }
}

// Past the look for what is being dropped, not in the store yet: such a commit is in no list of
// what is needed.
TEST_F(DictionaryTest, IsKeptForACommitThatIsBeingWritten) {
  store_.reset();
  testing::FailingDisk disk;
  const auto store = Must(OpenStoreOnEnv({.path = dir_.path()}, disk.env()));
  const CollectionId first = Must(store->OpenCollection(SpecOf("pods", "a"))).id;
  const CollectionId second = Must(store->OpenCollection(SpecOf("pods", "b"))).id;
  std::vector<ObjectPtr> objects;
  for (uint64_t i = 0; i < 600; ++i) objects.push_back(Pod(i));
  for (int round = 0; round < 2; ++round) testing::PutAll(*store, first, objects);
  store->WaitForDictionaries();
  const EncodedObject late = Must(store->Encode(second, *Pod(700)));
  const DictionaryId id = DictionaryOf(late.value);
  ASSERT_NE(id, 0U);
  Must(store->DropCollection(first));
  disk.HoldLogWriteWith(PodKey(700).name);
  std::jthread committer([&] {
    Transaction transaction = store->Begin();
    transaction.PutObject(second, late);
    Must(store->Commit(std::move(transaction), Durability::kRelaxed));
  });
  disk.AwaitHeld();
  std::jthread dropper([&] {
    Store::Impl& impl = store->impl();
    MutexLock drop(impl.drop_mutex);
    impl.BeginDrop({id});
    std::set<DictionaryId> in_use;
    Must(impl.ScanRows(
        Family::kObjects, keys::CollectionPrefix(second), {},
        [&](std::string_view, std::string_view value) {
          in_use.insert(DictionaryOf(value));
          return true;
        },
        nullptr, /*fill_cache=*/false));
    (void)Must(impl.EndDrop(in_use));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  disk.LetGo();
  committer.join();
  dropper.join();
  const auto got = store->Get(second, PodKey(700));
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_EQ((*got)->json(), Pod(700)->json());
}

TEST_F(DictionaryTest, IsReplacedWhenTheObjectsChangeAndDroppedWhenNothingNeedsIt) {
  PutMany(0, 2600, [](size_t i) { return Pod(i % 300, i + 1); });
  store_->WaitForDictionaries();
  const auto first = Dictionaries();
  ASSERT_FALSE(first.empty());
  ChangeShape();
  ASSERT_GT(Dictionaries().size(), first.size());
  const uint32_t current = Dictionaries().back().id;

  Must(Compact(*store_));
  EXPECT_GT(Dictionaries().size(), 1U) << "a value made with it may still be on its way";
  clock_.Advance(std::chrono::minutes(11));
  const CompactReport report = Must(Compact(*store_));
  EXPECT_FALSE(report.dropped_dictionaries.empty());
  ASSERT_EQ(Dictionaries().size(), 1U);
  EXPECT_EQ(Dictionaries()[0].id, current);
  Open();
  ASSERT_EQ(Dictionaries().size(), 1U);
  for (size_t i = 0; i < 300; i += 11) {
    (void)Must(store_->Get(pods_.id, PodKey(i)));
    EXPECT_EQ(Must(store_->Get(pods_.id, Other(i)->key()))->json(), Other(i)->json());
  }
}

TEST_F(DictionaryTest, AValueOnItsWayKeepsItsDictionary) {
  PutMany(0, 2600, [](size_t i) { return Pod(i % 300, i + 1); });
  store_->WaitForDictionaries();
  const EncodedObject late = Must(store_->Encode(pods_.id, *Pod(9999)));
  ChangeShape();
  clock_.Advance(std::chrono::minutes(11));
  Must(Compact(*store_));
  ASSERT_EQ(Dictionaries().size(), 1U) << "gone from the store";
  Transaction transaction = store_->Begin();
  transaction.PutObject(pods_.id, late);
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(9999)))->json(), Pod(9999)->json());
  Open();
  EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(9999)))->json(), Pod(9999)->json());
}

TEST_F(DictionaryTest, ADeltaOnItsWayKeepsTheDictionaryOfWhatItHolds) {
  PutMany(0, 2600, [](size_t i) { return Pod(i % 300, i + 1); });
  store_->WaitForDictionaries();
  const EncodedObject known = Must(store_->Encode(pods_.id, *Pod(9999)));
  ChangeShape();
  clock_.Advance(std::chrono::minutes(11));
  Must(Compact(*store_));
  ASSERT_EQ(Dictionaries().size(), 1U) << "gone from the store";
  Transaction transaction = store_->Begin();
  transaction.PutDelta(pods_.id, "handler", known.key, "in here: " + known.value, known.value);
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  Open();
  EXPECT_EQ(Must(store_->Decode(pods_.id, known.key, known.value))->json(), Pod(9999)->json());
}

// What was overwritten since is not moved over: nobody but the snapshot can see it.
TEST_F(DictionaryTest, ASnapshotReadsWhatADroppedDictionaryMade) {
  PutMany(0, 2600, [](size_t i) { return Pod(i % 300, i + 1); });
  store_->WaitForDictionaries();
  const SnapshotPtr snapshot = store_->TakeSnapshot();
  const std::string before(Must(store_->Get(pods_.id, PodKey(7)))->json());
  PutMany(0, 300, [](size_t i) { return Pod(i, 5000 + i); });
  ChangeShape();
  clock_.Advance(std::chrono::minutes(11));
  ASSERT_FALSE(Must(Compact(*store_)).dropped_dictionaries.empty());
  EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(7)))->resource_version(), "5007");
  const auto seen = store_->Get(pods_.id, PodKey(7), snapshot);
  ASSERT_TRUE(seen) << seen.error().ToString();
  EXPECT_EQ((*seen)->json(), before);
}

TEST_F(DictionaryTest, OneThatWasBroughtBackIsDroppedAgain) {
  PutMany(0, 2600, [](size_t i) { return Pod(i % 300, i + 1); });
  store_->WaitForDictionaries();
  const EncodedObject late = Must(store_->Encode(pods_.id, *Pod(9999)));
  ChangeShape();
  clock_.Advance(std::chrono::minutes(11));
  Must(Compact(*store_));
  Transaction transaction = store_->Begin();
  transaction.PutObject(pods_.id, late);
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  ASSERT_EQ(Dictionaries().size(), 2U);
  EXPECT_EQ(Must(Compact(*store_)).dropped_dictionaries.size(), 1U);
  EXPECT_EQ(Dictionaries().size(), 1U);
  EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(9999)))->json(), Pod(9999)->json());
}

TEST_F(DictionaryTest, AWaitingDeltaKeepsAllDictionaries) {
  PutMany(0, 2600, [](size_t i) { return Pod(i % 300, i + 1); });
  store_->WaitForDictionaries();
  const EncodedObject known = Must(store_->Encode(pods_.id, *Pod(9999)));
  Transaction transaction = store_->Begin();
  transaction.PutDelta(pods_.id, "handler", known.key, known.value);
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  ChangeShape();
  clock_.Advance(std::chrono::minutes(11));
  EXPECT_TRUE(Must(Compact(*store_)).dropped_dictionaries.empty());
  EXPECT_EQ(Must(store_->Decode(pods_.id, known.key,
                                *Must(store_->GetDelta(pods_.id, "handler", known.key))))
                ->json(),
            Pod(9999)->json());
}

TEST_F(DictionaryTest, CompactionTrainsForAResourceThatIsTooSmallToGetThereByItself) {
  PutMany(0, 150, [](size_t i) { return Pod(i); });
  EXPECT_TRUE(Dictionaries().empty());
  Must(Compact(*store_));
  EXPECT_EQ(Dictionaries().size(), 1U);
  EXPECT_EQ(Dictionaries()[0].values, 150U);
}

TEST_F(DictionaryTest, ObjectsThatTeachNothingAreStoredAllTheSame) {
  PutMany(0, 1000, [](size_t i) { return testing::SmallObject("n", "x" + std::to_string(i), 1); });
  store_->WaitForDictionaries();
  Must(Compact(*store_));
  EXPECT_EQ(Must(GetStats(*store_)).collections[0].objects, 1000U);
}

}  // namespace
}  // namespace larder
