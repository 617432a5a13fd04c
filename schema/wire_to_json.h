// Turns an object in Kubernetes' protobuf into the JSON that the API server would have sent for it,
// byte for byte: the same order of keys, the same escapes, the same empty fields left out.
//
// Nothing is dropped: a field that the schema does not know is kUnsupported, and the caller asks
// for JSON instead. Malformed bytes are kProtocol.
//
//   std::string json;
//   KnownJson known;
//   auto head = WireToJson(*WireSchema::BuiltIn().Find(type), type, bytes, 1000, known, json);
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

// `out` becomes the object with `type` in front, as a GET would have it; after an error it is
// of no use. Returns where its metadata is, for Object::FromWire. JSON inside the messages may be
// nested so deep that it is `max_depth` in the whole. `known` is kept from one object to the next.
Result<WireHead> WireToJson(const WireMessage& message, const TypeMeta& type,
                            std::string_view bytes, uint32_t max_depth, KnownJson& known,
                            std::string& out);

}  // namespace larder
