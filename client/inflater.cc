#include "client/inflater.h"

#include <isa-l/igzip_lib.h>

namespace larder {
namespace {

std::string_view Reason(int code) {
  switch (code) {
    case ISAL_INVALID_WRAPPER:
      return "its header is not gzip's";
    case ISAL_UNSUPPORTED_METHOD:
      return "its method is not deflate";
    case ISAL_INCORRECT_CHECKSUM:
      return "its checksum is wrong";
    default:
      return "its data is damaged";
  }
}

}  // namespace

struct Inflater::State {
  inflate_state stream;
  bool member_ended = true;  // nothing of a member was read yet, or it was read to its end
};

Inflater::Inflater() : state_(std::make_unique<State>()) {
  isal_inflate_init(&state_->stream);
  state_->stream.crc_flag = ISAL_GZIP;  // with header and checksum
}

Inflater::~Inflater() = default;

void Inflater::Feed(std::string_view input) {
  // The library only reads from it; its header knows no const.
  state_->stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(input.data()));
  state_->stream.avail_in = static_cast<uint32_t>(input.size());
}

Result<size_t> Inflater::Produce(std::string& out, size_t max_bytes) {
  inflate_state& stream = state_->stream;
  out.resize(max_bytes);
  stream.next_out = reinterpret_cast<uint8_t*>(out.data());
  stream.avail_out = static_cast<uint32_t>(max_bytes);
  while (stream.avail_out > 0) {
    if (state_->member_ended) {
      if (stream.avail_in == 0) break;
      isal_inflate_reset(&stream);
      state_->member_ended = false;
    }
    if (const int code = isal_inflate(&stream); code < 0) {
      return MakeError(ErrorCode::kProtocol, "the answer's gzip is broken: {}", Reason(code));
    }
    state_->member_ended = stream.block_state == ISAL_BLOCK_FINISH;
    if (stream.avail_in == 0) break;  // and all that it makes was made
  }
  out.resize(max_bytes - stream.avail_out);
  return out.size();
}

bool Inflater::AtMemberEnd() const { return state_->member_ended; }

}  // namespace larder
