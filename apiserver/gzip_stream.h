// Gzip, as it streams. Level 1, which is what the real server uses.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>

namespace larder::apiserver {

class GzipStream {
 public:
  GzipStream();
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  // Appends what came out so far to `out`; with `last` the rest too.
  void Add(std::string_view bytes, bool last, std::string& out);

 private:
  z_stream stream_{};
};

}  // namespace larder::apiserver
