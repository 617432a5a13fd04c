#include "schema/wire_to_json.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/text.h"
#include "schema/go_json_writer.h"
#include "schema/json_span.h"
#include "schema/load8.h"
#include "schema/wire_format.h"

namespace larder {
namespace {

using Type = WireField::Type;
using Shape = WireField::Shape;

// No kind is nested nearly so deep; schemas that hold themselves could be.
constexpr int kMaxMessageDepth = 64;

// Moments that RFC 3339 can write: years 1 to 9999.
constexpr int64_t kFirstSecond = -62135596800;
constexpr int64_t kLastSecond = 253402300799;

// What a message holds of one field. Not initialised by itself: most of a message's many fields are
// not there.
struct Slot {
  bool seen;
  uint64_t number;   // of a varint
  const char* data;  // a value; of lists and maps everything from the first to the last
  size_t size;

  std::string_view bytes() const { return {data, size}; }
};

// What is kept of earlier objects. Fewer bytes are converted as fast as they are looked for; more
// are not worth their memory.
constexpr size_t kLeastKnownBytes = 32;
constexpr size_t kMostKnownBytes = 8192;

constexpr Slot kAbsent{false, 0, nullptr, 0};
constexpr Slot NumberSlot(uint64_t number) { return {true, number, nullptr, 0}; }
Slot SlotOf(const WireFields& wire) {
  return {true, wire.value(), wire.bytes().data(), wire.bytes().size()};
}

bool IsNumber(const WireField& field) {
  return field.type == Type::kBool || field.type == Type::kInt;
}

class Converter {
 public:
  Converter(const WireLimits& limits, KnownJson& known, std::string* out)
      : limits_(limits), known_(known), out_(out) {}

  // False: error() says why.
  bool Object(const WireMessage& message, const TypeMeta& type, std::string_view bytes) {
    type_ = &type;
    bytes_ = bytes;
    out_.Plain("{\"kind\":");
    out_.Text(type.kind);
    out_.Plain(",\"apiVersion\":");
    out_.Text(type.api_version);
    out_.Plain(',');
    if (!Fields(message, bytes, 0)) return false;
    if (head_.body_at == out_.size()) head_.body_at = 0;  // nothing came
    out_.Close('}');
    out_.Finish();
    return Fits();
  }
  const Error& error() const { return error_; }
  bool too_large() const { return too_large_; }
  const WireHead& head() const { return head_; }

 private:
  bool Message(const WireMessage& message, std::string_view bytes, int depth) {
    if (depth > kMaxMessageDepth) return Malformed("messages are nested too deep");
    const auto convert = [&] {
      out_.Plain('{');
      if (!Fields(message, bytes, depth)) return false;
      out_.Close('}');
      return true;
    };
    // Metadata, spec and status as a whole are never those of another object.
    return depth > 1 ? Once(&message, bytes, depth, convert) : convert();
  }

  // `convert`, or a copy of what it wrote when these bytes were here before.
  template <typename Convert>
  bool Once(const void* of, std::string_view bytes, int depth, const Convert& convert) {
    KnownJson::Piece* const piece = known_.At(of, bytes);
    if (piece == nullptr) return convert();
    const auto at = static_cast<uint32_t>(depth);
    if (piece->Is(of, bytes, at)) {
      out_.Plain(piece->json());
      return Fits();
    }
    const size_t begin = out_.size();
    if (!convert() || !Fits()) return false;
    piece->Keep(of, bytes, at, out_.Since(begin));
    return true;
  }

  using Slots = std::array<Slot, WireMessage::kMostFields>;
  using MapEntries = std::vector<std::pair<std::string_view, Slot>>;

