// Writes JSON as Go's encoder does, which is how an API server writes it: no white space, and
// characters that HTML might take for a tag escaped, as are line separators and what is no UTF-8.
//
//   GoJsonWriter json(&out);
//   json.Plain("{\"a\":");
//   json.Text("<b>");        // "\u003cb\u003e" in quotes
//   json.Close('}');
//   json.Finish();           // now `out` is the text
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace larder {

class GoJsonWriter {
 public:
  // Replaces what `out` holds. It is longer than the text until Finish.
  explicit GoJsonWriter(std::string* out);
  void Finish() { out_.resize(size()); }
  size_t size() const { return static_cast<size_t>(at_ - out_.data()); }
  char last() const { return at_[-1]; }
  // What was written since it was of this size. Valid until more is written.
  std::string_view Since(size_t begin) const { return {out_.data() + begin, size() - begin}; }

  void Plain(std::string_view text) {
    Need(text.size());
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  void Plain(char c) {
    Need(1);
    *at_++ = c;
  }
  // With quotes.
  void Text(std::string_view text);
  void Number(int64_t number);
  // JSON that is put inside: compacted. It must be JSON. True: it stands there as it is.
  bool Raw(std::string_view json);
  // 2026-11-15T23:59:04, of a year from 1 to 9999; seconds since 1970.
  void DateTime(int64_t seconds);
  void Digits(uint32_t number, int digits);
  // Ends an object or list whose elements each ended with a comma.
  void Close(char bracket) {
    if (last() == ',') --at_;
    Plain(bracket);
  }

 private:
  void Need(size_t bytes) {
    if (static_cast<size_t>(end_ - at_) < bytes) Grow(bytes);
  }
  void Grow(size_t bytes);
  void Unicode(uint8_t c);
  size_t Character(std::string_view text);

  std::string& out_;
  char* at_;
  char* end_;
};

}  // namespace larder
