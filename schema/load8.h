// Eight bytes of text as one number, wherever they stand. Internal to schema/.
#pragma once

#include <cstdint>
#include <cstring>

namespace larder {

inline uint64_t Load8(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace larder
