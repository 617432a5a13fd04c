// Reading a store that another process owns.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>

#include "storage/maintenance.h"
#include "storage/store.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

namespace fs = std::filesystem;
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

// Flushed by a compaction, which also makes old versions hard to tell from new ones, or by a
// snapshot.
TEST(StoreReader, FollowsAnOwnerThatFlushes) {
  for (const bool compacts : {true, false}) {
    const testing::TempDir dir;
    const auto owner = Must(Store::Open({.path = dir.path()}));
    const CollectionInfo pods = Must(owner->OpenCollection(SpecOf("pods")));
    auto flush = [&, snapshots = 0]() mutable {
      if (compacts) {
        (void)Must(Compact(*owner));
      } else {
        (void)Must(CreateSnapshot(*owner, std::to_string(++snapshots)));
      }
    };
    const auto commit = [&](const std::string& version, const ObjectPtr& pod) {
      Transaction transaction = owner->Begin();
      if (pod) {
        const EncodedObject encoded = Must(owner->Encode(pods.id, *pod));
        transaction.PutObject(pods.id, encoded);
      } else {
        transaction.DeleteObject(pods.id, PodKey(1));
      }
      transaction.SetCursor(pods.id, {.resource_version = version});
      Must(owner->Commit(std::move(transaction), Durability::kRelaxed));
    };
    commit("1", Pod(1, 1));
    const auto reader = Must(Store::OpenReadOnly({.path = dir.path()}, Store::Reading::kFollowing));
    commit("2", Pod(1, 2));
    flush();
    Must(reader->CatchUp());
    EXPECT_EQ(Must(reader->GetCursor(pods.id)).resource_version, "2");
    EXPECT_EQ(Must(reader->Get(pods.id, PodKey(1)))->resource_version(), "2");
    commit("3", nullptr);
    flush();
    Must(reader->CatchUp());
    EXPECT_EQ(Must(reader->GetCursor(pods.id)).resource_version, "3");
    EXPECT_EQ(CodeOf(reader->Get(pods.id, PodKey(1))), ErrorCode::kNotFound);
    size_t scanned = 0;
    Must(reader->ScanHeads(pods.id, {},
                           [&](const ObjectKey&, const ObjectHead&) { return ++scanned != 0; }));
    EXPECT_EQ(scanned, 0U);
  }
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

TEST(StoreReader, LearnsOfADictionaryThatGotTheNumberOfADroppedOne) {
  const testing::TempDir dir;
  const auto fill = [](Store& owner, const char* resource, uint64_t first) {
    const CollectionInfo info = Must(owner.OpenCollection(SpecOf(resource)));
    // Fewer than train by themselves, which takes a number for each try.
    std::vector<ObjectPtr> objects;
    for (uint64_t i = 0; i < 150; ++i) objects.push_back(Pod(first + i));
    testing::PutAll(owner, info.id, objects);
    (void)Must(Compact(owner));
    return info;
  };
  auto owner = Must(Store::Open({.path = dir.path()}));
  (void)fill(*owner, "pods", 0);
  const CollectionInfo dropped = fill(*owner, "configmaps", 1000);
  const auto reader = Must(Store::OpenReadOnly({.path = dir.path()}, Store::Reading::kFollowing));
  EXPECT_EQ(Must(reader->Get(dropped.id, PodKey(1001)))->json(), Pod(1001)->json());
  Must(owner->DropCollection(dropped.id));
  owner.reset();
  owner = Must(Store::Open({.path = dir.path()}));
  EXPECT_EQ(Must(Compact(*owner)).dropped_dictionaries, std::vector<uint32_t>{2});
  owner.reset();
  owner = Must(Store::Open({.path = dir.path()}));
  const CollectionInfo made = fill(*owner, "services", 2000);
  const auto dictionaries = Must(GetStats(*owner)).dictionaries;
  ASSERT_EQ(dictionaries.size(), 2U);
  ASSERT_EQ(dictionaries.back().id, 2U);
  Must(reader->CatchUp());
  const auto read = reader->Get(made.id, PodKey(2001));
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ((*read)->json(), Pod(2001)->json());
}

// Its logs and tables have the numbers of the ones that the reader knows, or smaller ones.
TEST(StoreReader, FollowsAStoreThatWasPutBack) {
  for (const int lost_lives : {1, 4}) {
    SCOPED_TRACE(lost_lives);
    const testing::TempDir dir;
    auto owner = Must(Store::Open({.path = dir.path()}));
    const CollectionInfo pods = Must(owner->OpenCollection(SpecOf("pods")));
    testing::PutAll(*owner, pods.id, {Pod(1)});
    (void)Must(CreateSnapshot(*owner, "s"));
    for (int life = 0; life < lost_lives; ++life) {
      owner.reset();
      owner = Must(Store::Open({.path = dir.path()}));
      testing::PutAll(*owner, pods.id, {Pod(2)});
      (void)Must(Compact(*owner));
    }
    const auto reader = Must(Store::OpenReadOnly({.path = dir.path()}, Store::Reading::kFollowing));
    EXPECT_TRUE(reader->Get(pods.id, PodKey(2)));
    owner.reset();
    Must(RestoreSnapshot({.path = dir.path()}, "s"));
    Must(reader->CatchUp());
    EXPECT_EQ(CodeOf(reader->Get(pods.id, PodKey(2))), ErrorCode::kNotFound)
        << "nobody owns it yet";
    owner = Must(Store::Open({.path = dir.path()}));
    testing::PutAll(*owner, pods.id, {Pod(3)});
    (void)Must(Compact(*owner));
    Must(reader->CatchUp());
    EXPECT_EQ(CodeOf(reader->Get(pods.id, PodKey(2))), ErrorCode::kNotFound);
    for (const uint64_t kept : {1, 3}) {
      const auto read = reader->Get(pods.id, PodKey(kept));
      EXPECT_TRUE(read && (*read)->json() == Pod(kept)->json()) << kept;
    }
  }
}

// Comes into each opening of a store, before it looks at any table: the store's options are read
// from a pipe.
class EachOpening {
 public:
  EachOpening(const std::string& store_path, std::function<void(int opening)> then) {
    const std::string pipe = store_path + "/tuning/options";
    fs::create_directory(store_path + "/tuning");
    EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    thread_ = std::jthread([pipe, then = std::move(then)](const std::stop_token& stop) {
      for (int opening = 1; !stop.stop_requested();) {
        const int end = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK);
        if (end >= 0) {
          then(opening++);
          ::close(end);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }

 private:
  std::jthread thread_;
};

class ChangingStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto owner = Must(Store::Open({.path = dir_.path()}));
    pods_ = Must(owner->OpenCollection(SpecOf("pods")));
    testing::PutAll(*owner, pods_.id, {Pod(1)});
    Must(Compact(*owner));
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      if (entry.path().extension() == ".sst") tables_.push_back(entry.path());
    }
    std::sort(tables_.begin(), tables_.end());
    ASSERT_GE(tables_.size(), 2U);
  }
  void Hide(size_t table) { fs::rename(tables_[table], tables_[table].string() + ".hidden"); }
  void Show(size_t table) { fs::rename(tables_[table].string() + ".hidden", tables_[table]); }

  testing::TempDir dir_;
  CollectionInfo pods_;
  std::vector<fs::path> tables_;
};

// As from another container, where the lock's owner cannot be seen.
TEST_F(ChangingStoreTest, OneWhoseFilesChangeWhileItIsOpenedIsFollowed) {
  Hide(0);
  const EachOpening changes(dir_.path(), [&](int opening) {
    if (opening == 2) {
      Show(0);
      Hide(1);
    }
    if (opening == 3) Show(1);
  });
  const auto reader = Store::OpenReadOnly({.path = dir_.path()}, Store::Reading::kOnce);
  ASSERT_TRUE(reader) << reader.error().ToString();
  EXPECT_EQ(Must((*reader)->Get(pods_.id, PodKey(1)))->json(), Pod(1)->json());
}

TEST_F(ChangingStoreTest, OneThatLacksATableIsDamaged) {
  Hide(0);
  EXPECT_FALSE(Store::OpenReadOnly({.path = dir_.path()}, Store::Reading::kOnce));
  EXPECT_FALSE(Store::OpenReadOnly({.path = dir_.path()}));
}

TEST(StoreReader, SaysSoWhereThereIsNoPlaceForTemporaryFiles) {
  const testing::TempDir dir;
  const auto owner = Must(Store::Open({.path = dir.path()}));
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  ::setenv("TMPDIR", dir.path("nowhere").c_str(), 1);
  const auto reader = Store::OpenReadOnly({.path = dir.path()});
  before ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
  EXPECT_EQ(CodeOf(reader), ErrorCode::kIo);
  EXPECT_NE(reader.error().message.find("set TMPDIR"), std::string::npos);
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
