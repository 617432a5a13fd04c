#include "base/text.h"

namespace larder {
namespace {

// As much as says what it is.
constexpr size_t kExcerptBytes = 100;

}  // namespace

std::string Printable(std::string text, Lines lines) {
  const auto is_space = [](char c) { return c == '\n' || c == '\t'; };
  // A control character of one byte, or of two: C2 80 to C2 9F.
  const auto is_short = [&](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && !is_space(c)) || c == 0x7f;
  };
  const auto is_long = [&](size_t at) {
    return text[at] == '\xc2' && at + 1 < text.size() &&
           static_cast<unsigned char>(text[at + 1]) >= 0x80 &&
           static_cast<unsigned char>(text[at + 1]) < 0xa0;
  };
  std::string out;
  size_t copied = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (lines == Lines::kOne && is_space(text[at])) text[at] = ' ';
    const char c = text[at];
    const bool two = is_long(at);
    if (!two && !is_short(c)) continue;
    out.append(text, copied, at - copied);
    out += two ? "^[" : "^";
    // The long ones are ESC and a character that stands 0x40 below.
    out += static_cast<char>(two ? text[++at] - 0x40 : c ^ 0x40);
    copied = at + 1;
  }
  if (copied == 0) return text;
  return out.append(text, copied);
}

std::string Excerpt(std::string_view text) {
  return Printable(std::string(CutText(text, kExcerptBytes)), Lines::kOne);
}

}  // namespace larder
