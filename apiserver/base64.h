// Base64 in its two spellings: the standard one (kubeconfig) and the URL one without padding (page
// tokens).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace larder::apiserver {

std::string Base64Encode(std::string_view bytes);
std::string Base64UrlEncode(std::string_view bytes);
std::optional<std::string> Base64UrlDecode(std::string_view text);

}  // namespace larder::apiserver
