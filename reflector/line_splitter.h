// Cuts a watch stream into its lines, however the bytes arrive.
//
// A line that lies within one piece is handed out in place; one that spans pieces is put together
// in a buffer, which never grows past `max_line_bytes`: a longer line is kProtocol, and the stream
// must be dropped. Empty lines are skipped, a carriage return before the newline is not part of the
// line.
//
//   splitter.Feed(piece);
//   while (auto line = splitter.Next(); line && *line) Use(**line);
//
// Not thread-safe. A line is valid until the next call.
#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "reflector/carry.h"

namespace larder {

class LineSplitter {
 public:
  explicit LineSplitter(size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  // Takes the next piece. It must stay valid until Next() returned nullopt, which must happen
  // before the next Feed.
  void Feed(std::string_view piece) { piece_ = piece; }
  // The next whole line; nullopt when more bytes are needed.
  Result<std::optional<std::string_view>> Next();
  // Is there a line that began and did not end?
  bool InLine() const { return carry_.size() != 0; }

 private:
  const size_t max_line_bytes_;
  std::string_view piece_;
  Carry carry_;
};

}  // namespace larder
