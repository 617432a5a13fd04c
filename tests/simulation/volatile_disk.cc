#include "tests/simulation/volatile_disk.h"

#include <atomic>
#include <filesystem>
#include <vector>

namespace larder::simulation {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class VolatileDisk::Files final : public rocksdb::FileSystemWrapper {
 public:
  Files() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "VolatileDisk"; }

  // Of a file: what is in it, and what of that a power loss leaves.
  struct Extent {
    uint64_t size = 0, synced = 0;
    std::vector<uint64_t> writes;  // where each of those that are not synced ended
    bool dropped = false;          // a sync failed: what it did not write no later one will
  };
  std::atomic<bool> dead{false};
  std::atomic<int64_t> operations_left{0};  // until it dies; 0: as many as you like
  std::atomic<int64_t> fails_in{0};         // operations; 0: none fails
  std::atomic<bool> failed{false};
  const LockstepEnv* env = nullptr;

  // Before an operation that changes something. False: the disk is dead.
  bool Step() {
    if (operations_left.load() > 0 && operations_left.fetch_sub(1) == 1) dead.store(true);
    return !dead.load();
  }

  // Of a write or a sync: an error, where this is the one to fail.
  IOStatus Failure(const std::string& path) {
    const bool counts = path.ends_with(".log") || path.find("/MANIFEST-") != std::string::npos;
    // To go on after it RocksDB waits for background work, which comes from the same thread.
    if (!counts || fails_in.load() == 0 || !env->IsIdle()) return IOStatus::OK();
    if (fails_in.fetch_sub(1) != 1) return IOStatus::OK();
    failed.store(true);
    IOStatus error = IOStatus::IOError("failed for a moment", path);
    // Else RocksDB would try to go on by itself, and wait for a flush.
    error.SetDataLoss(true);
    return error;
  }

  void Made(const std::string& path) {
    std::lock_guard lock(mutex_);
    extents_[path] = {};
  }
  void Wrote(const std::string& path, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    Extent& extent = extents_[path];
    extent.writes.push_back(extent.size += bytes);
  }
  void Synced(const std::string& path) {
    std::lock_guard lock(mutex_);
    const auto it = extents_.find(path);
    if (it == extents_.end() || it->second.dropped) return;
    it->second.synced = it->second.size;
    it->second.writes.clear();
  }
  void Dropped(const std::string& path) {
    std::lock_guard lock(mutex_);
    extents_[path].dropped = true;
  }
  std::map<std::string, Extent> Take() {
    std::lock_guard lock(mutex_);
    return std::move(extents_);
  }

  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override;
  IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                              IODebugContext* debug) override;
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    if (!Step()) return IOStatus::OK();
    {
      std::lock_guard lock(mutex_);
      if (const auto it = extents_.find(from); it != extents_.end()) {
        extents_[to] = it->second;
        extents_.erase(it);
      }
    }
    return FileSystemWrapper::RenameFile(from, to, options, debug);
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override {
    if (!Step()) return IOStatus::OK();
    {
      std::lock_guard lock(mutex_);
      extents_.erase(path);
    }
    return FileSystemWrapper::DeleteFile(path, options, debug);
  }

 private:
  std::mutex mutex_;
  // Guarded by mutex_: files that were written since the last power loss.
  std::map<std::string, Extent> extents_;
};

namespace {

// Never waits for the real disk: what counts as synced is written down instead.
template <typename Files>
class TrackedFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  TrackedFile(std::string path, Files* files, std::unique_ptr<rocksdb::FSWritableFile> file)
      : FSWritableFileOwnerWrapper(std::move(file)), path_(std::move(path)), files_(files) {}
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    if (!files_->Step()) return IOStatus::OK();
    IOStatus failure = files_->Failure(path_);
    const rocksdb::Slice written(data.data(), failure.ok() ? data.size() : data.size() / 2);
    const IOStatus status = FSWritableFileOwnerWrapper::Append(written, options, debug);
    if (status.ok()) files_->Wrote(path_, written.size());
    return failure.ok() ? status : failure;
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  // Room for what is to come would be half of all the work.
  void PrepareWrite(size_t, size_t, const IOOptions&, IODebugContext*) override {}
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return Synced(); }
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return Synced(); }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }

 private:
  IOStatus Synced() {
    if (!files_->Step()) return IOStatus::OK();
    IOStatus failure = files_->Failure(path_);
    failure.ok() ? files_->Synced(path_) : files_->Dropped(path_);
    return failure;
  }

  const std::string path_;
  Files* const files_;
};

}  // namespace

IOStatus VolatileDisk::Files::NewWritableFile(const std::string& path,
                                              const rocksdb::FileOptions& options,
                                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                                              IODebugContext* debug) {
  // A copy of the options for people: RocksDB goes on without it, and would spend a fifth of the
  // time on reading it again.
  if (path.find("/OPTIONS-") != std::string::npos) return IOStatus::IOError("not kept here", path);
  // A dead disk gives a file that nobody looks for, not even at the revival: how many there are
  // depends on how far RocksDB's threads got before they were told to end.
  if (!Step()) return FileSystemWrapper::NewWritableFile(path + ".unseen", options, file, debug);
  std::unique_ptr<rocksdb::FSWritableFile> made;
  const IOStatus status = FileSystemWrapper::NewWritableFile(path, options, &made, debug);
  if (!status.ok()) return status;
  Made(path);
  *file = std::make_unique<TrackedFile<Files>>(path, this, std::move(made));
  return status;
}

// For its sync: nobody writes to a file that was closed.
IOStatus VolatileDisk::Files::ReopenWritableFile(const std::string& path,
                                                 const rocksdb::FileOptions& options,
                                                 std::unique_ptr<rocksdb::FSWritableFile>* file,
                                                 IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSWritableFile> made;
  const IOStatus status = FileSystemWrapper::ReopenWritableFile(path, options, &made, debug);
  if (status.ok()) *file = std::make_unique<TrackedFile<Files>>(path, this, std::move(made));
  return status;
}

VolatileDisk::VolatileDisk()
    : files_(std::make_shared<Files>()),
      env_(std::make_unique<LockstepEnv>(rocksdb::NewCompositeEnv(files_))) {
  files_->env = env_.get();
  env_->Hold();
}
VolatileDisk::~VolatileDisk() = default;

void VolatileDisk::Die() { files_->dead.store(true); }
void VolatileDisk::DieInstead(int64_t operation) { files_->operations_left.store(operation); }
bool VolatileDisk::IsDead() const { return files_->dead.load(); }
void VolatileDisk::FailIn(int64_t operations) { files_->fails_in.store(operations); }
bool VolatileDisk::HasFailed() const { return files_->failed.load(); }

// Half of the files end where a write did: what is cut in the middle of a record is noticed by
// whoever reads it, what ends behind one may not be.
void VolatileDisk::Revive(Loss loss, std::mt19937_64& random) {
  if (loss == Loss::kPower) {
    for (const auto& [path, extent] : files_->Take()) {
      std::error_code error;
      if (!std::filesystem::is_regular_file(path, error)) continue;
      uint64_t kept = extent.synced + random() % (extent.size - extent.synced + 1);
      if (!extent.writes.empty() && random() % 2 == 0) {
        const uint64_t whole = random() % (extent.writes.size() + 1);
        kept = whole == 0 ? extent.synced : extent.writes[whole - 1];
      }
      std::filesystem::resize_file(path, kept, error);
    }
  }
  files_->dead.store(false);
  files_->operations_left.store(0);
  files_->fails_in.store(0);
  files_->failed.store(false);
  env_->Hold();
}

}  // namespace larder::simulation
