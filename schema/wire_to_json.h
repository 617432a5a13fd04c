// Turns an object in Kubernetes' protobuf into the JSON that the API server would have sent for it,
// byte for byte: the same order of keys, the same escapes, the same empty fields left out.
//
// Nothing is dropped: a field that the schema does not know is kUnsupported, and the caller asks
// for JSON instead. Malformed bytes are kProtocol.
//
//   std::string json;
//   auto done = WireToJson(*WireSchema::BuiltIn().Find(type), type, bytes, json);
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/wire_schema.h"

namespace larder {

// Appends to `out`; after an error it holds a part. `type` goes in front, as a GET would have it.
Result<void> WireToJson(const WireMessage& message, const TypeMeta& type, std::string_view bytes,
                        std::string& out);

}  // namespace larder
