#include "tests/storage/failing_disk.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <condition_variable>
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
  void FailReadsOf(const std::string& name) {
    std::lock_guard lock(mutex_);
    unreadable_ = name;
  }
  IOStatus OnRead(std::string_view path) {
    std::lock_guard lock(mutex_);
    if (unreadable_.empty() || !path.ends_with("/" + unreadable_)) return IOStatus::OK();
    ++failures_;
    return IOStatus::IOError("this disk was told to fail");
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
  void HoldWriteWith(const std::string& text) {
    std::lock_guard lock(mutex_);
    hold_ = text;
  }
  void AwaitHeld() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return held_; });
  }
  void LetGo() {
    std::lock_guard lock(mutex_);
    held_ = false;
    wake_.notify_all();
  }
  IOStatus OnAppend(std::string_view data) {
    std::unique_lock lock(mutex_);
    if (!hold_.empty() && data.find(hold_) != std::string_view::npos) {
      hold_.clear();
      held_ = true;
      wake_.notify_all();
      wake_.wait(lock, [this] { return !held_; });
    }
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
  IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               IODebugContext* debug) override;

 private:
  mutable std::mutex mutex_;
  int syncs_ = 0;           // guarded by mutex_, like all below
  std::string text_;        // empty: writes succeed
  std::string hold_;        // empty: no write is to wait
  std::string unreadable_;  // empty: no file
  bool held_ = false;
  std::condition_variable wake_;
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

template <typename Files>
class TableFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  TableFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, Files* files, std::string path)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), files_(files), path_(std::move(path)) {}

  IOStatus Read(uint64_t offset, size_t size, const IOOptions& options, rocksdb::Slice* result,
                char* scratch, IODebugContext* debug) const override {
    IOStatus status = files_->OnRead(path_);
    if (!status.ok()) return status;
    return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug);
  }

 private:
  Files* const files_;
  const std::string path_;
};

}  // namespace

IOStatus FailingDisk::Files::NewRandomAccessFile(const std::string& path,
                                                 const rocksdb::FileOptions& options,
                                                 std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                                 IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
  if (status.ok()) *file = std::make_unique<TableFile<Files>>(std::move(*file), this, path);
  return status;
}

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
void FailingDisk::FailReadsOf(const std::string& name) { files_->FailReadsOf(name); }
void FailingDisk::HoldLogWriteWith(const std::string& text) { files_->HoldWriteWith(text); }
void FailingDisk::AwaitHeld() { files_->AwaitHeld(); }
void FailingDisk::LetGo() { files_->LetGo(); }
int FailingDisk::failures() const { return files_->failures(); }

}  // namespace larder::testing
