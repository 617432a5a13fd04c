// Finds where a JSON object or array ends, however its bytes arrive.
//
// Counts brackets outside strings, 64 bytes at a time; no recursion, no allocation, no copy. It
// does not check the grammar: the text it finds is parsed afterwards by whoever wants it. Nesting
// deeper than `max_depth` is refused here, so that no parser behind it meets it.
//
//   JsonSpan span(1000);
//   std::optional<size_t> end = span.Scan(R"({"a":[1)");   // nullopt: goes on in the next piece
//   end = span.Scan("]} tail");                             // 2: one past the closing bracket
//
// Not thread-safe. Reset() before the next value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace larder {

class JsonSpan {
 public:
  explicit JsonSpan(uint32_t max_depth) : max_depth_(max_depth) {}

  // Scans the next piece; the first byte of the first piece must be the opening bracket. Returns
  // the offset one past the bracket that closes it, or nullopt when the whole piece was taken and
  // the value goes on, or is too deep.
  std::optional<size_t> Scan(std::string_view piece);

  bool too_deep() const { return too_deep_; }
  void Reset();

 private:
  // The bits of one block of 64 bytes, lowest bit first.
  struct Brackets {
    uint64_t open;
    uint64_t close;
  };
  // Reads the block that begins here, or what there is of it.
  Brackets Classify(std::string_view text);
  // Walks the brackets one by one. Returns the bit at which depth came to 0, or 64.
  uint32_t Walk(Brackets brackets);

  const uint32_t max_depth_;
  uint32_t depth_ = 0;
  bool too_deep_ = false;
  bool in_string_ = false;
  bool escaped_ = false;  // the next byte follows a backslash

  friend bool IsOneJsonContainer(std::string_view text, uint32_t max_depth);
};

// Is this text one object or array of at most `max_depth` levels, with nothing behind it? Here each
// bracket must be closed by one of its kind, so that what is pasted into a document stays in its
// place; the rest of the grammar is not checked either.
bool IsOneJsonContainer(std::string_view text, uint32_t max_depth);

}  // namespace larder
