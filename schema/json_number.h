// Is this text a number, as JSON writes one?
#pragma once

#include <string_view>

namespace larder {

inline bool IsJsonNumber(std::string_view text) {
  size_t at = 0;
  auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - begin;
  };
  auto take = [&](std::string_view any_of) {
    if (at == text.size() || any_of.find(text[at]) == std::string_view::npos) return false;
    ++at;
    return true;
  };
  take("-");
  const bool zero = at < text.size() && text[at] == '0';
  const size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (take(".") && digits() == 0) return false;
  if (take("eE")) {
    take("+-");
    if (digits() == 0) return false;
  }
  return at == text.size();
}

}  // namespace larder
