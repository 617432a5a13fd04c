#include "reflector/frame_splitter.h"

namespace larder {

Result<std::optional<std::string_view>> FrameSplitter::Next() {
  carry_.Release();
  for (; length_bytes_ < kLengthBytes && !piece_.empty(); piece_.remove_prefix(1)) {
    length_ = length_ << 8 | static_cast<uint8_t>(piece_.front());
    ++length_bytes_;
  }
  if (length_bytes_ < kLengthBytes) return std::nullopt;
  if (length_ == 0) return MakeError(ErrorCode::kProtocol, "a watch event of no bytes");
  if (length_ > max_frame_bytes_) {
    return MakeError(ErrorCode::kProtocol,
                     "a watch event has {} bytes, {} are allowed (max_event_bytes)", length_,
                     max_frame_bytes_);
  }
  const std::string_view frame = piece_.substr(0, length_ - carry_.size());
  piece_.remove_prefix(frame.size());
  if (carry_.size() + frame.size() < length_) {
    carry_.Append(frame);
    return std::nullopt;
  }
  length_bytes_ = 0;
  length_ = 0;
  return carry_.Complete(frame);
}

}  // namespace larder
