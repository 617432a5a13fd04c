#include "storage/owner_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "base/mutex.h"

namespace larder {
namespace {

// The files that this process has locked. A POSIX lock does not keep out its own process, and is
// gone once any descriptor of the file is closed: so a file in here is not even opened. With who
// locked it: a fork has the list, but not the locks.
struct Held {
  Mutex mutex;
  std::map<std::pair<dev_t, ino_t>, pid_t> files LARDER_GUARDED_BY(mutex);
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

struct flock WholeFile() {
  struct flock all {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  return all;
}

// Not from /proc/locks: that names the file system's device, and on btrfs stat(2) tells another.
pid_t HolderOf(Held& held, const std::string& path) LARDER_REQUIRES(held.mutex) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  const auto here = held.files.find({info.st_dev, info.st_ino});
  if (here != held.files.end() && here->second == ::getpid()) return ::getpid();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  struct flock found = WholeFile();
  const bool locked = ::fcntl(file, F_GETLK, &found) == 0 && found.l_type != F_UNLCK;
  ::close(file);
  return locked && found.l_pid > 0 ? found.l_pid : 0;
}

// A larder of before has only RocksDB's. This process has that one only beside its own, so where
// it has not the one here, it may open the other.
pid_t OwnerOf(Held& held, const std::string& path) LARDER_REQUIRES(held.mutex) {
  const pid_t owner = HolderOf(held, path + "/" + kOwnerFile);
  return owner != 0 ? owner : HolderOf(held, path + "/LOCK");
}

Error InUseBy(pid_t owner, const std::string& path) {
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
    return tl::unexpected(InUseBy(OwnerOf(held, path), path));
  }
  const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (opened < 0) return CannotLock(file, errno);
  const struct flock all = WholeFile();
  int error = 0;
  if (::fstat(opened, &info) != 0 || ::fcntl(opened, F_SETLK, &all) != 0) error = errno;
  if (error != 0) {
    ::close(opened);
    if (error == EACCES || error == EAGAIN) {
      return tl::unexpected(InUseBy(OwnerOf(held, path), path));
    }
    return CannotLock(file, error);
  }
  file_ = opened;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  held.files.emplace(std::pair(device_, inode_), ::getpid());
  return {};
}

OwnerLock::~OwnerLock() {
  if (file_ < 0) return;
  Held& held = HeldHere();
  MutexLock lock(held.mutex);
  held.files.erase({device_, inode_});
  ::close(file_);
}

Error InUse(const std::string& path) { return InUseBy(LockOwner(path), path); }

// Under the mutex to the end: what is opened here is locked by nobody here meanwhile.
pid_t LockOwner(const std::string& path) {
  Held& held = HeldHere();
  MutexLock lock(held.mutex);
  return OwnerOf(held, path);
}

}  // namespace larder
