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

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/wire_schema.h"

namespace larder {

// JSON that was found inside messages and is in order. Half of an object's metadata is about who
// changed which fields, and neighbours in a list mostly say the same: it is checked once.
class KnownJson {
 public:
  // `depth`: how deep it stands.
  bool Has(std::string_view json, uint32_t depth) const;
  void Add(std::string_view json, uint32_t depth);

 private:
  struct Piece {
    std::string text;
    uint32_t depth = 0;
  };
  std::array<Piece, 4> pieces_;
  size_t next_ = 0;  // to be forgotten
};

// `out` becomes the object with `type` in front, as a GET would have it; after an error it is
// of no use. Returns where its metadata is, for Object::FromWire. JSON inside the messages may be
// nested so deep that it is `max_depth` in the whole. `known` is kept from one object to the next.
Result<WireHead> WireToJson(const WireMessage& message, const TypeMeta& type,
                            std::string_view bytes, uint32_t max_depth, KnownJson& known,
                            std::string& out);

}  // namespace larder
