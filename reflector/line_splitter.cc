#include "reflector/line_splitter.h"

#include <cstring>

#include "reflector/buffer_limits.h"

namespace larder {
namespace {

std::string_view WithoutReturn(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

Result<std::optional<std::string_view>> LineSplitter::Next() {
  if (carry_given_) {
    carry_given_ = false;
    carry_.clear();
    if (carry_.capacity() > kKeptBytes) carry_.shrink_to_fit();
  }
  while (!piece_.empty()) {
    const void* newline = std::memchr(piece_.data(), '\n', piece_.size());
    const size_t length =
        newline ? static_cast<size_t>(static_cast<const char*>(newline) - piece_.data())
                : piece_.size();
    if (length > max_line_bytes_ - carry_.size()) {
      return MakeError(ErrorCode::kProtocol,
                       "a watch event is longer than {} bytes (max_event_bytes)", max_line_bytes_);
    }
    const std::string_view part = piece_.substr(0, length);
    piece_.remove_prefix(newline ? length + 1 : length);
    if (!newline) {
      carry_.append(part);
      return std::nullopt;
    }
    std::string_view line = part;
    if (!carry_.empty()) {
      carry_.append(part);
      carry_given_ = true;
      line = carry_;
    }
    line = WithoutReturn(line);
    if (!line.empty()) return line;
    if (carry_given_) {
      carry_given_ = false;
      carry_.clear();
    }
  }
  return std::nullopt;
}

}  // namespace larder
