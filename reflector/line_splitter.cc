#include "reflector/line_splitter.h"

#include <cstring>

namespace larder {
namespace {

std::string_view WithoutReturn(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

Result<std::optional<std::string_view>> LineSplitter::Next() {
  carry_.Release();
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
      carry_.Append(part);
      return std::nullopt;
    }
    const std::string_view line = WithoutReturn(carry_.Complete(part));
    if (!line.empty()) return line;
    carry_.Release();
  }
  return std::nullopt;
}

}  // namespace larder
