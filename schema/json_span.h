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
  uint32_t depth() const { return depth_; }
  void Reset();

 private:
  // The bits of one block of 64 bytes, lowest bit first.
  struct Brackets {
    uint64_t open;
    uint64_t close;
  };
  // Reads one block, of which the first `valid` bytes count.
  Brackets Classify(const char* block, size_t valid);
  // Walks the brackets one by one. Returns the bit at which depth came to 0, or 64.
  uint32_t Walk(Brackets brackets);

  const uint32_t max_depth_;
  uint32_t depth_ = 0;
  bool too_deep_ = false;
  bool in_string_ = false;
  bool escaped_ = false;  // the next byte follows a backslash
};

// Is this text one object or array of at most `max_depth` levels, with nothing behind it?
bool IsOneJsonContainer(std::string_view text, uint32_t max_depth);

}  // namespace larder