  bool Fields(const WireMessage& message, std::string_view bytes, int depth) {
    Slots slots;
    uint64_t seen = 0;
    if (!Collect(message, bytes, slots, seen)) return false;
    for (uint64_t left = (seen | message.always) & ~message.left_out; left != 0; left &= left - 1) {
      const auto i = static_cast<size_t>(std::countr_zero(left));
      if ((seen >> i & 1) == 0) slots[i] = kAbsent;
      const WireField& field = message.fields[i];
      if (!Field(field, slots[i], depth)) return false;
      // An object's first field is its metadata, and behind it stands a comma.
      if (depth == 0 && i == 0) head_ = {slots[i].bytes(), out_.size(), message.projected};
    }
    return true;
  }

  bool Collect(const WireMessage& message, std::string_view bytes, Slots& slots, uint64_t& seen) {
    WireFields wire(bytes);
    while (wire.Next()) {
      const uint8_t index = message.IndexOf(wire.number());
      if (index == WireMessage::kNoField) return Unknown(message, wire.number());
      const WireField& field = message.fields[index];
      const bool packed = field.shape == Shape::kList && wire.type() == WireType::kBytes;
      const bool fits = IsNumber(field) && field.shape != Shape::kMap
                            ? wire.type() == WireType::kVarint || packed
                            : wire.type() == WireType::kBytes;
      if (!fits) return Unknown(message, wire.number());
      Slot& slot = slots[index];
      const bool again = (seen >> index & 1) != 0;
      seen |= uint64_t{1} << index;
      if (field.shape == Shape::kList || field.shape == Shape::kMap) {
        const char* begin = again ? slot.data : wire.whole().data();
        const char* end = wire.whole().data() + wire.whole().size();
        slot = {true, 0, begin, static_cast<size_t>(end - begin)};
      } else if (again) {
        return Malformed("a field stands twice");
      } else {
        slot = SlotOf(wire);
      }
    }
    return wire.malformed() == nullptr || Malformed(wire.malformed());
  }

  bool Field(const WireField& field, const Slot& slot, int depth) {
    if (field.inlined()) return Fields(*field.message, slot.bytes(), depth);
    if (IsLeftOut(field, slot)) return true;
    out_.Plain(field.key);
    const bool done = [&] {
      switch (field.shape) {
        case Shape::kList:
          return slot.seen ? List(field, slot.bytes(), depth) : Null();
        case Shape::kMap:
          return slot.seen ? Map(field, slot.bytes(), depth) : Null();
        case Shape::kPointer:
          return slot.seen ? Value(field, slot, depth) : Null();
        default:
          return Value(field, slot, depth);
      }
    }();
    out_.Plain(',');
    return done;
  }

  // One that is there, but as empty as if it were not. Those that are absent do not come here,
  // where that leaves them out.
  static bool IsLeftOut(const WireField& field, const Slot& slot) {
    return field.LeftOutWhenAbsent() && field.shape == Shape::kOne && slot.number == 0 &&
           slot.size == 0;
  }

  bool List(const WireField& field, std::string_view bytes, int depth) {
    out_.Plain('[');
    const size_t weight = ElementBytes(bytes);
    WireFields wire(bytes);
    while (wire.Next()) {
      if (wire.number() != field.number) continue;  // another field's, in between
      if (IsNumber(field) && wire.type() == WireType::kBytes) {
        WireFields packed(wire.bytes());
        uint64_t number = 0;
        while (packed.NextPacked(number)) {
          if (!Value(field, NumberSlot(number), depth)) return false;
          out_.Plain(',');
          if (!Fits()) return false;
        }
        if (packed.malformed() != nullptr) return Malformed(packed.malformed());
        continue;
      }
      if (!Value(field, SlotOf(wire), depth)) return false;
      out_.Plain(',');
      in_elements_ += weight;
      if (!Fits()) return false;
    }
    out_.Close(']');
    return true;
  }

  bool Map(const WireField& field, std::string_view bytes, int depth) {
    return Once(&field, bytes, depth, [&] { return Entries(field, bytes, depth); });
  }

