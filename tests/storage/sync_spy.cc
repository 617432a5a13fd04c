#include "tests/storage/sync_spy.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <mutex>
#include <utility>

namespace larder::testing {
namespace {

std::mutex mutex;
std::function<void(const std::string&)> callback;  // guarded by mutex

void Tell(int file) {
  std::lock_guard lock(mutex);
  if (!callback) return;
  char path[PATH_MAX];
  const ssize_t size =
      ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof(path));
  if (size > 0) callback(std::string(path, static_cast<size_t>(size)));
}

}  // namespace

SyncSpy::SyncSpy(std::function<void(const std::string& path)> synced) {
  std::lock_guard lock(mutex);
  callback = std::move(synced);
}

SyncSpy::~SyncSpy() {
  std::lock_guard lock(mutex);
  callback = nullptr;
}

}  // namespace larder::testing

// In the place of the C library's, for this process.
extern "C" int fsync(int file) {
  larder::testing::Tell(file);
  return static_cast<int>(::syscall(SYS_fsync, file));
}
extern "C" int fdatasync(int file) {
  larder::testing::Tell(file);
  return static_cast<int>(::syscall(SYS_fdatasync, file));
}
