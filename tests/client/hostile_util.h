// What tests of hostile servers need: gzip made by zlib, and a look at this process's memory.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <fstream>
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

// Sanitizers keep memory of their own beside ours.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr size_t kSanitizerSlack = size_t{512} << 20;
#else
constexpr size_t kSanitizerSlack = 0;
#endif

inline size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

}  // namespace larder::testing
