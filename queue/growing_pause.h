// How long to wait after another failure in a row: `first`, then twice as long each time up to
// `longest`. `last` is the pause before, zero after a success.
#pragma once

#include <algorithm>
#include <chrono>

namespace larder::internal {

inline std::chrono::nanoseconds NextPause(std::chrono::nanoseconds last,
                                          std::chrono::nanoseconds first,
                                          std::chrono::nanoseconds longest) {
  return std::max(first, std::min(last * 2, longest));
}

}  // namespace larder::internal
