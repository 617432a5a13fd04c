// Buffers that a thread keeps from one object to the next. Internal to schema/.
#pragma once

#include <cstddef>
#include <string>

namespace larder {

// After each use: one huge object must not pin more.
inline void DropLarge(std::string& kept) {
  constexpr size_t kMostKept = size_t{256} << 10;
  if (kept.capacity() > kMostKept) std::string().swap(kept);
}

}  // namespace larder
