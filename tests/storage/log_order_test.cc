// The order in which RocksDB's logs reach the disk.
#include "storage/log_order.h"

#include <gtest/gtest.h>
#include <rocksdb/file_system.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/storage/support.h"

namespace larder {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// A disk whose first sync of a log takes until a second log is begun. One that is never begun is
// waited for only so long: nothing tells that somebody waits for us.
class SlowDisk final : public rocksdb::FileSystemWrapper {
 public:
  explicit SlowDisk(bool fails = false)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), fails_(fails) {}
  const char* Name() const override { return "larder.SlowDisk"; }

  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    {
      std::lock_guard lock(mutex_);
      ++logs_;
      begun_while_syncing_ = begun_while_syncing_ || syncing_;
      wake_.notify_all();
    }
    IOStatus status = FileSystemWrapper::NewWritableFile(path, options, file, debug);
    if (status.ok()) *file = std::make_unique<SlowFile>(std::move(*file), this);
    return status;
  }
  void AwaitSyncing() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return syncing_ || synced_; });
  }
  bool begun_while_syncing() const {
    std::lock_guard lock(mutex_);
    return begun_while_syncing_;
  }

 private:
  class SlowFile final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    SlowFile(std::unique_ptr<rocksdb::FSWritableFile> file, SlowDisk* disk)
        : FSWritableFileOwnerWrapper(std::move(file)), disk_(disk) {}
    IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
      IOStatus status = disk_->OnSync();
      return status.ok() ? FSWritableFileOwnerWrapper::Sync(options, debug) : status;
    }

   private:
    SlowDisk* const disk_;
  };

  IOStatus OnSync() {
    std::unique_lock lock(mutex_);
    if (synced_) return IOStatus::OK();
    syncing_ = true;
    wake_.notify_all();
    wake_.wait_for(lock, std::chrono::milliseconds(200), [this] { return logs_ > 1; });
    syncing_ = false;
    synced_ = true;
    return fails_ ? IOStatus::IOError("this disk was told to fail") : IOStatus::OK();
  }

  const bool fails_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  int logs_ = 0;  // guarded by mutex_, like all below
  bool syncing_ = false;
  bool synced_ = false;
  bool begun_while_syncing_ = false;
};

// A log with something in it that one thread is syncing, and another one that is begun meanwhile.
class LogOrderTest : public ::testing::Test {
 protected:
  void Run(const std::shared_ptr<SlowDisk>& disk) {
    const auto slow = rocksdb::NewCompositeEnv(disk);
    const auto env = MakeLogOrderEnv(slow.get());
    const auto& files = env->GetFileSystem();
    std::unique_ptr<rocksdb::FSWritableFile> first, second;
    ASSERT_TRUE(files->NewWritableFile(dir_.root() + "/000001.log", {}, &first, nullptr).ok());
    ASSERT_TRUE(first->Append("a commit", IOOptions(), nullptr).ok());
    std::jthread syncer([&] { synced_ = first->Sync(IOOptions(), nullptr); });
    disk->AwaitSyncing();
    begun_ = files->NewWritableFile(dir_.root() + "/000002.log", {}, &second, nullptr);
    syncer.join();
    (void)first->Close(IOOptions(), nullptr);
    if (second) (void)second->Close(IOOptions(), nullptr);
  }

  testing::TempDir dir_;
  IOStatus synced_, begun_;
};

TEST_F(LogOrderTest, NoLogIsBegunWhileTheOneBeforeIsStillBeingSynced) {
  const auto disk = std::make_shared<SlowDisk>();
  Run(disk);
  EXPECT_TRUE(synced_.ok());
  EXPECT_TRUE(begun_.ok());
  EXPECT_FALSE(disk->begun_while_syncing());
}

TEST_F(LogOrderTest, WhoWaitsForASyncThatFailsIsTold) {
  const auto disk = std::make_shared<SlowDisk>(/*fails=*/true);
  Run(disk);
  EXPECT_FALSE(synced_.ok());
  EXPECT_FALSE(begun_.ok());
}

}  // namespace
}  // namespace larder
