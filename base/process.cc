#include "base/process.h"

#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/spare_blocks.h"

namespace larder {
namespace {

// What one thread frees serves the others only within one heap; where there are many cores, their
// threads would wait for each other.
constexpr unsigned kCoresPerHeap = 8;
constexpr unsigned kMostHeaps = 4;
// Larger blocks are given back to the system at once. glibc would raise it by itself with the first
// large block that is freed.
constexpr int kMapped = 128 << 10;

std::atomic<bool> ours{false};

struct HiddenVariables {
  Mutex mutex;
  std::set<std::string, std::less<>> names LARDER_GUARDED_BY(mutex);
};
HiddenVariables& Hidden() {
  static HiddenVariables hidden;
  return hidden;
}

}  // namespace

void KeepFilesPrivate() { ::umask(077); }

void PrepareProcess() {
  KeepFilesPrivate();
#ifdef M_ARENA_MAX
  const unsigned heaps = std::thread::hardware_concurrency() / kCoresPerHeap;
  ::mallopt(M_ARENA_MAX, static_cast<int>(std::clamp(heaps, 1U, kMostHeaps)));
  ::mallopt(M_MMAP_THRESHOLD, kMapped);
  ::mallopt(M_TRIM_THRESHOLD, kMapped);
#endif
  ours = true;
}

void ReturnFreeMemory() {
  DropSpareBlocks();
#ifdef M_ARENA_MAX
  if (ours) ::malloc_trim(0);
#endif
}

void HideFromPrograms(std::string_view variable) {
  HiddenVariables& hidden = Hidden();
  MutexLock lock(hidden.mutex);
  hidden.names.emplace(variable);
}

bool HiddenFromPrograms(std::string_view variable) {
  HiddenVariables& hidden = Hidden();
  MutexLock lock(hidden.mutex);
  return hidden.names.find(variable) != hidden.names.end();
}

void LeaveNoCoreDump() {
  // The limit alone does not hold where the kernel pipes dumps into a program, like
  // systemd-coredump (core(5)).
  const struct rlimit none = {0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);
  (void)::prctl(PR_SET_DUMPABLE, 0);
}

void UseLogFormat() {
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v", spdlog::pattern_time_type::utc);
}

}  // namespace larder
