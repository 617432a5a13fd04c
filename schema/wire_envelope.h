// An object's envelope straight from its protobuf, without a look at the JSON that was made of it.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/object.h"

namespace larder {

// `metadata` is a message that WireToJson has taken. `out` becomes the same bytes as reading that
// JSON gives, with the same refusals; false where the JSON must be read: it differs from the
// message (text that is not UTF-8).
Result<bool> EnvelopeFromWire(const TypeMeta& type, std::string_view metadata, std::string& out);

}  // namespace larder
