// A disk that fails on command: the process is killed at a chosen operation, the power goes, or an
// operation returns an error: a write, a sync, a rename, the opening of a file, a read.
//
// Power loss is taken literally. Of every file that this process wrote, what was not synced is cut
// off at a random place; a file whose directory was not synced since it was made may be gone; a
// rename that was not followed by a sync of the directory may not have happened. Then the process
// ends. A rename by an earlier process has happened.
//
// Thread-safe. Lives as long as the process.
//
//   auto disk = std::make_shared<FaultyDisk>(
//       FaultyDiskOptions{.plan = *DiskPlan::Parse("power:log:append:17"), .seed = seed});
//   auto env = rocksdb::NewCompositeEnv(disk);
#pragma once

#include <rocksdb/file_system.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>

namespace larder::crash {

// "ACTION:FILE:OPERATION:N": what happens at the N-th such operation. ("kill:relist:fetch:N" is for
// the transport, fetch_witness.h, and nothing to the disk.)
struct DiskPlan {
  enum class Action { kNone, kKill, kPowerLoss, kFailOnce, kFailForGood };

  Action action = Action::kNone;
  std::string file;       // log, table, manifest, current, options, any
  std::string operation;  // append, appended, sync, synced, rename, open, read; and of the log also
                          // acknowledge, acknowledged: the append of a commit that only takes away
  uint64_t count = 0;

  // Actions: kill, power, fail, break. nullopt: not such a text. Empty: nothing ever happens.
  static std::optional<DiskPlan> Parse(std::string_view text);
};

struct FaultyDiskOptions {
  DiskPlan plan{};
  uint64_t seed = 1;
  // Gets a line, once, when an operation fails as planned, or has no room: a process that is killed
  // proves by its end that its plan came true, one whose disk fails does not.
  std::string met_file{};
  // What is not synced, for the disk of the next process: what a process that was killed has
  // written is not synced by that. Empty: what was there before is taken for synced.
  std::string unsynced_file{};
  // A sync is answered with OK, and nothing is synced by it: of a log, or of a file that an earlier
  // process has left. For mutants.
  enum class Lies { kNever, kOfLogs, kOfInherited } lies = Lies::kNever;
};

// What a file of a store is by its name.
std::string_view FileKind(std::string_view path);

class FaultyDisk final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyDisk(FaultyDiskOptions options);
  static const char* kClassName() { return "FaultyDisk"; }
  const char* Name() const override { return kClassName(); }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* file,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* directory,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;

  // Has what was planned happened?
  bool Happened() const { return happened_.load(); }

  // For the files and directories that it opens.
  rocksdb::IOStatus At(std::string_view path, std::string_view operation);
  bool WatchesAcknowledgements() const { return plan_.operation.starts_with("acknowledge"); }
  // Held while an operation changes the disk, so that the power does not go in the middle of it.
  std::shared_lock<std::shared_mutex> Powered() { return std::shared_lock(power_); }
  // Notes it when there was no room.
  rocksdb::IOStatus Noted(rocksdb::IOStatus status);
  void Wrote(const std::string& path, uint64_t size);
  void Synced(const std::string& path);
  void DirectorySynced(const std::string& path);

 private:
  struct File {
    uint64_t size = 0;
    uint64_t synced = 0;
    bool entry_synced = false;
  };

  void Created(const std::string& path, uint64_t size);
  void ReadUnsynced();
  // For the next process. With `mutex_` held.
  void Keep(const std::string& path);
  [[noreturn]] void LosePower();
  void Meet(const std::string& what);

  const FaultyDiskOptions options_;
  const DiskPlan& plan_ = options_.plan;
  std::shared_mutex power_;
  std::atomic<bool> happened_{false};
  std::atomic<bool> met_{false};
  std::mutex mutex_;  // guards what follows
  std::mt19937_64 random_;
  uint64_t seen_ = 0;
  std::map<std::string, File> files_;
  std::set<std::string> inherited_;  // of these, those that an earlier process has left unsynced
  std::ofstream unsynced_;
  // Renames whose directory is not synced: the target, and what it was before (nullopt: nothing).
  std::map<std::string, std::optional<std::string>> renames_;
};

}  // namespace larder::crash
