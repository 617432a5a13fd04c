// A database that is opened for reading while its owner flushes.
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "storage/database.h"
#include "storage/maintenance.h"
#include "storage/owner_lock.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

namespace fs = std::filesystem;
using testing::Must;
using testing::Pod;
using testing::SpecOf;

// Calls back before the first table is opened: the manifest has been read by then, and the logs
// have not been listed.
class BeforeTheTables final : public rocksdb::FileSystemWrapper {
 public:
  explicit BeforeTheTables(std::function<void()> then)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), then_(std::move(then)) {}
  const char* Name() const override { return "BeforeTheTables"; }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    if (then_ && path.ends_with(".sst")) std::exchange(then_, nullptr)();
    return FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
  }

 private:
  std::function<void()> then_;
};

std::string FirstLogIn(const std::string& path) {
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() == ".log") return entry.path().string();
  }
  return {};
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
    const std::string log = FirstLogIn(dir.path());
    (void)Must(CreateSnapshot(*owner, "flushes"));  // and leaves the tables that are there
    testing::PutAll(*owner, pods.id, {Pod(3)});
    for (int i = 0; i < 500 && fs::exists(log); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    flushed = !fs::exists(log);
  }));
  OwnerLock none;
  const auto database =
      Must(Database::Open(options, GetParam(), env.get(), nullptr, nullptr, none));
  EXPECT_TRUE(flushed);
  const std::unique_ptr<rocksdb::Iterator> rows(
      (*database)->NewIterator({}, database->family(Family::kObjects)));
  size_t count = 0;
  for (rows->SeekToFirst(); rows->Valid(); rows->Next()) ++count;
  EXPECT_EQ(count, 3U);
}

INSTANTIATE_TEST_SUITE_P(All, ReaderOpening,
                         ::testing::Values(Database::Mode::kReader, Database::Mode::kFrozen),
                         [](const auto& mode) {
                           return mode.param == Database::Mode::kReader ? "Reader" : "Frozen";
                         });

}  // namespace
}  // namespace larder
