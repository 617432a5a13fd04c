// Turns an object in Kubernetes' protobuf into the JSON that the API server would have sent for it,
// byte for byte: the same order of keys, the same escapes, the same empty fields left out.
//
// Nothing is dropped: a field that the schema does not know is kUnsupported, and the caller asks
// for JSON instead. Malformed bytes are kProtocol, and so is what would become too large: an empty
// message of two bytes may print its fields all the same, in a hundred.
//
//   std::string json;
//   KnownJson known;
//   auto head = WireToJson(*WireSchema::BuiltIn().Find(type), type, bytes, {}, known, json);
//   auto object = Object::FromWire(json, type, *head);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "schema/wire_schema.h"

namespace larder {

// What parts of the objects before became. Neighbours in a list are mostly alike: the pods of one
// Deployment have the same containers, volumes, labels and owners, and half of an object's metadata
// is about who changed which fields. The same bytes become the same JSON, so each is converted, or
// checked, once, and then copied.
//
// A table without chains: what falls into the same place as another replaces it.
class KnownJson {
 public:
  // Enough for a list, in which ten objects in a row are of one owner. At most a few kilobytes
  // each, and only once there is something to keep.
  static constexpr size_t kForList = 128;
  // Changes come from anywhere: one after the other they are less alike.
  static constexpr size_t kForWatch = 8;

  explicit KnownJson(size_t pieces = kForWatch) : pieces_(pieces) {}

  class Piece {
   public:
    // `of`: what says how the bytes are written: a message, a map's field; null for JSON, which
    // is written as it is. `depth`: how deep it stands, for what is refused when it is deeper.
    bool Is(const void* of, std::string_view wire, uint32_t depth) const {
      return of_ == of && depth_ == depth && wire_ == wire;
    }
    std::string_view json() const { return json_; }
    // What is longer than others are is not worth its memory, and is not kept.
    void Keep(const void* of, std::string_view wire, uint32_t depth, std::string_view json);

   private:
    const void* of_ = nullptr;
    uint32_t depth_ = 0;
    std::string wire_;
    std::string json_;
  };

  // Where these bytes are kept, if they are. Null: they are too few or too many to be worth it.
  Piece* At(const void* of, std::string_view wire);

 private:
  std::vector<Piece> pieces_;
};

struct WireLimits {
  // JSON inside the messages may be nested so deep that it is this in the whole.
  uint32_t max_depth = 1000;
  // Of the JSON, and of what whoever reads it needs for each element of large lists and maps. No
  // more can be stored. A single text is written whole before it is looked at: it may have six
  // times the bytes that it has in the message.
  size_t max_json_bytes = size_t{64} << 20;
};

// `out` becomes the object with `type` in front, as a GET would have it; after an error it is
// of no use. Returns where its metadata is, for Object::FromWire. `known` is kept from one object
// to the next. `too_large`, if it is not null: was it refused for its size, which no other form
// makes better?
Result<WireHead> WireToJson(const WireMessage& message, const TypeMeta& type,
                            std::string_view bytes, const WireLimits& limits, KnownJson& known,
                            std::string& out, bool* too_large = nullptr);

}  // namespace larder
