#include "tests/queue/damage.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <utility>

#include "storage/family.h"
#include "storage/keys.h"

namespace larder::testing {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

void PutDamagedQueueRecord(const std::string& store, const std::string& queue,
                           const std::string& item, uint64_t generation) {
  std::vector<std::string> names;
  ASSERT_TRUE(rocksdb::DB::ListColumnFamilies({}, store, &names).ok());
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) {
    families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open({}, store, families, &handles, &raw).ok());
  auto* handle = handles[static_cast<size_t>(Family::kQueues) + 1];
  EXPECT_TRUE(raw->Put({}, handle, keys::QueueItem(queue, item, generation), "damaged").ok());
  for (auto* each : handles) EXPECT_TRUE(raw->DestroyColumnFamilyHandle(each).ok());
  delete raw;
}

class UnreadableDisk::Files final : public rocksdb::FileSystemWrapper {
 public:
  Files() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "larder.UnreadableDisk"; }

  IOStatus OnRead() {
    if (!fail) return IOStatus::OK();
    ++failures;
    return IOStatus::IOError("this disk was told to fail");
  }
  IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               IODebugContext* debug) override;

  std::atomic<bool> fail{false};
  std::atomic<int> failures{0};
};

namespace {

template <typename Files>
class Table final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  Table(std::unique_ptr<rocksdb::FSRandomAccessFile> file, Files* files)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), files_(files) {}

  IOStatus Read(uint64_t offset, size_t bytes, const IOOptions& options, rocksdb::Slice* result,
                char* scratch, IODebugContext* debug) const override {
    IOStatus status = files_->OnRead();
    if (!status.ok()) return status;
    return FSRandomAccessFileOwnerWrapper::Read(offset, bytes, options, result, scratch, debug);
  }

 private:
  Files* const files_;
};

}  // namespace

IOStatus UnreadableDisk::Files::NewRandomAccessFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* file, IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
  if (status.ok()) *file = std::make_unique<Table<Files>>(std::move(*file), this);
  return status;
}

UnreadableDisk::UnreadableDisk()
    : files_(std::make_shared<Files>()), env_(rocksdb::NewCompositeEnv(files_)) {}
UnreadableDisk::~UnreadableDisk() = default;

void UnreadableDisk::FailReads(bool fail) { files_->fail = fail; }
int UnreadableDisk::failures() const { return files_->failures; }

}  // namespace larder::testing
