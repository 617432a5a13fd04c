#include "base/process.h"

#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <thread>

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

void UseLogFormat() {
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v", spdlog::pattern_time_type::utc);
}

}  // namespace larder
