#include "storage/log_order.h"

#include <fmt/format.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace larder {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

bool IsLog(std::string_view path) { return path.ends_with(".log"); }
std::string DirectoryOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Where even this fails nothing is left to try: the error of the sync is what the caller learns.
void LeaveDoubt(rocksdb::FileSystem& files, const std::string& directory) {
  std::unique_ptr<rocksdb::FSWritableFile> mark;
  const IOStatus made = files.NewWritableFile(fmt::format("{}/{}", directory, kDoubtFile),
                                              rocksdb::FileOptions(), &mark, nullptr);
  if (made.ok()) mark->Close(IOOptions(), nullptr).PermitUncheckedError();
}

class LogFile;

// The logs that are open.
class OpenLogs {
 public:
  void Add(LogFile* log) {
    MutexLock lock(mutex_);
    logs_.insert(log);
  }
  void Remove(LogFile* log) {
    MutexLock lock(mutex_);
    logs_.erase(log);
  }
  IOStatus Sync();

 private:
  Mutex mutex_;
  std::set<LogFile*> logs_ LARDER_GUARDED_BY(mutex_);
};

class LogFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LogFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::shared_ptr<OpenLogs> logs,
          std::shared_ptr<rocksdb::FileSystem> files, std::string directory)
      : FSWritableFileOwnerWrapper(std::move(file)),
        logs_(std::move(logs)),
        files_(std::move(files)),
        directory_(std::move(directory)) {
    logs_->Add(this);
  }
  ~LogFile() override { logs_->Remove(this); }

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    return Written(target()->Append(data, options, debug));
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& info, IODebugContext* debug) override {
    return Written(target()->Append(data, options, info, debug));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return Synced([&] { return target()->Sync(options, debug); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Synced([&] { return target()->Fsync(options, debug); });
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    logs_->Remove(this);
    return target()->Close(options, debug);
  }

 private:
  IOStatus Written(IOStatus status) {
    unsynced_.store(true);
    return status;
  }
  // What is written meanwhile is left to the next one. Whoever comes meanwhile waits for this one:
  // that there is nothing left to begin does not say that it is done.
  template <typename Call>
  IOStatus Synced(const Call& call) {
    MutexLock lock(sync_mutex_);
    if (failed_) return IOStatus::IOError("an earlier sync of this log failed");
    if (!unsynced_.exchange(false)) return IOStatus::OK();
    IOStatus status = call();
    failed_ = !status.ok();
    if (failed_) LeaveDoubt(*files_, directory_);
    return status;
  }

  const std::shared_ptr<OpenLogs> logs_;
  const std::shared_ptr<rocksdb::FileSystem> files_;
  const std::string directory_;
  std::atomic<bool> unsynced_{false};
  // Held while the disk syncs; not by what appends. Taken after that of OpenLogs.
  Mutex sync_mutex_;
  bool failed_ LARDER_GUARDED_BY(sync_mutex_) = false;
};

IOStatus OpenLogs::Sync() {
  // Held, so that none is closed meanwhile.
  MutexLock lock(mutex_);
  for (LogFile* const log : logs_) {
    IOStatus status = log->Sync(IOOptions(), nullptr);
    if (!status.ok()) return status;
  }
  return IOStatus::OK();
}

class OrderedFiles final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "larder.LogOrder"; }

  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    if (!IsLog(path)) return target()->NewWritableFile(path, options, file, debug);
    const std::string directory = DirectoryOf(path);
    IOStatus status = SyncEarlier(directory, options, debug);
    if (status.ok()) status = target()->NewWritableFile(path, options, file, debug);
    if (status.ok()) {
      *file = std::make_unique<LogFile>(std::move(*file), logs_, target_, directory);
    }
    return status;
  }

 private:
  IOStatus SyncEarlier(const std::string& directory, const rocksdb::FileOptions& options,
                       IODebugContext* debug) {
    IOStatus status = logs_->Sync();
    if (status.ok() && !inherited_are_synced_.load()) {
      status = SyncInherited(directory, options, debug);
      if (status.ok()) inherited_are_synced_.store(true);
    }
    // Where the name of a log is lost, so is all that is in it.
    std::unique_ptr<rocksdb::FSDirectory> names;
    if (status.ok()) status = target()->NewDirectory(directory, options.io_options, &names, debug);
    if (status.ok()) status = names->Fsync(options.io_options, debug);
    return status;
  }
  // Those that an earlier process left. The first log is made while the database is being opened:
  // it is locked, and none of them is removed yet.
  IOStatus SyncInherited(const std::string& directory, const rocksdb::FileOptions& options,
                         IODebugContext* debug) {
    std::vector<std::string> names;
    IOStatus status = target()->GetChildren(directory, options.io_options, &names, debug);
    for (const std::string& name : names) {
      if (!status.ok()) break;
      if (!IsLog(name)) continue;
      std::unique_ptr<rocksdb::FSWritableFile> log;
      status =
          target()->ReopenWritableFile(fmt::format("{}/{}", directory, name), options, &log, debug);
      if (!status.ok()) break;
      status = log->Sync(options.io_options, debug);
      if (!status.ok()) LeaveDoubt(*target(), directory);
      if (status.ok()) status = log->Close(options.io_options, debug);
    }
    return status;
  }

  const std::shared_ptr<OpenLogs> logs_ = std::make_shared<OpenLogs>();
  std::atomic<bool> inherited_are_synced_{false};
};

class LogOrderEnv final : public rocksdb::EnvWrapper {
 public:
  explicit LogOrderEnv(rocksdb::Env* env) : EnvWrapper(env) {
    file_system_ = std::make_shared<OrderedFiles>(env->GetFileSystem());
    system_clock_ = env->GetSystemClock();
  }
  static const char* kClassName() { return "larder.LogOrder"; }
  const char* Name() const override { return kClassName(); }
};

}  // namespace

std::unique_ptr<rocksdb::Env> MakeLogOrderEnv(rocksdb::Env* env) {
  return std::make_unique<LogOrderEnv>(env);
}

}  // namespace larder
