// What the reflector's parsers keep and accept at most. Internal to reflector/.
#pragma once

#include <cstddef>

namespace larder {

// A buffer that grew beyond this for one huge event or item is given back.
inline constexpr size_t kKeptBytes = size_t{1} << 20;
// A list's metadata is a few hundred bytes, a continue token included.
inline constexpr size_t kMaxHeadBytes = size_t{1} << 20;

}  // namespace larder
