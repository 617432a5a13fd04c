// Gzip, piece by piece and by hand.
//
// libcurl could do it, but on its one thread, in pieces of its own choosing (a paused transfer
// would still unpack all it has received), and it refuses a body of several gzip members, which a
// server sends when it flushes a watch. Here the reader's thread unpacks, each call makes at most
// as much as it is asked for, and members follow each other.
//
//   Inflater inflater;
//   inflater.Feed(compressed);                        // kept until used up
//   Result<size_t> n = inflater.Produce(out, 65536);  // 0: needs more input
//
// ISA-L does the work, in less than half the time of zlib.
//
// Not thread-safe. kProtocol on bytes that are not gzip.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace larder {

class Inflater {
 public:
  Inflater();
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // REQUIRES: the input before was used up (Produce returned 0). `input` must stay valid until
  // then.
  void Feed(std::string_view input);
  // Replaces `out` by the next at most `max_bytes` bytes; returns how many.
  Result<size_t> Produce(std::string& out, size_t max_bytes);
  // True between members: here the body may end.
  bool AtMemberEnd() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace larder
