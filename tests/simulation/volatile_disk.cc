#include "tests/simulation/volatile_disk.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

namespace larder::simulation {

namespace fs = std::filesystem;
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
    const bool counts = path.ends_with(".log") || path.ends_with(".dbtmp") ||
                        path.find("/MANIFEST-") != std::string::npos;
    // To go on after it RocksDB waits for background work, which comes from the same thread.
    if (!counts || fails_in.load() == 0 || !env->IsIdle()) return IOStatus::OK();
    if (fails_in.fetch_sub(1) != 1) return IOStatus::OK();
    failed.store(true);
    IOStatus error = IOStatus::IOError("failed for a moment", path);
    // Else RocksDB would try to go on by itself, and wait for a flush.
    error.SetDataLoss(true);
    return error;
  }

  // `is_new`: there was no file of this name.
  void Made(const std::string& path, bool is_new) {
    std::lock_guard lock(mutex_);
    extents_[path] = {};
    if (is_new) names_.push_back({path, {}, std::nullopt});
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
    const auto it = extents_.find(path);
    if (it != extents_.end()) it->second.dropped = true;
  }
  void NamesSynced() {
    std::lock_guard lock(mutex_);
    names_.clear();
  }
  void LosePower(std::mt19937_64& random);

  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override;
  IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                              IODebugContext* debug) override;
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override;
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override;
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* directory,
                        IODebugContext* debug) override;

 private:
  struct Content {
    std::string bytes;
    Extent extent;
  };
  // A name that was made, moved or removed.
  struct NameChange {
    std::string path;
    std::string moved_from;         // empty: it was not moved
    std::optional<Content> before;  // what had this name until then
  };

  // REQUIRES: mutex_ is held, as for the next.
  std::optional<Content> Read(const std::string& path) const;
  void Undo(const NameChange& change);

  std::mutex mutex_;
  // Guarded by mutex_, like the next: files that were written since the last power loss.
  std::map<std::string, Extent> extents_;
  std::vector<NameChange> names_;  // that no directory was synced since
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

template <typename Files>
class TrackedDirectory final : public rocksdb::FSDirectoryWrapper {
 public:
  TrackedDirectory(Files* files, std::unique_ptr<rocksdb::FSDirectory> directory)
      : FSDirectoryWrapper(std::move(directory)), files_(files) {}
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return Synced(); }
  IOStatus FsyncWithDirOptions(const IOOptions&, IODebugContext*,
                               const rocksdb::DirFsyncOptions&) override {
    return Synced();
  }

 private:
  IOStatus Synced() {
    if (files_->Step()) files_->NamesSynced();
    return IOStatus::OK();
  }

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
  std::unique_ptr<rocksdb::FSWritableFile> made;
  if (!Step()) {
    // A dead disk gives a file that nobody finds.
    const std::string unseen = path + ".unseen";
    const IOStatus status = FileSystemWrapper::NewWritableFile(unseen, options, &made, debug);
    if (status.ok()) fs::remove(unseen);
    *file = std::move(made);
    return status;
  }
  const bool is_new = !fs::exists(path);
  const IOStatus status = FileSystemWrapper::NewWritableFile(path, options, &made, debug);
  if (!status.ok()) return status;
  Made(path, is_new);
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

IOStatus VolatileDisk::Files::RenameFile(const std::string& from, const std::string& to,
                                         const IOOptions& options, IODebugContext* debug) {
  if (!Step()) return IOStatus::OK();
  std::lock_guard lock(mutex_);
  NameChange change{to, from, Read(to)};
  const IOStatus status = FileSystemWrapper::RenameFile(from, to, options, debug);
  if (!status.ok()) return status;
  names_.push_back(std::move(change));
  extents_.erase(to);
  if (auto moved = extents_.extract(from)) {
    moved.key() = to;
    extents_.insert(std::move(moved));
  }
  return status;
}

IOStatus VolatileDisk::Files::DeleteFile(const std::string& path, const IOOptions& options,
                                         IODebugContext* debug) {
  if (!Step()) return IOStatus::OK();
  std::lock_guard lock(mutex_);
  NameChange change{path, {}, Read(path)};
  const IOStatus status = FileSystemWrapper::DeleteFile(path, options, debug);
  if (!status.ok()) return status;
  names_.push_back(std::move(change));
  extents_.erase(path);
  return status;
}

IOStatus VolatileDisk::Files::NewDirectory(const std::string& path, const IOOptions& options,
                                           std::unique_ptr<rocksdb::FSDirectory>* directory,
                                           IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSDirectory> made;
  const IOStatus status = FileSystemWrapper::NewDirectory(path, options, &made, debug);
  if (status.ok()) *directory = std::make_unique<TrackedDirectory<Files>>(this, std::move(made));
  return status;
}

std::optional<VolatileDisk::Files::Content> VolatileDisk::Files::Read(
    const std::string& path) const {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  Content content{std::string(fs::file_size(path), '\0'), {}};
  file.read(content.bytes.data(), static_cast<std::streamsize>(content.bytes.size()));
  const auto it = extents_.find(path);
  if (it != extents_.end()) content.extent = it->second;
  // Written before the last power loss: all of it is on the disk.
  if (it == extents_.end()) content.extent.size = content.extent.synced = content.bytes.size();
  return content;
}

void VolatileDisk::Files::Undo(const NameChange& change) {
  std::error_code gone;
  if (change.moved_from.empty()) {
    fs::remove(change.path, gone);
    extents_.erase(change.path);
  } else {
    fs::rename(change.path, change.moved_from, gone);
    if (auto moved = extents_.extract(change.path)) {
      moved.key() = change.moved_from;
      extents_.insert(std::move(moved));
    }
  }
  if (!change.before) return;
  std::ofstream(change.path, std::ios::binary) << change.before->bytes;
  extents_[change.path] = change.before->extent;
}

// Half of the files end where a write did: what is cut in the middle of a record is noticed by
// whoever reads it, what ends behind one may not be.
void VolatileDisk::Files::LosePower(std::mt19937_64& random) {
  std::lock_guard lock(mutex_);
  for (size_t kept = random() % (names_.size() + 1); names_.size() > kept; names_.pop_back()) {
    Undo(names_.back());
  }
  names_.clear();
  for (const auto& [path, extent] : std::exchange(extents_, {})) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    uint64_t kept = extent.synced + random() % (extent.size - extent.synced + 1);
    if (!extent.writes.empty() && random() % 2 == 0) {
      const uint64_t whole = random() % (extent.writes.size() + 1);
      kept = whole == 0 ? extent.synced : extent.writes[whole - 1];
    }
    fs::resize_file(path, kept, error);
  }
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

void VolatileDisk::Revive(Loss loss, std::mt19937_64& random) {
  if (loss == Loss::kPower) files_->LosePower(random);
  files_->dead.store(false);
  files_->operations_left.store(0);
  files_->fails_in.store(0);
  files_->failed.store(false);
  env_->Hold();
}

}  // namespace larder::simulation
