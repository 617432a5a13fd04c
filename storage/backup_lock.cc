#include "storage/backup_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace larder {
namespace {

// What each byte of the file stands for.
constexpr off_t kChanging = 0;  // exclusive: who adds or removes
constexpr off_t kFiles = 1;     // shared: who reads; exclusive: who removes

// The lock belongs to the descriptor: a process may work on several directories of backups, and on
// one in several threads.
int LockByte(int file, short type, off_t byte) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return ::fcntl(file, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

}  // namespace

Result<BackupLock> BackupLock::Take(const std::string& backup_path, Use use) {
  const std::string path = backup_path + "/" + kFile;
  const int how = use == kReading ? O_RDONLY : O_RDWR | O_CREAT;
  BackupLock lock(::open(path.c_str(), how | O_CLOEXEC, 0600));
  int error = lock.file_ < 0 ? errno : 0;
  if (use == kReading && error == ENOENT) return lock;
  if (error == 0 && use != kReading) error = LockByte(lock.file_, F_WRLCK, kChanging);
  if (error == 0 && use != kAdding) {
    error = LockByte(lock.file_, use == kReading ? F_RDLCK : F_WRLCK, kFiles);
  }
  if (error == 0) return lock;
  if (error != EAGAIN && error != EACCES) {
    return MakeError(error == ENOSPC || error == EDQUOT ? ErrorCode::kNoSpace : ErrorCode::kIo,
                     "cannot lock {}: {}", path, std::strerror(error));
  }
  return MakeError(ErrorCode::kLocked,
                   "another process {} backups at {}; try again when it is done",
                   use == kReading ? "removes" : "makes or removes", backup_path);
}

BackupLock::~BackupLock() {
  if (file_ >= 0) ::close(file_);
}

BackupLock::BackupLock(BackupLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

}  // namespace larder
