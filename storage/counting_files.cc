#include "storage/counting_files.h"

#include <rocksdb/file_system.h>

namespace larder {
namespace {

class CountingFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  CountingFile(std::unique_ptr<rocksdb::FSWritableFile>&& file, std::atomic<uint64_t>* bytes,
               std::atomic<uint64_t>* syncs)
      : FSWritableFileOwnerWrapper(std::move(file)), bytes_(bytes), syncs_(syncs) {}

  using rocksdb::FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    bytes_->fetch_add(data.size(), std::memory_order_relaxed);
    return target()->Append(data, options, context);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& info,
                           rocksdb::IODebugContext* context) override {
    bytes_->fetch_add(data.size(), std::memory_order_relaxed);
    return target()->Append(data, options, info, context);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    syncs_->fetch_add(1, std::memory_order_relaxed);
    return target()->Sync(options, context);
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
    syncs_->fetch_add(1, std::memory_order_relaxed);
    return target()->Fsync(options, context);
  }

 private:
  std::atomic<uint64_t>* const bytes_;
  std::atomic<uint64_t>* const syncs_;
};

class CountingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit CountingFileSystem(FileCounts* counts)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), counts_(counts) {}
  const char* Name() const override { return "larder.counting"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus status = target()->NewWritableFile(name, options, result, context);
    if (!status.ok()) return status;
    std::atomic<uint64_t>* bytes = &counts_->other_bytes;
    if (name.ends_with(".log")) {
      bytes = &counts_->log_bytes;
    } else if (name.ends_with(".sst") || name.ends_with(".blob")) {
      bytes = &counts_->table_bytes;
      counts_->tables.fetch_add(1, std::memory_order_relaxed);
    }
    *result = std::make_unique<CountingFile>(std::move(*result), bytes, &counts_->syncs);
    return status;
  }

 private:
  FileCounts* const counts_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> MakeCountingEnv(FileCounts* counts) {
  return rocksdb::NewCompositeEnv(std::make_shared<CountingFileSystem>(counts));
}

}  // namespace larder
