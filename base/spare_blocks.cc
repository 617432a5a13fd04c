#include "base/spare_blocks.h"

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

struct Spares {
  Mutex mutex;
  std::array<std::vector<std::string>, kSizes> of_size LARDER_GUARDED_BY(mutex);
  size_t held LARDER_GUARDED_BY(mutex) = 0;
};

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
    std::vector<std::string>& fitting = spares.of_size[size];
    if (!fitting.empty()) {
      bytes = std::move(fitting.back());
      fitting.pop_back();
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
  Spares& spares = TheSpares();
  MutexLock lock(spares.mutex);
  if (spares.held + block > kMostHeld) return;
  spares.held += block;
  spares.of_size[block / kStep].push_back(std::move(bytes));
}

void DropSpareBlocks() {
  std::array<std::vector<std::string>, kSizes> dropped;
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
