#include "schema/wire_to_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>

#include "base/base64.h"
#include "schema/json_span.h"
#include "schema/wire_format.h"

namespace larder {
namespace {

using Type = WireField::Type;
using Shape = WireField::Shape;

// No kind is nested nearly so deep; schemas that hold themselves could be.
constexpr int kMaxDepth = 64;

// Bytes that do not stand for themselves in JSON as Go writes it, which escapes what HTML might
// take for a tag. 0xe2 may begin a line separator; any byte from 0x80 on may be no UTF-8.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x80; ++c) plain[static_cast<size_t>(c)] = true;
  for (const char c : {'"', '\\', '<', '>', '&'}) plain[static_cast<size_t>(c)] = false;
  return plain;
}();

bool IsPlain(char c) { return kPlain[static_cast<uint8_t>(c)]; }

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

void AppendEscaped(uint8_t c, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += "\\u00";
  out += kHex[c >> 4];
  out += kHex[c & 15];
}

// Appends the character that `text` begins with and returns its bytes.
size_t AppendCharacter(std::string_view text, std::string& out) {
  const char c = text.front();
  if (static_cast<uint8_t>(c) >= 0x80) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      out += "\\ufffd";
      return 1;
    }
    const std::string_view character = text.substr(0, length);
    if (character == "\u2028" || character == "\u2029") {
      out += character == "\u2028" ? "\\u2028" : "\\u2029";
    } else {
      out += character;
    }
    return length;
  }
  switch (c) {
    case '"':
    case '\\':
      out += '\\';
      out += c;
      break;
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      AppendEscaped(static_cast<uint8_t>(c), out);
  }
  return 1;
}

void AppendText(std::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    size_t plain = 0;
    while (plain < text.size() && IsPlain(text[plain])) ++plain;
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (!text.empty()) text.remove_prefix(AppendCharacter(text, out));
  }
  out += '"';
}

// JSON inside JSON, as Go puts it there: without white space, and with HTML's characters escaped.
void AppendRaw(std::string_view json, std::string& out) {
  bool in_string = false;
  while (!json.empty()) {
    const char c = json.front();
    if (c == '<' || c == '>' || c == '&') {
      AppendEscaped(static_cast<uint8_t>(c), out);
    } else if (json.starts_with("\u2028") || json.starts_with("\u2029")) {
      json.remove_prefix(AppendCharacter(json, out));
      continue;
    } else if (in_string || (c != ' ' && c != '\t' && c != '\n' && c != '\r')) {
      out += c;
    }
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\' && json.size() > 1) {
      out += json[1];
      json.remove_prefix(1);
    }
    json.remove_prefix(1);
  }
}

void AppendNumber(int64_t number, std::string& out) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end.ptr);
}

void AppendDigits(unsigned number, int digits, std::string& out) {
  const size_t at = out.size();
  out.append(static_cast<size_t>(digits), '0');
  for (size_t i = out.size(); i-- > at; number /= 10) {
    out[i] = static_cast<char>('0' + number % 10);
  }
}

// Moments that RFC 3339 can write: years 1 to 9999.
constexpr int64_t kFirstSecond = -62135596800;
constexpr int64_t kLastSecond = 253402300799;

void AppendDateTime(int64_t seconds, std::string& out) {
  using std::chrono::days;
  const std::chrono::sys_seconds moment{std::chrono::seconds(seconds)};
  const auto day = std::chrono::floor<days>(moment);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(moment - day);
  const auto two = [&](auto number) { AppendDigits(static_cast<unsigned>(number), 2, out); };
  AppendDigits(static_cast<unsigned>(static_cast<int>(date.year())), 4, out);
  out += '-';
  two(static_cast<unsigned>(date.month()));
  out += '-';
  two(static_cast<unsigned>(date.day()));
  out += 'T';
  two(time.hours().count());
  out += ':';
  two(time.minutes().count());
  out += ':';
  two(time.seconds().count());
}

// What a message holds of one field.
struct Slot {
  bool seen = false;
  uint64_t number = 0;     // of a varint
  std::string_view bytes;  // a value; of lists and maps everything from the first to the last
};

class Converter {
 public:
  Converter(uint32_t max_depth, std::string& out)
      : max_depth_(max_depth), out_(out), slots_(Scratch()) {
    slots_.clear();
  }

  // False: error() says why.
  bool Object(const WireMessage& message, const TypeMeta& type, std::string_view bytes) {
    out_ = "{\"kind\":";
    AppendText(type.kind, out_);
    out_ += ",\"apiVersion\":";
    AppendText(type.api_version, out_);
    out_ += ',';
    return Fields(message, bytes, 0) && Close();
  }
  const Error& error() const { return error_; }
  // Where the first field of the object, its metadata, ends.
  size_t head_bytes() const { return head_bytes_; }

 private:
  static std::vector<Slot>& Scratch() {
    static thread_local std::vector<Slot> slots;
    return slots;
  }

  bool Message(const WireMessage& message, std::string_view bytes, int depth) {
    if (depth > kMaxDepth) return Malformed("messages are nested too deep");
    out_ += '{';
    return Fields(message, bytes, depth) && Close();
  }

