// A store with a damaged block, in use: whoever reads the block gets an error and nobody gets wrong
// data, Health() says so from then on, and what is sound is read and written as before.
#include "storage/damage.h"

#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "storage/maintenance.h"
#include "storage/table_reads.h"
#include "storage/testing.h"
#include "tests/storage/failing_disk.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::Pod;
using testing::PodKey;
using testing::SpecOf;

class DamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Open();
    Transaction transaction = store_->Begin();
    transaction.PutIndexRecord(pods_.id, {1, "node", "field:spec.nodeName", true});
    for (size_t i = 0; i < kPods; ++i) {
      const ObjectPtr pod = Pod(i);
      transaction.PutObject(pods_.id, Must(store_->Encode(pods_.id, *pod)));
      transaction.PutIndexKey(pods_.id, 1, "n", pod->key(), pod->uid());
      transaction.PutQueueItem("q", pod->key().ToString(), i, {});
      transaction.PutDelta(pods_.id, "h", pod->key(), "d");
    }
    transaction.SetCursor(pods_.id, {"77", SyncState::kSynced, 4, 0});
    Must(store_->Commit(std::move(transaction), Durability::kSync));
  }
  void Open() {
    store_.reset();
    StoreOptions options;
    options.path = dir_.path();
    options.sync_interval = std::chrono::milliseconds(10);
    store_ = Must(OpenStoreOnEnv(options, disk_.env()));
    pods_ = Must(store_->OpenCollection(SpecOf("pods")));
  }
  // The first block of the family's table is damaged, and the store is open again.
  void Damage(std::string_view family) {
    Must(Compact(*store_));
    store_.reset();
    ASSERT_EQ(testing::DamageTables(dir_.path(), family, 100), 1U);
    Open();
  }
  // A row of the damaged block, and one that is far behind it.
  static ObjectKey First() { return PodKey(0); }
  static ObjectKey Last() { return PodKey(6); }
  void PutNote(const std::string& name) {
    Transaction transaction = store_->Begin();
    transaction.PutNote(name, "here");
    Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  }
  void ExpectWritesGoOn() {
    // More tables than RocksDB lets stand without a compaction.
    for (uint64_t i = 0; i < 50; ++i) {
      Transaction transaction = store_->Begin();
      transaction.PutObject(pods_.id, Must(store_->Encode(pods_.id, *Pod(1000 + i))));
      EXPECT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed)) << i;
      store_->StartFlush();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(1049)))->json(), Pod(1049)->json());
    EXPECT_EQ(Must(GetStats(*store_, {.count_objects = false})).reopened, 0U);
  }
  void ExpectSaidOnceRead(std::string_view family, const std::function<Result<void>()>& read) {
    Damage(family);
    EXPECT_TRUE(store_->Health()) << "nobody has met it yet";
    EXPECT_EQ(CodeOf(read()), ErrorCode::kCorruption);
    EXPECT_EQ(CodeOf(store_->Health()), ErrorCode::kCorruption);
  }

  static constexpr size_t kPods = 200;
  testing::TempDir dir_;
  testing::FailingDisk disk_;
  std::unique_ptr<Store> store_;
  CollectionInfo pods_;
};

TEST_F(DamageTest, HealthTellsWhatAGetMetAndWhatToDo) {
  ExpectSaidOnceRead("objects", [&] { return store_->Get(pods_.id, First()).map([](auto&&) {}); });
  const std::string message = store_->Health().error().message;
  EXPECT_NE(message.find(".sst"), std::string::npos) << message;
  EXPECT_NE(message.find("larder verify --store " + dir_.path()), std::string::npos) << message;
  EXPECT_NE(message.find("larder verify --repair --store " + dir_.path()), std::string::npos)
      << message;
  // What is sound goes on, and takes nothing back.
  EXPECT_EQ(Must(store_->Get(pods_.id, Last()))->json(), Pod(6)->json());
  PutNote("later");
  EXPECT_EQ(Must(store_->GetNote("later")), "here");
  EXPECT_EQ(CodeOf(store_->Health()), ErrorCode::kCorruption);
  EXPECT_EQ(Must(GetStats(*store_, {.count_objects = false})).health, message);
}

TEST_F(DamageTest, HealthTellsWhatAHeadMet) {
  ExpectSaidOnceRead("objects",
                     [&] { return store_->GetHead(pods_.id, First()).map([](auto&&) {}); });
}

TEST_F(DamageTest, HealthTellsWhatAScanMet) {
  size_t seen = 0;
  const auto count = [&](const ObjectPtr&) { return ++seen != 0; };
  ExpectSaidOnceRead("objects", [&] { return store_->Scan(pods_.id, {}, {}, count); });
  EXPECT_EQ(seen, 0U) << "the damaged block is the first";
}

