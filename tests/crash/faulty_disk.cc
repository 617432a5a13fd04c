#include "tests/crash/faulty_disk.h"

#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

namespace larder::crash {

namespace fs = std::filesystem;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

namespace {

// Does the log's record only take rows away? So do acknowledgements, of a handler and of a queue,
// and what removes objects puts a cursor, too.
bool Acknowledges(const rocksdb::Slice& record) {
  constexpr size_t kRecordHeader = 7;  // of RocksDB's log
  constexpr size_t kBatchHeader = 12;
  struct Counter : rocksdb::WriteBatch::Handler {
    rocksdb::Status PutCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override {
      ++puts;
      return {};
    }
    rocksdb::Status DeleteCF(uint32_t, const rocksdb::Slice&) override {
      ++deletes;
      return {};
    }
    rocksdb::Status DeleteRangeCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override {
      return {};
    }
    int puts = 0;
    int deletes = 0;
  };
  if (record.size() < kRecordHeader + kBatchHeader) return false;
  // Of a record in pieces, or of several at a time, RocksDB could not read a batch.
  const auto byte = [&](size_t at) { return size_t{static_cast<unsigned char>(record[at])}; };
  const size_t length = byte(4) + (byte(5) << 8);
  constexpr size_t kWhole = 1;
  if (byte(6) != kWhole || length + kRecordHeader != record.size()) return false;
  const rocksdb::WriteBatch batch(
      std::string(record.data() + kRecordHeader, record.size() - kRecordHeader));
  Counter counter;
  return batch.Iterate(&counter).ok() && counter.puts == 0 && counter.deletes > 0;
}

class WatchedFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WatchedFile(std::unique_ptr<rocksdb::FSWritableFile> file, FaultyDisk* disk, std::string path,
              uint64_t size)
      : FSWritableFileOwnerWrapper(std::move(file)),
        disk_(disk),
        path_(std::move(path)),
        size_(size) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    const auto append = [&] {
      IOStatus status = FSWritableFileOwnerWrapper::Append(data, options, debug);
      if (status.ok()) disk_->Wrote(path_, size_ += data.size());
      return status;
    };
    if (disk_->WatchesAcknowledgements() && FileKind(path_) == "log" && Acknowledges(data)) {
      return Change("acknowledge", "acknowledged", append);
    }
    return Change("append", "appended", append);
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    const auto powered = disk_->Powered();
    IOStatus status = FSWritableFileOwnerWrapper::Truncate(size, options, debug);
    if (status.ok()) disk_->Wrote(path_, size_ = size);
    return status;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return Change("sync", "synced", [&] {
      IOStatus status = FSWritableFileOwnerWrapper::Sync(options, debug);
      if (status.ok()) disk_->Synced(path_);
      return status;
    });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }

 private:
  template <typename Operation>
  IOStatus Change(std::string_view before, std::string_view after, const Operation& operation) {
    IOStatus status = disk_->At(path_, before);
    if (!status.ok()) return status;
    {
      const auto powered = disk_->Powered();
      status = operation();
    }
    const IOStatus ended = disk_->At(path_, after);
    return status.ok() ? ended : disk_->Noted(status);
  }

  FaultyDisk* const disk_;
  const std::string path_;
  uint64_t size_;
};

class WatchedSequentialFile final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  WatchedSequentialFile(std::unique_ptr<rocksdb::FSSequentialFile> file, FaultyDisk* disk,
                        std::string path)
      : FSSequentialFileOwnerWrapper(std::move(file)), disk_(disk), path_(std::move(path)) {}

  IOStatus Read(size_t size, const IOOptions& options, rocksdb::Slice* result, char* scratch,
                IODebugContext* debug) override {
    IOStatus status = disk_->At(path_, "read");
    if (!status.ok()) return status;
    return FSSequentialFileOwnerWrapper::Read(size, options, result, scratch, debug);
  }
  IOStatus PositionedRead(uint64_t offset, size_t size, const IOOptions& options,
                          rocksdb::Slice* result, char* scratch, IODebugContext* debug) override {
    IOStatus status = disk_->At(path_, "read");
    if (!status.ok()) return status;
    return FSSequentialFileOwnerWrapper::PositionedRead(offset, size, options, result, scratch,
                                                        debug);
  }

 private:
  FaultyDisk* const disk_;
  const std::string path_;
};

class WatchedRandomAccessFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  WatchedRandomAccessFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, FaultyDisk* disk,
                          std::string path)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), disk_(disk), path_(std::move(path)) {}

  IOStatus Read(uint64_t offset, size_t size, const IOOptions& options, rocksdb::Slice* result,
                char* scratch, IODebugContext* debug) const override {
    IOStatus status = disk_->At(path_, "read");
    if (!status.ok()) return status;
    return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug);
  }
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext* debug) override {
    IOStatus status = disk_->At(path_, "read");
    if (!status.ok()) return status;
    return FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, debug);
  }
  IOStatus ReadAsync(rocksdb::FSReadRequest& request, const IOOptions& options,
                     std::function<void(const rocksdb::FSReadRequest&, void*)> done, void* argument,
                     void** handle, rocksdb::IOHandleDeleter* deleter,
                     IODebugContext* debug) override {
    IOStatus status = disk_->At(path_, "read");
    if (!status.ok()) return status;
    return FSRandomAccessFileOwnerWrapper::ReadAsync(request, options, std::move(done), argument,
                                                     handle, deleter, debug);
  }

 private:
  FaultyDisk* const disk_;
  const std::string path_;
};

class WatchedDirectory final : public rocksdb::FSDirectoryWrapper {
 public:
  WatchedDirectory(std::unique_ptr<rocksdb::FSDirectory> directory, FaultyDisk* disk,
                   std::string path)
      : FSDirectoryWrapper(std::move(directory)), disk_(disk), path_(std::move(path)) {}

  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Synced([&] { return FSDirectoryWrapper::Fsync(options, debug); });
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& how) override {
    return Synced([&] { return FSDirectoryWrapper::FsyncWithDirOptions(options, debug, how); });
  }

 private:
  template <typename Operation>
  IOStatus Synced(const Operation& operation) {
    const auto powered = disk_->Powered();
    IOStatus status = operation();
    if (status.ok()) disk_->DirectorySynced(path_);
    return status;
  }

  FaultyDisk* const disk_;
  const std::string path_;
};

std::optional<std::string> ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

std::optional<DiskPlan> DiskPlan::Parse(std::string_view text) {
  DiskPlan plan;
  if (text.empty()) return plan;
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const std::map<std::string, Action> actions = {{"kill", Action::kKill},
                                                 {"power", Action::kPowerLoss},
                                                 {"fail", Action::kFailOnce},
                                                 {"break", Action::kFailForGood}};
  if (parts.size() != 4 || !actions.contains(parts[0])) return std::nullopt;
  plan.action = actions.at(parts[0]);
  plan.file = parts[1];
  plan.operation = parts[2];
  const auto [end, error] =
      std::from_chars(parts[3].data(), parts[3].data() + parts[3].size(), plan.count);
  if (error != std::errc() || *end != '\0') return std::nullopt;
  return plan;
}

std::string_view FileKind(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".log")) return "log";
  if (name.ends_with(".sst")) return "table";
  if (name.starts_with("MANIFEST")) return "manifest";
  // Both are written under another name: OPTIONS-000007.dbtmp, 000005.dbtmp.
  if (name.starts_with("OPTIONS")) return "options";
  if (name == "CURRENT" || name.ends_with(".dbtmp")) return "current";
  return "other";
}

FaultyDisk::FaultyDisk(FaultyDiskOptions options)
    : FileSystemWrapper(rocksdb::FileSystem::Default()),
      options_(std::move(options)),
      random_(options_.seed) {
  if (options_.unsynced_file.empty()) return;
  ReadUnsynced();
  unsynced_.open(options_.unsynced_file, std::ios::app);
}

