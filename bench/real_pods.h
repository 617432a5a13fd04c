// Generated pods in a server that is not ours: the same ones that the simulator makes for itself.
#pragma once

#include <cstdint>
#include <string>

#include "client/transport.h"

namespace larder::bench {

// Creates the first `count` pods of seed 1, and their namespaces; says so on stderr. Nothing where
// so many are there already.
void LoadPods(HttpTransport& transport, uint64_t count);

// What changes a few pods at a known time, so that others can wait for it and say how late it came.
inline constexpr const char* kWrittenAt = "bench.larder.dev/at";  // nanoseconds since 1970
inline constexpr const char* kMark = "bench.larder.dev/mark";

struct PodWrites {
  uint64_t count = 0;  // pods 0 to count - 1, one patch each, again from 0 past `pods`
  uint64_t pods = 1;
  double rate = 0;     // a second; 0: as fast as it goes
  std::string mark{};  // what the last patch, to pod 0, carries as kMark
  unsigned threads = 16;
};
void WritePods(HttpTransport& transport, const PodWrites& writes);

}  // namespace larder::bench