  // Each field ended with a comma: the last one becomes the bracket.
  bool Close() {
    if (out_.back() == ',') {
      out_.back() = '}';
    } else {
      out_ += '}';
    }
    return true;
  }

  bool Fields(const WireMessage& message, std::string_view bytes, int depth) {
    const size_t base = slots_.size();
    slots_.resize(base + message.fields.size());
    if (!Collect(message, bytes, base)) return false;
    for (size_t i = 0; i < message.fields.size(); ++i) {
      const Slot slot = slots_[base + i];  // a copy: slots_ grows below
      if (!Field(message.fields[i], slot, depth)) return false;
      if (i == 0 && base == 0) head_bytes_ = out_.size() - 1;
    }
    slots_.resize(base);
    return true;
  }

  bool Collect(const WireMessage& message, std::string_view bytes, size_t base) {
    WireFields wire(bytes);
    while (wire.Next()) {
      const uint8_t index = message.IndexOf(wire.number());
      if (index == WireMessage::kNoField) return Unknown(message, wire.number());
      const WireField& field = message.fields[index];
      const bool is_number = field.type == Type::kBool || field.type == Type::kInt;
      const bool packed = field.shape == Shape::kList && wire.type() == WireType::kBytes;
      const bool fits = is_number && field.shape != Shape::kMap
                            ? wire.type() == WireType::kVarint || packed
                            : wire.type() == WireType::kBytes;
      if (!fits) return Unknown(message, wire.number());
      Slot& slot = slots_[base + index];
      if (field.shape == Shape::kList || field.shape == Shape::kMap) {
        const char* begin = slot.seen ? slot.bytes.data() : wire.whole().data();
        const char* end = wire.whole().data() + wire.whole().size();
        slot.bytes = {begin, static_cast<size_t>(end - begin)};
      } else {
        if (slot.seen) return Malformed("a field stands twice");
        slot.bytes = wire.bytes();
        slot.number = wire.value();
      }
      slot.seen = true;
    }
    return wire.malformed() == nullptr || Malformed(wire.malformed());
  }

  bool Field(const WireField& field, const Slot& slot, int depth) {
    if (field.inlined()) return Fields(*field.message, slot.bytes, depth);
    if (IsLeftOut(field, slot)) return true;
    out_ += field.key;
    const bool done = [&] {
      switch (field.shape) {
        case Shape::kList:
          return slot.seen ? List(field, slot.bytes, depth) : Null();
        case Shape::kMap:
          return slot.seen ? Map(field, slot.bytes, depth) : Null();
        case Shape::kPointer:
          return slot.seen ? Value(field, slot, depth) : Null();
        default:
          return Value(field, slot, depth);
      }
    }();
    out_ += ',';
    return done;
  }

  // Go's omitempty: pointers, lists and maps that are not there, and empty plain values. A struct
  // is never empty.
  static bool IsLeftOut(const WireField& field, const Slot& slot) {
    if (field.omit_zero && slot.bytes.empty()) return true;
    if (!field.omit_empty) return false;
    if (field.shape != Shape::kOne) return !slot.seen;
    switch (field.type) {
      case Type::kString:
      case Type::kBytes:
        return slot.bytes.empty();
      case Type::kBool:
      case Type::kInt:
        return slot.number == 0;
      default:
        return false;
    }
  }

  bool List(const WireField& field, std::string_view bytes, int depth) {
    out_ += '[';
    WireFields wire(bytes);
    while (wire.Next()) {
      if (wire.number() != field.number) continue;  // another field's, in between
      const bool is_number = field.type == Type::kBool || field.type == Type::kInt;
      if (is_number && wire.type() == WireType::kBytes) {
        WireFields packed(wire.bytes());
        Slot element{true, 0, {}};
        while (packed.NextPacked(element.number)) {
          if (!Value(field, element, depth)) return false;
          out_ += ',';
        }
        if (packed.malformed() != nullptr) return Malformed(packed.malformed());
        continue;
      }
      if (!Value(field, {true, wire.value(), wire.bytes()}, depth)) return false;
      out_ += ',';
    }
    if (out_.back() == ',') {
      out_.back() = ']';
    } else {
      out_ += ']';
    }
    return true;
  }