// Lines "SYNCED BYTES, IS ITS NAME SYNCED, PATH": the last of a path counts. One that an end cut
// off is of something that nobody has answered yet.
void FaultyDisk::ReadUnsynced() {
  std::ifstream lines(options_.unsynced_file);
  File file;
  for (std::string path; lines >> file.synced >> file.entry_synced >> path && !lines.eof();) {
    std::error_code missing;
    file.size = fs::file_size(path, missing);
    file.synced = std::min(file.synced, file.size);
    files_.erase(path);
    inherited_.erase(path);
    if (missing) continue;
    files_[path] = file;
    inherited_.insert(path);
  }
}

void FaultyDisk::Keep(const std::string& path) {
  if (!unsynced_.is_open()) return;
  const File& file = files_[path];
  unsynced_ << file.synced << ' ' << file.entry_synced << ' ' << path << std::endl;
}

void FaultyDisk::Meet(const std::string& what) {
  if (options_.met_file.empty() || met_.exchange(true)) return;
  std::ofstream(options_.met_file) << what << std::endl;
}

IOStatus FaultyDisk::Noted(IOStatus status) {
  if (status.IsNoSpace()) Meet("no room");
  return status;
}

IOStatus FaultyDisk::At(std::string_view path, std::string_view operation) {
  if (plan_.action == DiskPlan::Action::kNone || plan_.operation != operation) return {};
  if (plan_.file != "any" && plan_.file != FileKind(path)) return {};
  uint64_t seen = 0;
  {
    std::lock_guard lock(mutex_);
    seen = ++seen_;
  }
  if (seen < plan_.count) return {};
  happened_.store(true);
  switch (plan_.action) {
    case DiskPlan::Action::kKill:
      ::kill(::getpid(), SIGKILL);
      break;
    case DiskPlan::Action::kPowerLoss:
      LosePower();
    case DiskPlan::Action::kFailOnce:
      if (seen != plan_.count) break;
      Meet("fail:" + plan_.file + ":" + plan_.operation);
      return IOStatus::IOError("injected: " + plan_.operation);
    case DiskPlan::Action::kFailForGood:
      Meet("break:" + plan_.file + ":" + plan_.operation);
      return IOStatus::IOError("injected: " + plan_.operation);
    case DiskPlan::Action::kNone:
      break;
  }
  return {};
}

void FaultyDisk::Created(const std::string& path, uint64_t size) {
  std::lock_guard lock(mutex_);
  const auto [it, is_new] = files_.try_emplace(path);
  if (!is_new && size != 0) return;
  it->second = {size, size, size != 0};
  inherited_.erase(path);
  Keep(path);
}

void FaultyDisk::Wrote(const std::string& path, uint64_t size) {
  std::lock_guard lock(mutex_);
  File& file = files_[path];
  file.size = size;
  if (file.synced <= size) return;
  file.synced = size;
  Keep(path);
}

void FaultyDisk::Synced(const std::string& path) {
  using Lies = FaultyDiskOptions::Lies;
  if (options_.lies == Lies::kOfLogs && FileKind(path) == "log") return;
  std::lock_guard lock(mutex_);
  if (options_.lies == Lies::kOfInherited && inherited_.contains(path)) return;
  files_[path].synced = files_[path].size;
  Keep(path);
}

void FaultyDisk::DirectorySynced(const std::string& path) {
  std::lock_guard lock(mutex_);
  const fs::path directory(path);
  for (auto& [name, file] : files_) {
    if (file.entry_synced || fs::path(name).parent_path() != directory) continue;
    file.entry_synced = true;
    Keep(name);
  }
  std::erase_if(renames_, [&](const auto& rename) {
    return fs::path(rename.first).parent_path() == directory;
  });
}

void FaultyDisk::LosePower() {
  // Never let go: nobody writes any more.
  power_.lock();
  mutex_.lock();
  for (const auto& [path, file] : files_) {
    if (!file.entry_synced && random_() % 2 == 0) {
      ::unlink(path.c_str());
      continue;
    }
    const uint64_t unsynced = file.size - file.synced;
    if (unsynced == 0) continue;
    const uint64_t kept = random_() % 2 == 0 ? 0 : random_() % (unsynced + 1);
    std::error_code ignored;
    fs::resize_file(path, file.synced + kept, ignored);
  }
  for (const auto& [path, before] : renames_) {
    if (random_() % 2 == 0) continue;
    if (before) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << *before;
    } else {
      ::unlink(path.c_str());
    }
  }
  // What is left is on the disk.
  if (unsynced_.is_open()) ::unlink(options_.unsynced_file.c_str());
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