TEST_F(DamageTest, HealthTellsWhatAnIndexMet) {
  ExpectSaidOnceRead("indexes", [&] {
    return store_->ScanIndex(pods_.id, 1, "n", [](const IndexEntry&) { return true; });
  });
}

TEST_F(DamageTest, HealthTellsWhatAQueueMet) {
  ExpectSaidOnceRead("queues", [&] {
    return store_->ScanQueue("q", {}, [](const StoredQueueItem&) { return true; });
  });
}

TEST_F(DamageTest, HealthTellsWhatPendingChangesMet) {
  ExpectSaidOnceRead("deltas", [&] {
    return store_->ScanDeltas(pods_.id, "h", {},
                              [](const ObjectKey&, std::string_view) { return true; });
  });
}

TEST_F(DamageTest, RepairedAndOpenedAnewItIsWell) {
  ExpectSaidOnceRead("objects", [&] { return store_->Get(pods_.id, First()).map([](auto&&) {}); });
  store_.reset();
  Must(Repair({.path = dir_.path()}));
  Open();
  EXPECT_TRUE(Must(Verify(*store_)).Ok());
  EXPECT_TRUE(store_->Health());
  EXPECT_FALSE(pods_.cursor.Complete()) << "it is listed anew";
}

// RocksDB would refuse every write from then on, of every collection.
TEST_F(DamageTest, ACompactionThatMeetsItKeepsNobodyFromWriting) {
  Damage("objects");
  EXPECT_EQ(CodeOf(Compact(*store_)), ErrorCode::kCorruption);
  EXPECT_EQ(CodeOf(store_->Health()), ErrorCode::kCorruption);
  ExpectWritesGoOn();
}

// It would refuse the next write, be opened anew, meet the same place, and so on for ever.
TEST_F(DamageTest, ACompactionThatTheDiskDoesNotLetReadKeepsNobodyFromWritingEither) {
  Must(Compact(*store_));
  disk_.FailReadsOf(testing::LargestTable(dir_.path()));
  EXPECT_EQ(CodeOf(Compact(*store_)), ErrorCode::kIo);
  EXPECT_GT(disk_.failures(), 0);
  EXPECT_EQ(CodeOf(store_->Health()), ErrorCode::kIo);
  ExpectWritesGoOn();
}

// What a compaction could not write says more of the disk than of a table.
TEST(Damage, OnlyAReadThatFailedACompactionIsKeptFromRocksDb) {
  FakeClock clock;
  Damage damage("a store", false, &clock);
  rocksdb::Status written = rocksdb::Status::IOError("no space for rent");
  damage.OnBackgroundError(rocksdb::BackgroundErrorReason::kCompaction, &written);
  EXPECT_FALSE(written.ok());
  EXPECT_FALSE(damage.KeepsFromCompacting());
}

TEST(Damage, CompactionsAreTriedAgainLaterAndLater) {
  const testing::TempDir dir;
  testing::FailingDisk disk;
  const auto env = MakeTableReadsEnv(disk.env());
  const std::string path = dir.root() + "/1.sst";
  ASSERT_TRUE(rocksdb::WriteStringToFile(env.get(), "rows", path).ok());
  std::unique_ptr<rocksdb::FSRandomAccessFile> table;
  ASSERT_TRUE(env->GetFileSystem()->NewRandomAccessFile(path, {}, &table, nullptr).ok());
  disk.FailReadsOf("1.sst");
  char scratch[4];
  rocksdb::Slice result;
  const rocksdb::Status failed = table->Read(0, sizeof(scratch), {}, &result, scratch, nullptr);
  ASSERT_TRUE(IsTableReadError(failed)) << failed.ToString();

  FakeClock clock;
  Damage damage("a store", false, &clock);
  EXPECT_FALSE(damage.KeepsFromCompacting());
  for (const int minutes : {10, 20, 40}) {
    rocksdb::Status status = failed;
    damage.OnBackgroundError(rocksdb::BackgroundErrorReason::kCompaction, &status);
    EXPECT_TRUE(status.ok());
    EXPECT_TRUE(damage.KeepsFromCompacting());
    clock.Advance(std::chrono::minutes(minutes) - std::chrono::seconds(1));
    EXPECT_TRUE(damage.KeepsFromCompacting()) << minutes;
    clock.Advance(std::chrono::seconds(1));
    EXPECT_FALSE(damage.KeepsFromCompacting()) << minutes;
  }
}

}  // namespace
}  // namespace larder
