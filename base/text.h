// Text that is cut to a length, or from the space around it.
#pragma once

#include <cstddef>
#include <string_view>

namespace larder {

// The beginning of a text, of at most `max_bytes`. Cut at a character's beginning, so that what is
// left of UTF-8 is still UTF-8.
inline std::string_view CutText(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

// What JSON calls white space.
inline std::string_view WithoutSpaceAround(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace larder
