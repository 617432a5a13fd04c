// A gzip body, made by zlib.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace larder::testing {

// One member of a gzip body; `name` stands in its header.
inline std::string Gzip(std::string_view text, const char* name = nullptr) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  gz_header header{};
  if (name != nullptr) {
    header.name = reinterpret_cast<Bytef*>(const_cast<char*>(name));
    deflateSetHeader(&stream, &header);
  }
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace larder::testing
