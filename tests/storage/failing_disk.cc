#include "tests/storage/failing_disk.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <mutex>
#include <string_view>
#include <utility>

namespace larder::testing {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class FailingDisk::Files final : public rocksdb::FileSystemWrapper {
 public:
  Files() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "larder.FailingDisk"; }

  void FailSyncs(int times) {
    std::lock_guard lock(mutex_);
    syncs_ = times;
  }
  void FailWritesWith(const std::string& text) {
    std::lock_guard lock(mutex_);
    text_ = text;
  }
  int failures() const {
    std::lock_guard lock(mutex_);
    return failures_;
  }
  IOStatus OnSync() {
    std::lock_guard lock(mutex_);
    if (syncs_ == 0) return IOStatus::OK();
    --syncs_;
    ++failures_;
    return IOStatus::IOError("this disk was told to fail");
  }
  IOStatus OnAppend(std::string_view data) {
    std::lock_guard lock(mutex_);
    if (text_.empty() || data.find(text_) == std::string_view::npos) return IOStatus::OK();
    ++failures_;
    return IOStatus::IOError("this disk was told to fail");
  }

  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override;
  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                             const rocksdb::FileOptions& options,
                             std::unique_ptr<rocksdb::FSWritableFile>* file,
                             IODebugContext* debug) override;

 private:
  mutable std::mutex mutex_;
  int syncs_ = 0;     // guarded by mutex_, like all below
  std::string text_;  // empty: writes succeed
  int failures_ = 0;
};

namespace {

template <typename Files>
class LogFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LogFile(std::unique_ptr<rocksdb::FSWritableFile> file, Files* files)
      : FSWritableFileOwnerWrapper(std::move(file)), files_(files) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    IOStatus status = files_->OnAppend({data.data(), data.size()});
    return status.ok() ? FSWritableFileOwnerWrapper::Append(data, options, debug) : status;
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = files_->OnSync();
    return status.ok() ? FSWritableFileOwnerWrapper::Sync(options, debug) : status;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }

 private:
  Files* const files_;
};

}  // namespace

IOStatus FailingDisk::Files::NewWritableFile(const std::string& path,
                                             const rocksdb::FileOptions& options,
                                             std::unique_ptr<rocksdb::FSWritableFile>* file,
                                             IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewWritableFile(path, options, file, debug);
  if (status.ok() && path.ends_with(".log")) {
    *file = std::make_unique<LogFile<Files>>(std::move(*file), this);
  }
  return status;
}

IOStatus FailingDisk::Files::ReuseWritableFile(const std::string& path, const std::string& old_path,
                                               const rocksdb::FileOptions& options,
                                               std::unique_ptr<rocksdb::FSWritableFile>* file,
                                               IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::ReuseWritableFile(path, old_path, options, file, debug);
  if (status.ok() && path.ends_with(".log")) {
    *file = std::make_unique<LogFile<Files>>(std::move(*file), this);
  }
  return status;
}

FailingDisk::FailingDisk()
    : files_(std::make_shared<Files>()), env_(rocksdb::NewCompositeEnv(files_)) {}
FailingDisk::~FailingDisk() = default;

void FailingDisk::FailLogSyncs(int times) { files_->FailSyncs(times); }
void FailingDisk::FailLogWritesWith(const std::string& text) { files_->FailWritesWith(text); }
int FailingDisk::failures() const { return files_->failures(); }

}  // namespace larder::testing