  bool Map(const WireField& field, std::string_view bytes, int depth) {
    std::vector<std::pair<std::string_view, Slot>> entries;
    WireFields wire(bytes);
    while (wire.Next()) {
      if (wire.number() != field.number) continue;
      WireFields entry(wire.bytes());
      std::string_view key;
      Slot value;
      while (entry.Next()) {
        if (entry.number() == 1) key = entry.bytes();
        if (entry.number() == 2) value = {true, entry.value(), entry.bytes()};
        if (entry.number() > 2) return Malformed("a map's entry has more than key and value");
      }
      if (entry.malformed() != nullptr) return Malformed(entry.malformed());
      entries.emplace_back(key, value);
    }
    const auto by_key = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!std::is_sorted(entries.begin(), entries.end(), by_key)) {
      std::stable_sort(entries.begin(), entries.end(), by_key);
    }
    out_ += '{';
    for (const auto& [key, value] : entries) {
      AppendText(key, out_);
      out_ += ':';
      if (!Value(field, value, depth)) return false;
      out_ += ',';
    }
    return Close();
  }

  bool Value(const WireField& field, const Slot& slot, int depth) {
    switch (field.type) {
      case Type::kString:
        AppendText(slot.bytes, out_);
        return true;
      case Type::kBool:
        out_ += slot.number != 0 ? "true" : "false";
        return true;
      case Type::kInt:
        AppendNumber(static_cast<int64_t>(slot.number), out_);
        return true;
      case Type::kBytes:
        if (!slot.seen) return Null();
        out_ += '"';
        out_ += EncodeBase64(slot.bytes);
        out_ += '"';
        return true;
      case Type::kMessage:
        return Message(*field.message, slot.bytes, depth + 1);
      case Type::kTime:
      case Type::kMicroTime:
        return Time(slot.bytes, field.type == Type::kMicroTime);
      case Type::kQuantity:
        return Quantity(slot);
      case Type::kIntOrString:
        return IntOrString(slot.bytes);
      default:
        return Raw(slot.bytes, depth);
    }
  }

  // The fields of a message of at most three; the others must not be there.
  std::optional<std::array<Slot, 4>> Small(std::string_view bytes, uint32_t fields) {
    std::array<Slot, 4> slots;
    WireFields wire(bytes);
    while (wire.Next()) {
      if (wire.number() == 0 || wire.number() > fields) {
        Malformed("a value has a field that is not known");
        return std::nullopt;
      }
      slots[wire.number()] = {true, wire.value(), wire.bytes()};
    }
    if (wire.malformed() == nullptr) return slots;
    Malformed(wire.malformed());
    return std::nullopt;
  }

  bool Time(std::string_view bytes, bool micro) {
    if (bytes.empty()) return Null();
    const auto slots = Small(bytes, 2);
    if (!slots) return false;
    const auto seconds = static_cast<int64_t>((*slots)[1].number);
    const auto nanos = (*slots)[2].number;
    if (seconds < kFirstSecond || seconds > kLastSecond || nanos >= 1'000'000'000) {
      return Malformed("a time is beyond the calendar");
    }
    out_ += '"';
    AppendDateTime(seconds, out_);
    if (micro) {
      out_ += '.';
      AppendDigits(static_cast<unsigned>(nanos / 1000), 6, out_);
    }
    out_ += "Z\"";
    return true;
  }

  bool Quantity(const Slot& slot) {
    const auto slots = Small(slot.bytes, 1);
    if (!slots) return false;
    const std::string_view text = (*slots)[1].bytes;
    if (slot.seen && text.empty()) return Malformed("an empty quantity");
    out_ += '"';
    out_ += slot.seen ? text : "0";
    out_ += '"';
    const bool usual = std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
             c == '.' || c == '+' || c == '-';
    });
    return usual || Malformed("a quantity that is none");
  }

  bool IntOrString(std::string_view bytes) {
    const auto slots = Small(bytes, 3);
    if (!slots) return false;
    const auto& [unused, type, number, text] = *slots;
    if (type.number > 1) return Malformed("neither number nor text");
    if (type.number == 0) {
      AppendNumber(static_cast<int32_t>(number.number), out_);
    } else {
      AppendText(text.bytes, out_);
    }
    return true;
  }

  bool Raw(std::string_view bytes, int depth) {
    const auto slots = Small(bytes, 1);
    if (!slots) return false;
    const std::string_view json = (*slots)[1].bytes;
    if (json.empty()) return Null();
    const auto around = static_cast<uint32_t>(depth + 1);
    if (around >= max_depth_ || !IsOneJsonContainer(json, max_depth_ - around)) {
      return Malformed("JSON inside it is none, or is nested too deep");
    }
    const auto as_it_is = [](char c) {
      return static_cast<uint8_t>(c) > 0x20 && c != '<' && c != '>' && c != '&' && c != '\xe2';
    };
    if (std::all_of(json.begin(), json.end(), as_it_is)) {
      out_ += json;
    } else {
      AppendRaw(json, out_);
    }
    return true;
  }

  bool Null() {
    out_ += "null";
    return true;
  }

  bool Unknown(const WireMessage& message, uint32_t number) {
    error_ = MakeError(ErrorCode::kUnsupported,
                       "field {} of {} is not known: the server is of another release", number,
                       message.name)
                 .value();
    return false;
  }
  bool Malformed(std::string_view what) {
    error_ = MakeError(ErrorCode::kProtocol, "the protobuf object is malformed: {}", what).value();
    return false;
  }

  const uint32_t max_depth_;
  std::string& out_;
  size_t head_bytes_ = 0;
  std::vector<Slot>& slots_;  // of the messages that are being written, the innermost last
  Error error_;
};

}  // namespace

Result<size_t> WireToJson(const WireMessage& message, const TypeMeta& type, std::string_view bytes,
                          uint32_t max_depth, std::string& out) {
  Converter converter(max_depth, out);
  if (!converter.Object(message, type, bytes)) return tl::unexpected(converter.error());
  return converter.head_bytes();
}

}  // namespace larder
