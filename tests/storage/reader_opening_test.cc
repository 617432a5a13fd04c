// A database that is opened for reading while its owner flushes and compacts.
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "storage/database.h"
#include "storage/maintenance.h"
#include "storage/owner_lock.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

namespace fs = std::filesystem;
using testing::CodeOf;
using testing::Must;
using testing::Pod;
using testing::SpecOf;

// Calls back before the first table is opened, of each of so many openings: the manifest has been
// read by then, and the logs have not been listed.
class BeforeTheTables final : public rocksdb::FileSystemWrapper {
 public:
  explicit BeforeTheTables(std::function<void()> then, int openings = 1)
      : FileSystemWrapper(rocksdb::FileSystem::Default()),
        then_(std::move(then)),
        openings_(openings) {}
  const char* Name() const override { return "BeforeTheTables"; }
  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* debug) override {
    if (path.find("/MANIFEST-") != std::string::npos) armed_ = openings_ > 0;
    return FileSystemWrapper::NewSequentialFile(path, options, file, debug);
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    if (path.ends_with(".sst") && std::exchange(armed_, false)) {
      --openings_;
      then_();
    }
    return FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
  }

 private:
  const std::function<void()> then_;
  int openings_;
  bool armed_ = false;
};

std::string FirstIn(const std::string& path, std::string_view extension) {
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() == extension) return entry.path().string();
  }
  return {};
}

