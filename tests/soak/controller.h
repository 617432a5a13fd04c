// The process that is soaked: a controller on a store, with informers, handlers, a queue and
// workers.
//
// Its handlers, all of them on pods: one that keeps up, durable; one that is slow, without a name;
// and one, durable, that hangs in a call and never returns. Beside the pods of the cluster
// another informer has the metadata of one namespace's.
#pragma once

#include <cstdint>
#include <string>

namespace larder::soak {

inline constexpr const char* kHangingHandler = "hanging";

struct ControllerOptions {
  std::string url{};
  std::string store{};
  std::string ns{};  // whose pods' metadata the second informer has
  std::string status_file{};
  std::string log{};
  // The handler hangs in its first call. Otherwise it hears the first list and hangs then, so that
  // its name is known and what it misses is kept.
  bool hang_at_once = false;
  // The handler does not hang: it hears what waits for it, and the process ends, with 0, once all
  // of this version is told and done.
  uint64_t settle_at = 0;
};

// What the process says of itself, every so often, in its status file.
struct ControllerStatus {
  uint64_t rows = 0;       // on disk, of the handler that hangs
  uint64_t delivered = 0;  // to the handler that keeps up
  uint64_t reconciled = 0;
  uint64_t relists = 0;
  uint64_t version = 0;  // of the pods' cursor
  // In caches and memtables, which fill up to a bound of their own, and in the heap, they included.
  uint64_t cached_bytes = 0;
  uint64_t heap_bytes = 0;
};
ControllerStatus ReadStatus(const std::string& path);

// Until SIGTERM: then it stops in good order and ends with 0.
int RunController(const ControllerOptions& options);

}  // namespace larder::soak
