#include "apiserver/gzip_stream.h"

#include "base/error.h"

namespace larder::apiserver {

GzipStream::GzipStream() {
  constexpr int kGzip = 16;
  LARDER_CHECK(deflateInit2(&stream_, 1, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) ==
               Z_OK);
}

GzipStream::~GzipStream() { deflateEnd(&stream_); }

void GzipStream::Add(std::string_view bytes, bool last, std::string& out) {
  // zlib's interface predates const.
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream_.avail_in = static_cast<uInt>(bytes.size());
  do {
    const size_t before = out.size();
    constexpr size_t kStep = 64 * 1024;
    out.resize(before + kStep);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream_.avail_out = kStep;
    deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
    out.resize(before + kStep - stream_.avail_out);
  } while (stream_.avail_out == 0);
}

}  // namespace larder::apiserver
