#include "storage/owner_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "base/mutex.h"

namespace larder {
namespace {

// The files that this process has locked. A POSIX lock does not keep out its own process, and is
// gone once any descriptor of the file is closed: so a file in here is not even opened.
struct Held {
  Mutex mutex;
  std::set<std::pair<dev_t, ino_t>> files LARDER_GUARDED_BY(mutex);
};
Held& HeldHere() {
  static Held* const held = new Held;  // a store may be closed by a destructor of the very end
  return *held;
}

tl::unexpected<Error> CannotLock(const std::string& file, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return MakeError(full ? ErrorCode::kNoSpace : ErrorCode::kIo, "cannot lock {}: {}", file,
                   std::strerror(error));
}

pid_t HolderOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  // "1: POSIX  ADVISORY  WRITE 4242 08:01:131153 0 EOF"
  const std::string file =
      fmt::format("{:02x}:{:02x}:{}", major(info.st_dev), minor(info.st_dev), info.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, access, where;
    pid_t pid = 0;
    if (words >> number >> kind >> mode >> access >> pid >> where && where == file) {
      return pid > 0 ? pid : 0;
    }
  }
  return 0;
}

}  // namespace

// A POSIX lock, for the sake of forks: flock(2) and open file description locks belong to the
// descriptor, which a fork shares. One that outlives a killed owner would keep the next one out,
// for a store that it may not write to. A POSIX lock belongs to the process and ends with it.
Result<void> OwnerLock::Take(const std::string& path) {
  const std::string file = path + "/" + kOwnerFile;
  Held& held = HeldHere();
  MutexLock lock(held.mutex);  // from before the look: nobody here may lock it behind that
  struct stat info {};
  const bool there = ::stat(file.c_str(), &info) == 0;
  if (file_ >= 0) {
    if (there && info.st_dev == device_ && info.st_ino == inode_) return {};
    return MakeError(ErrorCode::kNotFound,
                     "the store {} was removed or replaced while this process owned it; start it "
                     "again",
                     path);
  }
  if (there && held.files.count({info.st_dev, info.st_ino}) != 0) {
    return tl::unexpected(InUse(path));
  }
  const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (opened < 0) return CannotLock(file, errno);
  struct flock all {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  int error = 0;
  if (::fstat(opened, &info) != 0 || ::fcntl(opened, F_SETLK, &all) != 0) error = errno;
  if (error != 0) {
    ::close(opened);
    if (error == EACCES || error == EAGAIN) return tl::unexpected(InUse(path));
    return CannotLock(file, error);
  }
  file_ = opened;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  held.files.emplace(device_, inode_);
  return {};
}

OwnerLock::~OwnerLock() {
  if (file_ < 0) return;
  Held& held = HeldHere();
  MutexLock lock(held.mutex);
  held.files.erase({device_, inode_});
  ::close(file_);
}

Error InUse(const std::string& path) {
  const pid_t owner = LockOwner(path);
  const std::string who = owner == ::getpid() ? "this process, which has it open already"
                          : owner > 0         ? fmt::format("the process with pid {}", owner)
                                              : std::string("another process");
  return Error{
      ErrorCode::kLocked,
      fmt::format("store {} is in use by {}; one process owns a store, others open it read-only",
                  path, who),
      {},
      {}};
}

// A larder of before has only RocksDB's.
pid_t LockOwner(const std::string& path) {
  const pid_t owner = HolderOf(path + "/" + kOwnerFile);
  return owner != 0 ? owner : HolderOf(path + "/LOCK");
}

}  // namespace larder
