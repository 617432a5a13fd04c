// How much memory this process holds.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace larder::testing {

// Sanitizers have allocators of their own, and keep memory beside ours.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr size_t kSanitizerSlack = size_t{512} << 20;
#else
constexpr size_t kSanitizerSlack = 0;
#endif

inline size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Frees 64 MiB below a block that stays, so that the heap cannot simply shrink; which part of it is
// resident after `then`, in percent.
inline size_t PercentLeftAfter(const std::function<void()>& then) {
  constexpr size_t kBlock = 1024;
  std::vector<std::unique_ptr<char[]>> blocks(64 << 10);
  for (auto& block : blocks) {
    block = std::make_unique<char[]>(kBlock);
    block[0] = 1;
  }
  const size_t full = ResidentBytes();
  const auto last = std::move(blocks.back());
  blocks.clear();
  then();
  return ResidentBytes() * 100 / full;
}

}  // namespace larder::testing