  bool Entries(const WireField& field, std::string_view bytes, int depth) {
    MapEntries entries = std::move(entries_);  // back for the next map, unless this one fails
    entries.clear();
    const size_t weight = ElementBytes(bytes);
    WireFields wire(bytes);
    while (wire.Next()) {
      if (wire.number() != field.number) continue;
      WireFields entry(wire.bytes());
      std::string_view key;
      Slot value = kAbsent;
      while (entry.Next()) {
        if (entry.number() == 1) key = entry.bytes();
        if (entry.number() == 2) value = SlotOf(entry);
        if (entry.number() > 2) return Malformed("a map's entry has more than key and value");
      }
      if (entry.malformed() != nullptr) return Malformed(entry.malformed());
      entries.emplace_back(key, value);
      in_elements_ += weight;
      if (!Fits()) return false;
    }
    const auto by_key = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!std::is_sorted(entries.begin(), entries.end(), by_key)) {
      std::stable_sort(entries.begin(), entries.end(), by_key);
    }
    out_.Plain('{');
    for (const auto& [key, value] : entries) {
      out_.Text(key);
      out_.Plain(':');
      if (!Value(field, value, depth)) return false;
      out_.Plain(',');
      if (!Fits()) return false;
    }
    out_.Close('}');
    entries_ = std::move(entries);
    return true;
  }

  bool Value(const WireField& field, const Slot& slot, int depth) {
    switch (field.type) {
      case Type::kString:
        out_.Text(slot.bytes());
        return true;
      case Type::kBool:
        out_.Plain(slot.number != 0 ? "true" : "false");
        return true;
      case Type::kInt:
        out_.Number(static_cast<int64_t>(slot.number));
        return true;
      case Type::kBytes:
        if (!slot.seen) return Null();
        out_.Plain('"');
        out_.Plain(EncodeBase64(slot.bytes()));
        out_.Plain('"');
        return true;
      case Type::kMessage:
        return Message(*field.message, slot.bytes(), depth + 1);
      case Type::kTime:
      case Type::kMicroTime:
        return Time(slot.bytes(), field.type == Type::kMicroTime);
      case Type::kQuantity:
        return Quantity(slot);
      case Type::kIntOrString:
        return IntOrString(slot.bytes());
      default:
        return Raw(slot.bytes(), depth);
    }
  }

  // The fields of a message of at most three; the others must not be there.
  std::optional<std::array<Slot, 4>> Small(std::string_view bytes, uint32_t fields) {
    std::array<Slot, 4> slots;
    slots.fill(kAbsent);
    WireFields wire(bytes);
    while (wire.Next()) {
      if (wire.number() == 0 || wire.number() > fields) {
        Malformed("a value has a field that is not known");
        return std::nullopt;
      }
      slots[wire.number()] = SlotOf(wire);
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
    out_.Plain('"');
    out_.DateTime(seconds);
    if (micro) {
      out_.Plain('.');
      out_.Digits(static_cast<uint32_t>(nanos / 1000), 6);
    }
    out_.Plain("Z\"");
    return true;
  }

  bool Quantity(const Slot& slot) {
    const auto slots = Small(slot.bytes(), 1);
    if (!slots) return false;
    const std::string_view text = (*slots)[1].bytes();
    if (slot.seen && text.empty()) return Malformed("an empty quantity");
    out_.Plain('"');
    out_.Plain(slot.seen ? text : "0");
    out_.Plain('"');
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
      out_.Number(static_cast<int32_t>(number.number));
    } else {
      out_.Text(text.bytes());
    }
    return true;
  }

