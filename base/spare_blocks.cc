#include "base/spare_blocks.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace larder {
namespace {

// Smaller blocks each thread keeps by itself (glibc's tcache), larger ones are rare. A step is what
// a block may be larger than asked for: a twentieth of a pod.
constexpr size_t kStep = 512;
constexpr size_t kLeast = size_t{1} << 10;
constexpr size_t kMost = size_t{64} << 10;
constexpr size_t kSizes = kMost / kStep + 1;
// As much as two commits of a list let go of at once.
constexpr size_t kMostHeld = size_t{4} << 20;
// What a burst left and nobody took for so many blocks, a second or two of a busy kind, is freed.
constexpr size_t kGivenBetweenLooks = 4096;

// Sanitizers find out who touches what was freed, and it must be freed for that.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kKeeps = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif
#else
constexpr bool kKeeps = true;
#endif

struct OneSize {
  std::vector<std::string> blocks;
  size_t least = 0;  // there were, since the last look
};
using AllSizes = std::array<OneSize, kSizes>;

struct Spares {
  Mutex mutex;
  AllSizes of_size LARDER_GUARDED_BY(mutex);
  size_t held LARDER_GUARDED_BY(mutex) = 0;
  size_t given LARDER_GUARDED_BY(mutex) = 0;  // since the last look
};

// To be freed when the lock is no longer held.
std::vector<std::string> TakeUnused(Spares& spares) LARDER_REQUIRES(spares.mutex) {
  std::vector<std::string> unused;
  for (size_t size = 0; size < kSizes; ++size) {
    OneSize& one = spares.of_size[size];
    for (; one.least > 0; --one.least) {
      unused.push_back(std::move(one.blocks.back()));
      one.blocks.pop_back();
      spares.held -= size * kStep;
    }
    one.least = one.blocks.size();
  }
  spares.given = 0;
  return unused;
}

// Never destroyed: threads may let go of objects while the process ends.
Spares& TheSpares() {
  static auto* const spares = new Spares;
  return *spares;
}

}  // namespace

std::string TakeBlock(size_t room) {
  std::string bytes;
  if (!kKeeps || room < kLeast || room >= kMost) {
    bytes.reserve(room);
    return bytes;
  }
  const size_t size = room / kStep + 1;  // in steps, with one byte for the string's own zero
  {
    Spares& spares = TheSpares();
    MutexLock lock(spares.mutex);
    OneSize& fitting = spares.of_size[size];
    if (!fitting.blocks.empty()) {
      bytes = std::move(fitting.blocks.back());
      fitting.blocks.pop_back();
      fitting.least = std::min(fitting.least, fitting.blocks.size());
      spares.held -= size * kStep;
      return bytes;
    }
  }
  bytes.reserve(size * kStep - 1);
  return bytes;
}

void GiveBlock(std::string bytes) {
  const size_t block = bytes.capacity() + 1;
  if (!kKeeps || block % kStep != 0 || block < kLeast || block > kMost) return;
  bytes.clear();
  std::vector<std::string> unused;
  Spares& spares = TheSpares();
  MutexLock lock(spares.mutex);
  if (++spares.given >= kGivenBetweenLooks) unused = TakeUnused(spares);
  if (spares.held + block > kMostHeld) return;
  spares.held += block;
  spares.of_size[block / kStep].blocks.push_back(std::move(bytes));
}

void DropSpareBlocks() {
  AllSizes dropped;
  Spares& spares = TheSpares();
  MutexLock lock(spares.mutex);
  dropped.swap(spares.of_size);
  spares.held = 0;
}

size_t SpareBlockBytes() {
  Spares& spares = TheSpares();
  MutexLock lock(spares.mutex);
  return spares.held;
}

}  // namespace larder
