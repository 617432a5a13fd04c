#include "client/file_util.h"

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

}  // namespace larder
