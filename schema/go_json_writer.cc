#include "schema/go_json_writer.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "schema/load8.h"

namespace larder {
namespace {

constexpr size_t kFirstBytes = size_t{16} << 10;
constexpr size_t kLeastMoreBytes = size_t{1} << 10;
constexpr size_t kMostKeptBytes = size_t{256} << 10;

// Eight bytes at a time: each test leaves the highest bit of the bytes that it holds for (and
// perhaps of ones above them, which does no harm: they are looked at one by one).
constexpr uint64_t kOnes = 0x0101010101010101;
constexpr uint64_t kHighs = 0x8080808080808080;
constexpr uint64_t Zero(uint64_t word) { return (word - kOnes) & ~word; }
constexpr uint64_t Is(uint64_t word, char c) {
  return Zero(word ^ kOnes * static_cast<uint8_t>(c));
}
constexpr uint64_t Below(uint64_t word, uint8_t limit) { return (word - kOnes * limit) & ~word; }
// '<' and '>' differ in one bit.
constexpr uint64_t IsHtml(uint64_t word) { return Is(word & ~(kOnes * 2), '<') | Is(word, '&'); }

template <typename Special>
bool IsPlainWord(uint64_t word, const Special& special) {
  return ((special(word) | word) & kHighs) == 0;
}

// Copies what needs no look, eight bytes at a time, and returns how many those are. Text of fewer
// than eight is copied whole or not at all. `to` has room for all of it.
template <typename Special>
size_t CopyPlain(std::string_view text, char* to, const Special& special) {
  const char* const from = text.data();
  const size_t size = text.size();
  if (size >= 8) {
    const size_t last = size - 8;
    for (size_t at = 0; at < last; at += 8) {
      const uint64_t word = Load8(from + at);
      if (!IsPlainWord(word, special)) return at;
      std::memcpy(to + at, &word, sizeof(word));
    }
    // The last eight, some of which may have been copied.
    const uint64_t word = Load8(from + last);
    if (!IsPlainWord(word, special)) return last - last % 8;
    std::memcpy(to + last, &word, sizeof(word));
    return size;
  }
  if (size >= 4) {
    uint32_t first, second;
    std::memcpy(&first, from, sizeof(first));
    std::memcpy(&second, from + size - 4, sizeof(second));
    if (!IsPlainWord(uint64_t{second} << 32 | first, special)) return 0;
    std::memcpy(to, &first, sizeof(first));
    std::memcpy(to + size - 4, &second, sizeof(second));
    return size;
  }
  return 0;
}

// Types and not functions: each is compiled into the loop that calls it.
struct SpecialInText {
  uint64_t operator()(uint64_t word) const {
    return Below(word, 0x20) | Is(word, '"') | Is(word, '\\') | IsHtml(word);
  }
};
struct SpecialInRaw {
  uint64_t operator()(uint64_t word) const { return Below(word, 0x21) | IsHtml(word); }
};

bool IsPlain(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

// How many bytes of well-formed UTF-8 stand at the beginning; 0: they are not.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) -> uint8_t {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
  };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = first == 0xed && byte(1) > 0x9f;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && byte(1) < 0x90;
    const bool beyond = first == 0xf4 && byte(1) > 0x8f;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

GoJsonWriter::GoJsonWriter(std::string* out) : out_(*out) {
  if (out_.capacity() > kMostKeptBytes && out_.size() < out_.capacity() / 4) {
    std::string().swap(out_);  // an assignment would keep it
  }
  // What the text before took is room enough for most: room that is added is filled with zeros.
  if (out_.empty()) out_.resize(kFirstBytes);
  at_ = out_.data();
  end_ = at_ + out_.size();
}

void GoJsonWriter::Grow(size_t bytes) {
  const size_t used = size();
  out_.resize(std::max(out_.size() + out_.size() / 4, used + bytes + kLeastMoreBytes));
  at_ = out_.data() + used;
  end_ = out_.data() + out_.size();
}

void GoJsonWriter::Unicode(uint8_t c) {
  static constexpr char kHex[] = "0123456789abcdef";
  Plain("\\u00");
  Plain(kHex[c >> 4]);
  Plain(kHex[c & 15]);
}

// Writes the character that `text` begins with and returns its bytes.
size_t GoJsonWriter::Character(std::string_view text) {
  const char c = text.front();
  if (static_cast<uint8_t>(c) >= 0x80) {
    const size_t length = Utf8Length(text);
    const std::string_view character = text.substr(0, length);
    if (length == 0) {
      Plain("\\ufffd");
      return 1;
    }
    if (character == "\u2028" || character == "\u2029") {
      Plain(character == "\u2028" ? "\\u2028" : "\\u2029");
    } else {
      Plain(character);
    }
    return length;
  }
  static constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (size_t i = 0; i < kShort.size(); i += 2) {
    if (kShort[i] != c) continue;
    Plain('\\');
    Plain(kShort[i + 1]);
    return 1;
  }
  Unicode(static_cast<uint8_t>(c));
  return 1;
}

void GoJsonWriter::Text(std::string_view text) {
  Need(text.size() + 2);
  *at_++ = '"';
  while (!text.empty()) {
    Need(text.size());
    size_t plain = CopyPlain(text, at_, SpecialInText());
    for (; plain < text.size() && IsPlain(text[plain]); ++plain) at_[plain] = text[plain];
    at_ += plain;
    text.remove_prefix(plain);
    if (!text.empty()) text.remove_prefix(Character(text));
  }
  Plain('"');
}

void GoJsonWriter::Number(int64_t number) {
  constexpr size_t kMostDigits = 20;
  Need(kMostDigits);
  at_ = std::to_chars(at_, end_, number).ptr;
}

bool GoJsonWriter::Raw(std::string_view json) {
  const auto as_it_is = [](char c) {
    return static_cast<uint8_t>(c) > 0x20 && static_cast<uint8_t>(c) < 0x80 && c != '<' &&
           c != '>' && c != '&';
  };
  Need(json.size());
  const size_t plain = CopyPlain(json, at_, SpecialInRaw());
  if (std::all_of(json.begin() + static_cast<ptrdiff_t>(plain), json.end(), as_it_is)) {
    std::memcpy(at_ + plain, json.data() + plain, json.size() - plain);
    at_ += json.size();
    return true;
  }
  bool in_string = false;
  while (!json.empty()) {
    const char c = json.front();
    if (c == '<' || c == '>' || c == '&') {
      Unicode(static_cast<uint8_t>(c));
    } else if (json.starts_with("\u2028") || json.starts_with("\u2029")) {
      json.remove_prefix(Character(json));
      continue;
    } else if (in_string || (c != ' ' && c != '\t' && c != '\n' && c != '\r')) {
      Plain(c);
    }
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\' && json.size() > 1) {
      Plain(json[1]);
      json.remove_prefix(1);
    }
    json.remove_prefix(1);
  }
  return false;
}

void GoJsonWriter::Digits(uint32_t number, int digits) {
  Need(static_cast<size_t>(digits));
  at_ += digits;
  for (int i = 1; i <= digits; ++i, number /= 10) at_[-i] = static_cast<char>('0' + number % 10);
}

void GoJsonWriter::DateTime(int64_t seconds) {
  using std::chrono::days;
  const std::chrono::sys_seconds moment{std::chrono::seconds(seconds)};
  const auto day = std::chrono::floor<days>(moment);
  const std::chrono::year_month_day date(day);
  const auto year = static_cast<unsigned>(static_cast<int>(date.year()));
  const auto time = static_cast<unsigned>((moment - day).count());
  constexpr size_t kBytes = 20;
  Need(kBytes);
  // An object has a dozen of them: two digits at a time, each pair with what stands behind it.
  const auto put = [at = at_](size_t place, unsigned number, char behind) {
    at[place] = static_cast<char>('0' + number / 10);
    at[place + 1] = static_cast<char>('0' + number % 10);
    at[place + 2] = behind;
  };
  put(0, year / 100, '0');
  put(2, year % 100, '-');
  put(5, static_cast<unsigned>(date.month()), '-');
  put(8, static_cast<unsigned>(date.day()), 'T');
  put(11, time / 3600, ':');
  put(14, time / 60 % 60, ':');
  put(17, time % 60, 'Z');
  at_ += kBytes - 1;  // whoever calls puts fractions, or the Z
}

}  // namespace larder
