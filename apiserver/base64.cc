#include "apiserver/base64.h"

#include <algorithm>

#include "base/base64.h"

namespace larder::apiserver {

std::string Base64UrlEncode(std::string_view bytes) {
  std::string out = EncodeBase64(bytes);
  std::replace(out.begin(), out.end(), '+', '-');
  std::replace(out.begin(), out.end(), '/', '_');
  while (!out.empty() && out.back() == '=') out.pop_back();
  return out;
}

std::optional<std::string> Base64UrlDecode(std::string_view text) {
  std::string padded(text);
  std::replace(padded.begin(), padded.end(), '-', '+');
  std::replace(padded.begin(), padded.end(), '_', '/');
  const size_t padding = (4 - padded.size() % 4) % 4;
  if (padding == 3) return std::nullopt;
  padded.append(padding, '=');
  Result<std::string> decoded = DecodeBase64(padded);
  if (!decoded) return std::nullopt;
  return *std::move(decoded);
}

}  // namespace larder::apiserver
