// Reading a store that another process owns.
#include <gtest/gtest.h>

#include "storage/maintenance.h"
#include "storage/store.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::Pod;
using testing::PodKey;
using testing::SpecOf;

TEST(StoreReader, FollowsALiveOwnerWithoutDisturbingIt) {
  const testing::TempDir dir;
  const auto owner = Must(Store::Open({.path = dir.path()}));
  const CollectionInfo pods = Must(owner->OpenCollection(SpecOf("pods")));
  testing::PutAll(*owner, pods.id, {Pod(1)});
  const auto reader = Must(Store::OpenReadOnly({.path = dir.path()}));
  ASSERT_EQ(Must(reader->Collections()).size(), 1U);
  EXPECT_EQ(Must(reader->Get(pods.id, PodKey(1)))->json(), Pod(1)->json());

  testing::PutAll(*owner, pods.id, {Pod(2)});
  EXPECT_EQ(CodeOf(reader->Get(pods.id, PodKey(2))), ErrorCode::kNotFound) << "stands still";
  Must(reader->CatchUp());
  EXPECT_EQ(Must(reader->Get(pods.id, PodKey(2)))->json(), Pod(2)->json());
  const SnapshotPtr snapshot = reader->TakeSnapshot();
  EXPECT_EQ(Must(reader->Get(pods.id, PodKey(2), snapshot))->json(), Pod(2)->json());
  testing::PutAll(*owner, pods.id, {Pod(3)});
  Must(owner->Sync());
}

TEST(StoreReader, LearnsOfDictionariesAndCollectionsMadeSinceItOpened) {
  const testing::TempDir dir;
  const auto owner = Must(Store::Open({.path = dir.path()}));
  const CollectionInfo first = Must(owner->OpenCollection(SpecOf("configmaps")));
  const auto reader = Must(Store::OpenReadOnly({.path = dir.path()}));
  const CollectionInfo pods = Must(owner->OpenCollection(SpecOf("pods")));
  std::vector<ObjectPtr> objects;
  for (uint64_t i = 0; i < 600; ++i) objects.push_back(Pod(i));
  testing::PutAll(*owner, pods.id, objects);
  testing::PutAll(*owner, pods.id, objects);
  owner->WaitForDictionaries();
  const EncodedObject small = Must(owner->Encode(pods.id, *Pod(700)));
  ASSERT_LT(small.value.size(), Pod(700)->json().size() / 10) << "no dictionary was trained";
  testing::PutAll(*owner, pods.id, {Pod(700)});
  Must(reader->CatchUp());
  EXPECT_EQ(Must(reader->Collections()).size(), 2U);
  EXPECT_EQ(Must(reader->Get(pods.id, PodKey(700)))->json(), Pod(700)->json());
  EXPECT_NE(first.id, pods.id);
}

TEST(StoreReader, ReadsAStoreThatNobodyOwns) {
  const testing::TempDir dir;
  CollectionInfo pods;
  {
    const auto owner = Must(Store::Open({.path = dir.path()}));
    pods = Must(owner->OpenCollection(SpecOf("pods")));
    testing::PutAll(*owner, pods.id, {Pod(1)});
  }
  const auto reader = Must(Store::OpenReadOnly({.path = dir.path()}));
  EXPECT_EQ(Must(reader->Get(pods.id, PodKey(1)))->json(), Pod(1)->json());
}

TEST(StoreReader, OfAStoreThatNobodyOwnsAMissingTableIsAnError) {
  const testing::TempDir dir;
  {
    const auto owner = Must(Store::Open({.path = dir.path()}));
    const CollectionInfo pods = Must(owner->OpenCollection(SpecOf("pods")));
    testing::PutAll(*owner, pods.id, {Pod(1)});
    Must(Compact(*owner));
    testing::PutAll(*owner, pods.id, {Pod(2)});
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path().extension() == ".sst") std::filesystem::remove(entry.path());
  }
  for (const auto reading : {Store::Reading::kOnce, Store::Reading::kFollowing}) {
    EXPECT_EQ(CodeOf(Store::OpenReadOnly({.path = dir.path()}, reading)), ErrorCode::kCorruption);
  }
}

TEST(StoreReader, CannotWrite) {
  const testing::TempDir dir;
  const auto owner = Must(Store::Open({.path = dir.path()}));
  const CollectionInfo pods = Must(owner->OpenCollection(SpecOf("pods")));
  const auto reader = Must(Store::OpenReadOnly({.path = dir.path()}));
  Transaction transaction = reader->Begin();
  transaction.PutNote("n", "1");
  EXPECT_EQ(CodeOf(reader->Commit(std::move(transaction), Durability::kRelaxed)),
            ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf(reader->OpenCollection(SpecOf("pods"))), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf(reader->DropCollection(pods.id)), ErrorCode::kUnsupported);
  Must(owner->CatchUp());
}

}  // namespace
}  // namespace larder
