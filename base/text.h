// Text that is cut to a length or at its ends, put into lower case, or made fit for a terminal.
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

// What others wrote, for a person to read: control characters, by which an object or a server could
// set the window's title or overwrite what stands above, are shown instead of sent (ESC is ^[, as
// kubectl has it). Line ends and tabs stay, or become spaces where the text is to be one line: in
// a message or a log nobody else begins a line.
enum class Lines { kKept, kOne };
std::string Printable(std::string text, Lines lines = Lines::kKept);

// The beginning of what others wrote, for a message or a log: short, Printable and one line.
std::string Excerpt(std::string_view text);

}  // namespace larder
