// Who owns a store: the lock that one process holds from the moment it opens it until it closes it.
// Internal to storage/.
//
// RocksDB's own LOCK is not enough: it is given up while the database is closed to be opened again,
// or open for reading only, because the disk fails. Whoever came in then would be followed by an
// owner that knows nothing of his commits and takes them back.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/error.h"

namespace larder {

// In the store's directory. Empty, and left there: it is the lock on it that counts.
inline constexpr const char* kOwnerFile = "owner.lock";

// Not thread-safe.
class OwnerLock {
 public:
  OwnerLock() = default;
  ~OwnerLock();
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  // kLocked where somebody has it, be it another store of this process. Nothing to do where it is
  // held already; but kNotFound where the file is not the one that was locked: the store was
  // removed, and what is there now is another.
  Result<void> Take(const std::string& path);

 private:
  int file_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// kLocked, with who it is.
Error InUse(const std::string& path);

// Which process owns this store: its pid, or 0 where that cannot be told: nobody, or one in another
// PID namespace. Asks the kernel, so nothing can be stale. Thread-safe; a file that this very
// process has locked is not opened, because closing it again would give up the lock.
pid_t LockOwner(const std::string& path);

}  // namespace larder
