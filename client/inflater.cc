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
  // Read by itself: isal_inflate forgets in the middle of a header which of its fields are to come,
  // and goes on with what happens to be on the stack.
  isal_gzip_header header;
  bool header_read = false;
  bool member_ended = true;  // nothing of a member was read yet, or it was read to its end
};

Inflater::Inflater() : state_(std::make_unique<State>()) {
  isal_inflate_init(&state_->stream);
  state_->stream.crc_flag = ISAL_GZIP_NO_HDR_VER;  // with checksum
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
      isal_gzip_header_init(&state_->header);
      state_->header_read = state_->member_ended = false;
    }
    int code = ISAL_DECOMP_OK;
    if (!state_->header_read) {
      code = isal_read_gzip_header(&stream, &state_->header);
      if (code == ISAL_END_INPUT) break;
      state_->header_read = code == ISAL_DECOMP_OK;
    }
    if (code == ISAL_DECOMP_OK) code = isal_inflate(&stream);
    if (code < 0) {
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
