// Variable-length integers, as in protocol buffers: small numbers take one byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace larder {

inline void PutVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

// Takes one off the front of `in`; false when there is none.
inline bool TakeVarint(std::string_view& in, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Takes `size` bytes off the front of `in`; false when there are fewer.
inline bool TakeBytes(std::string_view& in, uint64_t size, std::string_view& bytes) {
  if (size > in.size()) return false;
  bytes = in.substr(0, size);
  in.remove_prefix(size);
  return true;
}

}  // namespace larder
