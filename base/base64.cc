#include "base/base64.h"

#include <openssl/evp.h>

namespace larder {

Result<std::string> DecodeBase64(std::string_view text) {
  std::string compact;
  compact.reserve(text.size());
  for (char c : text) {
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') compact += c;
  }
  const auto bad = [] { return MakeError(ErrorCode::kInvalidArgument, "not valid base64"); };
  if (compact.size() % 4 != 0) return bad();
  size_t padding = 0;
  while (padding < 2 && padding < compact.size() && compact[compact.size() - 1 - padding] == '=') {
    ++padding;
  }
  // EVP_DecodeBlock would take padding for zero bits anywhere.
  if (compact.find('=') < compact.size() - padding) return bad();
  std::string bytes(compact.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(compact.data()),
                                   static_cast<int>(compact.size()));
  if (size < 0) return bad();
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

std::string EncodeBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends it with a NUL
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

}  // namespace larder
