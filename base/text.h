// Text that is cut to a length or at its ends, or put into lower case.
#pragma once

#include <cstddef>
#include <string>
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

// Without the white space around it.
inline std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// A to Z in lower case, whatever the locale.
inline std::string LowerAscii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace larder
