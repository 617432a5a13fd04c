#include "tools/yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace larder::tools {
namespace {

using SortedJson = nlohmann::json;

bool IsWordOfYaml(std::string_view text) {
  constexpr std::array<std::string_view, 14> kWords = {"null", "true", "false", "yes",  "no",
                                                       "on",   "off",  "y",     "n",    "~",
                                                       ".inf", ".nan", "-.inf", "+.inf"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kWords.begin(), kWords.end(), lower) != kWords.end() || text == "<<" ||
         text == "=";
}

// Numbers in any spelling of YAML 1.1 (0x1f, 1_000, 1e3, 12:30), and dates.
bool LooksLikeNumber(std::string_view text) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  if (text.empty()) return false;
  if (text.front() == '.' && text.size() > 1) text.remove_prefix(1);
  if (!std::isdigit(static_cast<unsigned char>(text.front()))) return false;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'o' || text[1] == 'b')) {
    return std::all_of(text.begin() + 2, text.end(),
                       [](unsigned char c) { return std::isxdigit(c) || c == '_'; });
  }
  size_t at = 0;
  const auto digits = [&] {
    while (at < text.size() &&
           (std::isdigit(static_cast<unsigned char>(text[at])) || text[at] == '_')) {
      ++at;
    }
  };
  digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    digits();
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const size_t begin = at;
    digits();
    if (at == begin) return false;
  }
  while (at < text.size() && text[at] == ':') {
    ++at;
    digits();
  }
  return at == text.size();
}

bool LooksLikeDate(std::string_view text) {
  if (text.size() < 10 || text[4] != '-' || text[7] != '-') return false;
  for (const size_t i : {0U, 1U, 2U, 3U, 5U, 6U, 8U, 9U}) {
    if (!std::isdigit(static_cast<unsigned char>(text[i]))) return false;
  }
  return text.size() == 10 || text[10] == 'T' || text[10] == 't' || text[10] == ' ';
}

struct Escape {
  size_t at = std::string_view::npos;
  size_t size = 0;
  unsigned code = 0;
};

// The first character from `from` on that JSON takes as it is and YAML does not: DEL, the second
// block of controls, the line's and the paragraph's end, the byte order mark.
Escape NextEscape(std::string_view text, size_t from) {
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  for (size_t at = from; at < text.size(); ++at) {
    const unsigned first = byte(at), second = byte(at + 1), third = byte(at + 2);
    if (first == 0x7f) return {at, 1, first};
    if (first == 0xc2 && second >= 0x80 && second <= 0x9f) return {at, 2, second};
    if (first == 0xe2 && second == 0x80 && (third == 0xa8 || third == 0xa9)) {
      return {at, 3, 0x2000U + (third & 0x3fU)};
    }
    if (first == 0xef && second == 0xbb && third == 0xbf) return {at, 3, 0xfeff};
  }
  return {};
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return c < 0x20 && c != '\n'; }) ||
         NextEscape(text, 0).size != 0;
}

// A plain scalar would be read as syntax.
bool NeedsSingleQuotes(std::string_view text) {
  const char first = text.front(), last = text.back();
  if (std::string_view("#,[]{}&*!|>'\"%@`").find(first) != std::string_view::npos) return true;
  const bool more = text.size() > 1;
  if ((first == '-' || first == '?' || first == ':') && (!more || text[1] == ' ')) return true;
  if (first == ' ' || last == ' ' || last == ':') return true;
  if (text.substr(0, 3) == "---" || text.substr(0, 3) == "...") return true;
  return text.find(": ") != std::string_view::npos || text.find(" #") != std::string_view::npos;
}

std::string DoubleQuoted(const std::string& text) {
  // JSON's escapes are YAML's, but for pairs that stand for one character: not all are escaped.
  std::string out = SortedJson(text).dump(-1, ' ', false, SortedJson::error_handler_t::replace);
  for (Escape found = NextEscape(out, 0); found.size != 0; found = NextEscape(out, found.at)) {
    out.replace(found.at, found.size, fmt::format("\\u{:04x}", found.code));
  }
  return out;
}

std::string SingleQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += c;
  }
  return out + "'";
}

bool FitsBlock(std::string_view text) {
  return text.find('\n') != std::string_view::npos && !HasControl(text) &&
         text.find(" \n") == std::string_view::npos && text.back() != ' ';
}

std::string Block(std::string_view text, size_t indent) {
  std::string out = "|";
  if (text.front() == ' ' || text.front() == '\n') out += '2';
  if (text.back() != '\n') {
    out += '-';
  } else if (text.size() == 1 || text[text.size() - 2] == '\n') {
    out += '+';
  }
  out += '\n';
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) out += std::string(indent, ' ') + std::string(text.substr(0, end));
    out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out.pop_back();
  return out;
}

std::string Scalar(const SortedJson& value, size_t indent) {
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.empty()) return "\"\"";
  if (FitsBlock(text)) return Block(text, indent);
  if (text.find('\n') != std::string::npos || HasControl(text)) return DoubleQuoted(text);
  if (IsWordOfYaml(text) || LooksLikeNumber(text) || LooksLikeDate(text)) {
    return DoubleQuoted(text);
  }
  return NeedsSingleQuotes(text) ? SingleQuoted(text) : text;
}

void Emit(const SortedJson& value, size_t indent, bool first_line_open, std::string& out) {
  const std::string margin(indent, ' ');
  bool open = first_line_open;  // the line has its margin already
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, child] : value.items()) {
      out += (open ? "" : margin) + Scalar(SortedJson(key), indent + 2) + ":";
      open = false;
      if (child.is_structured() && !child.empty()) {
        out += '\n';
        Emit(child, child.is_array() ? indent : indent + 2, false, out);
      } else {
        out += ' ';
        Emit(child, indent + 2, true, out);
      }
    }
  } else if (value.is_array() && !value.empty()) {
    for (const SortedJson& child : value) {
      out += (open ? "" : margin) + "- ";
      open = false;
      Emit(child, indent + 2, true, out);
    }
  } else {
    const std::string text = value.is_object()  ? "{}"
                             : value.is_array() ? "[]"
                                                : Scalar(value, indent);
    out += (open ? "" : margin) + text + "\n";
  }
}

}  // namespace

std::string ToYaml(const SortedJson& value, size_t indent) {
  std::string out;
  Emit(value, indent, false, out);
  return out;
}

}  // namespace larder::tools
