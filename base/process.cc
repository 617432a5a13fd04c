#include "base/process.h"

#include <malloc.h>
#include <sys/stat.h>

namespace larder {
namespace {

constexpr int kHeaps = 2;
// Larger blocks are given back to the system at once. glibc would raise it by itself with the first
// large block that is freed.
constexpr int kMapped = 128 << 10;

}  // namespace

void PrepareProcess() {
  ::umask(077);
#ifdef M_ARENA_MAX
  ::mallopt(M_ARENA_MAX, kHeaps);
  ::mallopt(M_MMAP_THRESHOLD, kMapped);
  ::mallopt(M_TRIM_THRESHOLD, kMapped);
#endif
}

}  // namespace larder
