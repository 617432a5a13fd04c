// Protobuf's wire format: a message is a row of fields, each a number, a wire type and a value.
//
//   WireFields fields(message);
//   while (fields.Next()) Use(fields.number(), fields.bytes());
//   if (fields.malformed()) ...
#pragma once

#include <cstdint>
#include <string_view>

#include "base/varint.h"

namespace larder {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class WireFields {
 public:
  explicit WireFields(std::string_view message)
      : next_(message.data()), end_(message.data() + message.size()) {}

  // False at the end, and where the message is malformed.
  [[gnu::always_inline]] bool Next() {
    if (next_ == end_) return false;
    begin_ = next_;
    uint64_t tag = 0;
    if (!Varint(tag)) return false;
    number_ = static_cast<uint32_t>(tag >> 3);
    type_ = static_cast<WireType>(tag & 7);
    bytes_ = {};
    value_ = 0;
    switch (type_) {
      case WireType::kVarint:
        return Varint(value_);
      case WireType::kBytes: {
        uint64_t length = 0;
        return Varint(length) && Take(length);
      }
      case WireType::kFixed64:
        return Take(8);
      case WireType::kFixed32:
        return Take(4);
      default:
        return Malformed("unknown wire type");
    }
  }

  uint32_t number() const { return number_; }
  WireType type() const { return type_; }
  uint64_t value() const { return value_; }          // of a varint
  std::string_view bytes() const { return bytes_; }  // of anything else
  // The field with its number.
  std::string_view whole() const { return {begin_, static_cast<size_t>(next_ - begin_)}; }
  // What is wrong with the message; null: nothing so far.
  const char* malformed() const { return malformed_; }

  // Reads numbers that stand one after the other, without fields around them.
  bool NextPacked(uint64_t& value) { return next_ != end_ && Varint(value); }

 private:
  [[gnu::always_inline]] bool Varint(uint64_t& value) {
    // Most are of one byte.
    if (next_ != end_ && static_cast<uint8_t>(*next_) < 0x80) [[likely]] {
      value = static_cast<uint8_t>(*next_++);
      return true;
    }
    const Long number = LongVarint(next_, end_);
    if (number.behind == nullptr) return Malformed("a number does not end");
    value = number.value;
    next_ = number.behind;
    return true;
  }
  // By value, so that a loop over fields keeps its place in registers.
  struct Long {
    uint64_t value;
    const char* behind;  // null: it does not end
  };
  [[gnu::noinline]] static Long LongVarint(const char* at, const char* end) {
    std::string_view rest(at, static_cast<size_t>(end - at));
    uint64_t value = 0;
    if (!TakeVarint(rest, value)) return {0, nullptr};
    return {value, rest.data()};
  }
  bool Take(uint64_t length) {
    if (length > static_cast<uint64_t>(end_ - next_)) {
      return Malformed("a field overruns its message");
    }
    bytes_ = {next_, static_cast<size_t>(length)};
    next_ += length;
    return true;
  }
  bool Malformed(const char* what) {
    malformed_ = what;
    return false;
  }

  const char* next_;
  const char* const end_;
  const char* begin_ = nullptr;
  uint32_t number_ = 0;
  WireType type_ = WireType::kVarint;
  uint64_t value_ = 0;
  std::string_view bytes_;
  const char* malformed_ = nullptr;
};

}  // namespace larder
