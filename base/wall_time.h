// Times as they are stored: milliseconds since 1970, by the calendar.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace larder {

inline int64_t WallMs(const Clock& clock) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock.WallNow().time_since_epoch())
      .count();
}

}  // namespace larder