// Whether it is gone in the end.
bool AwaitRemoval(const std::string& path) {
  for (int i = 0; i < 500 && fs::exists(path); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return !fs::exists(path);
}

size_t CountObjects(const Database& database) {
  const std::unique_ptr<rocksdb::Iterator> rows(
      database->NewIterator({}, database.family(Family::kObjects)));
  size_t count = 0;
  for (rows->SeekToFirst(); rows->Valid(); rows->Next()) ++count;
  EXPECT_TRUE(rows->status().ok()) << rows->status().ToString();
  return count;
}

class ReaderOpening : public ::testing::TestWithParam<Database::Mode> {};

TEST_P(ReaderOpening, MissesNothingThatTheOwnerFlushesMeanwhile) {
  const testing::TempDir dir;
  const StoreOptions options{.path = dir.path()};
  const auto owner = Must(Store::Open(options));
  const CollectionInfo pods = Must(owner->OpenCollection(SpecOf("pods")));
  testing::PutAll(*owner, pods.id, {Pod(1)});
  (void)Must(Compact(*owner));  // a table
  testing::PutAll(*owner, pods.id, {Pod(2)});
  bool flushed = false;
  const auto env = rocksdb::NewCompositeEnv(std::make_shared<BeforeTheTables>([&] {
    const std::string log = FirstIn(dir.path(), ".log");
    (void)Must(CreateSnapshot(*owner, "flushes"));  // and leaves the tables that are there
    testing::PutAll(*owner, pods.id, {Pod(3)});
    flushed = AwaitRemoval(log);
  }));
  const auto database =
      Must(Database::Open(options, GetParam(), env.get(), nullptr, nullptr, nullptr));
  EXPECT_TRUE(flushed);
  EXPECT_EQ(CountObjects(*database), 3U);
}

INSTANTIATE_TEST_SUITE_P(All, ReaderOpening,
                         ::testing::Values(Database::Mode::kReader, Database::Mode::kFrozen),
                         [](const auto& mode) {
                           return mode.param == Database::Mode::kReader ? "Reader" : "Frozen";
                         });

TEST(ReaderOfABusyStore, IsAskedToTryAgainWhereTheOwnerNeverRests) {
  const testing::TempDir dir;
  const StoreOptions options{.path = dir.path()};
  const auto owner = Must(Store::Open(options));
  const CollectionInfo pods = Must(owner->OpenCollection(SpecOf("pods")));
  testing::PutAll(*owner, pods.id, {Pod(1)});
  (void)Must(Compact(*owner));  // a table
  const auto flush = [&, flushes = 0]() mutable {
    const std::string log = FirstIn(dir.path(), ".log");
    testing::PutAll(*owner, pods.id, {Pod(2)});
    (void)Must(CreateSnapshot(*owner, std::to_string(++flushes)));
    EXPECT_TRUE(AwaitRemoval(log));
  };
  const auto env =
      rocksdb::NewCompositeEnv(std::make_shared<BeforeTheTables>(flush, /*openings=*/1000));
  const auto database =
      Database::Open(options, Database::Mode::kReader, env.get(), nullptr, nullptr, nullptr);
  EXPECT_EQ(CodeOf(database), ErrorCode::kNotReady);
  EXPECT_TRUE(database.error().IsRetryable());
}

// Beside an owner that compacts.
class SecondaryOpening : public ::testing::Test {
 protected:
  // Two tables of objects, and a log that is not flushed by compacting them.
  void SetUp() override {
    const auto owner = Must(Store::Open(options_));
    const CollectionInfo pods = Must(owner->OpenCollection(SpecOf("pods")));
    for (const uint64_t version : {1, 2}) {
      testing::PutAll(*owner, pods.id, {Pod(1, version), Pod(2, version)});
      (void)Must(CreateSnapshot(*owner, std::to_string(version)));
    }
    Transaction transaction = owner->Begin();
    transaction.PutNote("in", "the log");
    Must(owner->Commit(std::move(transaction), Durability::kSync));
  }
  std::shared_ptr<Database> Own() {
    return Must(
        Database::Open(options_, Database::Mode::kOwner, nullptr, nullptr, nullptr, owner_lock_));
  }
  // Both tables go, and no log does.
  void CompactObjects(const Database& owner) {
    const std::string log = FirstIn(dir_.path(), ".log");
    rocksdb::ColumnFamilyMetaData objects;
    owner->GetColumnFamilyMetaData(owner.family(Family::kObjects), &objects);
    EXPECT_EQ(objects.file_count, 2U);
    rocksdb::CompactRangeOptions how;
    how.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    // Without a range it would flush what has no object.
    const std::string last(16, '\xff');
    const rocksdb::Slice from, to(last);
    EXPECT_TRUE(owner->CompactRange(how, owner.family(Family::kObjects), &from, &to).ok());
    for (const auto& level : objects.levels) {
      for (const auto& table : level.files) {
        EXPECT_TRUE(AwaitRemoval(dir_.path() + "/" + table.relative_filename)) << level.level;
      }
    }
    EXPECT_TRUE(fs::exists(log)) << log;
    compacted_ = true;
  }
  size_t CountFrom(const std::function<void()>& before_the_tables) {
    const auto env = rocksdb::NewCompositeEnv(std::make_shared<BeforeTheTables>(before_the_tables));
    return CountObjects(*Must(
        Database::Open(options_, Database::Mode::kReader, env.get(), nullptr, nullptr, nullptr)));
  }

  const testing::TempDir dir_;
  const StoreOptions options_{.path = dir_.path()};
  const std::shared_ptr<OwnerLock> owner_lock_ = std::make_shared<OwnerLock>();
  bool compacted_ = false;
};

TEST_F(SecondaryOpening, MissesNothingThatTheOwnerCompactsMeanwhile) {
  const auto owner = Own();
  EXPECT_EQ(CountFrom([&] { CompactObjects(*owner); }), 2U);
  EXPECT_TRUE(compacted_);
}

// Each start of an owner begins a manifest, and so does one that has grown long.
TEST_F(SecondaryOpening, MissesNothingThatTheOwnerCompactsUnderAnotherManifest) {
  std::shared_ptr<Database> owner;
  EXPECT_EQ(CountFrom([&] {
              owner = Own();
              CompactObjects(*owner);
            }),
            2U);
  EXPECT_TRUE(compacted_);
}

}  // namespace
}  // namespace larder
