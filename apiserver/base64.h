// Base64 in its URL spelling without padding, for page tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace larder::apiserver {

std::string Base64UrlEncode(std::string_view bytes);
std::optional<std::string> Base64UrlDecode(std::string_view text);

}  // namespace larder::apiserver
