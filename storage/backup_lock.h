// Who works on the backups in a directory. RocksDB does not ask: one engine takes the unfinished
// files of another for leftovers and removes them, and a prune takes what a restore is reading.
// Internal to storage/.
//
//   LARDER_ASSIGN_OR_RETURN(const BackupLock lock, BackupLock::Take(path, BackupLock::kReading));
//
// One process adds or removes at a time; who reads bears who adds, and keeps out who removes. Held
// until it is destroyed. kLocked at once, never a wait.
#pragma once

#include <string>

#include "base/error.h"

namespace larder {

class BackupLock {
 public:
  enum Use { kReading, kAdding, kRemoving };

  // In the backups' directory. Empty, and left there: it is the lock on it that counts. Who only
  // reads does not make it: where it is missing, no larder that locks has been there.
  static constexpr const char* kFile = "larder.lock";

  static Result<BackupLock> Take(const std::string& backup_path, Use use);
  ~BackupLock();
  BackupLock(BackupLock&& other) noexcept;
  BackupLock& operator=(BackupLock&&) = delete;

 private:
  explicit BackupLock(int file) : file_(file) {}

  int file_ = -1;
};

}  // namespace larder
