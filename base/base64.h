// Standard base64.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace larder {

std::string EncodeBase64(std::string_view bytes);
// White space is ignored. kInvalidArgument where it is not base64.
Result<std::string> DecodeBase64(std::string_view text);

}  // namespace larder
