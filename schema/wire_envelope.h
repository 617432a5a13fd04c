// An object's envelope straight from its protobuf, without a look at the JSON that was made of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/object.h"

namespace larder {

// `metadata` is a message that WireToJson has taken. The same bytes as reading that JSON gives, and
// the same refusals; nullopt where the JSON must be read: it differs from the message (text that is
// not UTF-8).
Result<std::optional<std::string>> EnvelopeFromWire(const TypeMeta& type,
                                                    std::string_view metadata);

}  // namespace larder