  bool Raw(std::string_view bytes, int depth) {
    const auto slots = Small(bytes, 1);
    if (!slots) return false;
    const std::string_view json = (*slots)[1].bytes();
    if (json.empty()) return Null();
    const auto around = static_cast<uint32_t>(depth + 1);
    KnownJson::Piece* const piece = known_.At(nullptr, json);
    if (piece != nullptr && piece->Is(nullptr, json, around)) {
      out_.Plain(json);
      return true;
    }
    if (around >= limits_.max_depth || !IsOneJsonContainer(json, limits_.max_depth - around)) {
      return Malformed("JSON inside it is none, or is nested too deep");
    }
    if (out_.Raw(json) && piece != nullptr) piece->Keep(nullptr, json, around, {});
    return true;
  }

  bool Null() {
    out_.Plain("null");
    return true;
  }

  // What an element of a list or map weighs beside its JSON, where they are many: a place for each
  // here, and in the envelope if it is the metadata's. Few are not counted, for what is known
  // already is copied without a look at its elements, and must weigh the same.
  static size_t ElementBytes(std::string_view container) {
    constexpr size_t kBytes = 32;
    return container.size() > kMostKnownBytes ? kBytes : 0;
  }

  bool Fits() { return out_.size() + in_elements_ <= limits_.max_json_bytes || RefuseAsTooLarge(); }
  bool RefuseAsTooLarge() {
    too_large_ = true;
    error_ = MakeError(ErrorCode::kProtocol, "{} {} is larger than {} bytes as JSON", type_->kind,
                       NameOf(bytes_), limits_.max_json_bytes)
                 .value();
    return false;
  }
  // "namespace/name" of an object, for a message.
  static std::string NameOf(std::string_view object) {
    constexpr uint32_t kMetadata = 1, kName = 1, kNamespace = 3;
    constexpr size_t kMostShown = 253;
    std::string_view ns, name;
    WireFields fields(object);
    while (fields.Next() && fields.number() != kMetadata) continue;
    WireFields metadata(fields.number() == kMetadata ? fields.bytes() : std::string_view());
    while (metadata.Next()) {
      if (metadata.number() == kName) name = metadata.bytes();
      if (metadata.number() == kNamespace) ns = metadata.bytes();
    }
    const auto shown = [](std::string_view text) {
      return Printable(std::string(CutText(text, kMostShown)), Lines::kOne);
    };
    return ns.empty() ? shown(name) : shown(ns) + "/" + shown(name);
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

  const WireLimits limits_;
  KnownJson& known_;
  GoJsonWriter out_;
  const TypeMeta* type_ = nullptr;
  std::string_view bytes_;  // of the object
  size_t in_elements_ = 0;  // see ElementBytes
  bool too_large_ = false;
  MapEntries entries_;
  WireHead head_;
  Error error_;
};

}  // namespace

KnownJson::Piece* KnownJson::At(const void* of, std::string_view wire) {
  if (wire.size() < kLeastKnownBytes || wire.size() > kMostKnownBytes) return nullptr;
  // Three words tell most apart: all of the bytes are compared where they do not.
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  const char* const data = wire.data();
  uint64_t hash = reinterpret_cast<uintptr_t>(of) + wire.size();
  for (const size_t at : {size_t{0}, wire.size() / 2, wire.size() - sizeof(hash)}) {
    hash = (hash ^ Load8(data + at)) * kMix;
    hash ^= hash >> 32;
  }
  return &pieces_[hash % pieces_.size()];
}

void KnownJson::Piece::Keep(const void* of, std::string_view wire, uint32_t depth,
                            std::string_view json) {
  if (json.size() > kMostKnownBytes) return;
  of_ = of;
  depth_ = depth;
  wire_ = wire;
  json_ = json;
}

Result<WireHead> WireToJson(const WireMessage& message, const TypeMeta& type,
                            std::string_view bytes, const WireLimits& limits, KnownJson& known,
                            std::string& out, bool* too_large) {
  Converter converter(limits, known, &out);
  const bool converted = converter.Object(message, type, bytes);
  if (too_large != nullptr) *too_large = converter.too_large();
  if (!converted) return tl::unexpected(converter.error());
  return converter.head();
}

}  // namespace larder