IOStatus FaultyDisk::NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                     std::unique_ptr<rocksdb::FSWritableFile>* file,
                                     IODebugContext* debug) {
  const auto powered = Powered();
  IOStatus status = FileSystemWrapper::NewWritableFile(path, options, file, debug);
  if (!status.ok()) return Noted(status);
  Created(path, 0);
  *file = std::make_unique<WatchedFile>(std::move(*file), this, path, 0);
  return status;
}

IOStatus FaultyDisk::ReopenWritableFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSWritableFile>* file,
                                        IODebugContext* debug) {
  const auto powered = Powered();
  std::error_code ignored;
  const uint64_t size = fs::exists(path) ? fs::file_size(path, ignored) : 0;
  IOStatus status = FileSystemWrapper::ReopenWritableFile(path, options, file, debug);
  if (!status.ok()) return status;
  Created(path, size);
  *file = std::make_unique<WatchedFile>(std::move(*file), this, path, size);
  return status;
}

IOStatus FaultyDisk::ReuseWritableFile(const std::string& path, const std::string& old_path,
                                       const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       IODebugContext* debug) {
  const auto powered = Powered();
  IOStatus status = FileSystemWrapper::ReuseWritableFile(path, old_path, options, file, debug);
  if (!status.ok()) return status;
  Created(path, 0);
  *file = std::make_unique<WatchedFile>(std::move(*file), this, path, 0);
  return status;
}

IOStatus FaultyDisk::NewRandomAccessFile(const std::string& path,
                                         const rocksdb::FileOptions& options,
                                         std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                         IODebugContext* debug) {
  IOStatus status = At(path, "open");
  if (status.ok()) status = FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
  if (!status.ok()) return status;
  *file = std::make_unique<WatchedRandomAccessFile>(std::move(*file), this, path);
  return status;
}

IOStatus FaultyDisk::NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                       IODebugContext* debug) {
  IOStatus status = At(path, "open");
  if (status.ok()) status = FileSystemWrapper::NewSequentialFile(path, options, file, debug);
  if (!status.ok()) return status;
  *file = std::make_unique<WatchedSequentialFile>(std::move(*file), this, path);
  return status;
}

IOStatus FaultyDisk::NewDirectory(const std::string& path, const IOOptions& options,
                                  std::unique_ptr<rocksdb::FSDirectory>* directory,
                                  IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewDirectory(path, options, directory, debug);
  if (!status.ok()) return status;
  *directory = std::make_unique<WatchedDirectory>(std::move(*directory), this, path);
  return status;
}

IOStatus FaultyDisk::RenameFile(const std::string& from, const std::string& to,
                                const IOOptions& options, IODebugContext* debug) {
  IOStatus status = At(to, "rename");
  if (!status.ok()) return status;
  const auto powered = Powered();
  std::optional<std::string> before = ReadAll(to);
  status = FileSystemWrapper::RenameFile(from, to, options, debug);
  if (!status.ok()) return status;
  std::lock_guard lock(mutex_);
  if (const auto it = files_.find(from); it != files_.end()) {
    files_[to] = it->second;
    files_[to].entry_synced = true;  // the rename itself may be undone, see below
    files_.erase(it);
    Keep(to);
  }
  renames_.try_emplace(to, std::move(before));
  return status;
}

IOStatus FaultyDisk::DeleteFile(const std::string& path, const IOOptions& options,
                                IODebugContext* debug) {
  const auto powered = Powered();
  IOStatus status = FileSystemWrapper::DeleteFile(path, options, debug);
  std::lock_guard lock(mutex_);
  files_.erase(path);
  renames_.erase(path);
  return status;
}

}  // namespace larder::crash
