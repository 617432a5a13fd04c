// Cuts a watch stream in protobuf into its frames, however the bytes arrive: four bytes of length,
// the most significant first, then as many bytes of event.
//
// A frame that lies within one piece is handed out in place; one that spans pieces is put together
// in a buffer that grows with what arrives, not with what a length announces. A frame of more than
// `max_frame_bytes` and one of none are kProtocol, and the stream must be dropped.
//
//   splitter.Feed(piece);
//   while (auto frame = splitter.Next(); frame && *frame) Use(**frame);
//
// Not thread-safe. A frame is valid until the next call.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "reflector/carry.h"

namespace larder {

class FrameSplitter {
 public:
  explicit FrameSplitter(size_t max_frame_bytes) : max_frame_bytes_(max_frame_bytes) {}

  // Takes the next piece. It must stay valid until Next() returned nullopt, which must happen
  // before the next Feed.
  void Feed(std::string_view piece) { piece_ = piece; }
  // The next whole frame; nullopt when more bytes are needed.
  Result<std::optional<std::string_view>> Next();
  // Is there a frame that began and did not end?
  bool InFrame() const { return length_bytes_ != 0; }
  // Did Next() refuse a frame for its size? Text in place of a length would be a larger one.
  bool TooLarge() const { return length_ > max_frame_bytes_ && length_ < kLeastText; }

 private:
  static constexpr size_t kLengthBytes = 4;
  static constexpr uint32_t kLeastText = uint32_t{' '} << 24;

  const size_t max_frame_bytes_;
  std::string_view piece_;
  size_t length_bytes_ = 0;  // how many bytes of the length are there
  uint32_t length_ = 0;
  Carry carry_;
};

}  // namespace larder
