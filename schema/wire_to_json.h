// Turns an object in Kubernetes' protobuf into the JSON that the API server would have sent for it,
// byte for byte: the same order of keys, the same escapes, the same empty fields left out.
//
// Nothing is dropped: a field that the schema does not know is kUnsupported, and the caller asks
// for JSON instead. Malformed bytes are kProtocol.
//
//   std::string json;
//   auto head = WireToJson(*WireSchema::BuiltIn().Find(type), type, bytes, 1000, json);
//   auto object = Object::FromHead(json, *head);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/wire_schema.h"

namespace larder {

// `out` becomes the object with `type` in front, as a GET would have it; after an error it is
// of no use. Returns the length of its head: type and metadata up to managedFields, without the
// comma or the brace behind them. JSON inside the messages may be nested so deep that it is
// `max_depth` in the whole.
Result<size_t> WireToJson(const WireMessage& message, const TypeMeta& type, std::string_view bytes,
                          uint32_t max_depth, std::string& out);

}  // namespace larder
