#include "client/file_util.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace larder {
namespace {

constexpr std::uintmax_t kMaxFileBytes = 10 << 20;

}  // namespace

Result<std::string> ReadSmallFile(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (status.type() == std::filesystem::file_type::not_found) {
    return MakeError(ErrorCode::kNotFound, "{} does not exist", path);
  }
  if (code) return MakeError(ErrorCode::kIo, "{}: {}", path, code.message());
  if (status.type() != std::filesystem::file_type::regular) {
    return MakeError(ErrorCode::kInvalidArgument, "{} is not a file", path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return MakeError(ErrorCode::kIo, "{} cannot be read: {}", path, std::strerror(errno));
  std::string content;
  char block[16384];
  while (file.read(block, sizeof block) || file.gcount() > 0) {
    content.append(block, static_cast<size_t>(file.gcount()));
    if (content.size() > kMaxFileBytes) {
      return MakeError(ErrorCode::kInvalidArgument, "{} is larger than {} bytes", path,
                       kMaxFileBytes);
    }
  }
  if (file.bad()) return MakeError(ErrorCode::kIo, "{} cannot be read", path);
  return content;
}

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
