#include "client/inflater.h"

#define ZLIB_CONST
#include <zlib.h>

namespace larder {

struct Inflater::State {
  z_stream stream{};
  bool ready = false;        // zlib accepted its set-up
  bool member_ended = true;  // nothing of a member was read yet, or it was read to its end
};

Inflater::Inflater() : state_(std::make_unique<State>()) {
  // 16: gzip only, not zlib's own wrapping.
  state_->ready = inflateInit2(&state_->stream, 16 + MAX_WBITS) == Z_OK;
}

Inflater::~Inflater() {
  if (state_->ready) inflateEnd(&state_->stream);
}

void Inflater::Feed(std::string_view input) {
  state_->stream.next_in = reinterpret_cast<const Bytef*>(input.data());
  state_->stream.avail_in = static_cast<uInt>(input.size());
}

Result<size_t> Inflater::Produce(std::string& out, size_t max_bytes) {
  if (!state_->ready) return MakeError(ErrorCode::kInternal, "zlib did not start: out of memory");
  z_stream& stream = state_->stream;
  out.resize(max_bytes);
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(max_bytes);
  while (stream.avail_out > 0) {
    if (state_->member_ended) {
      if (stream.avail_in == 0) break;
      inflateReset(&stream);
      state_->member_ended = false;
    }
    const int code = inflate(&stream, Z_SYNC_FLUSH);
    if (code == Z_STREAM_END) {
      state_->member_ended = true;
      continue;
    }
    if (code == Z_BUF_ERROR) break;  // no more input
    if (code != Z_OK) {
      return MakeError(ErrorCode::kProtocol, "the answer's gzip is broken: {}",
                       stream.msg != nullptr ? stream.msg : "no reason given");
    }
    if (stream.avail_in == 0 && stream.avail_out > 0) break;
  }
  out.resize(max_bytes - stream.avail_out);
  return out.size();
}

bool Inflater::AtMemberEnd() const { return state_->member_ended; }

}  // namespace larder
