// What a work queue knows about one item: for inspection.
#pragma once

#include <cstdint>
#include <string>

namespace larder {

// What an item waits for. Being in process is beside this: an item in process may be pending again.
enum class PendingPhase : uint8_t {
  kIdle,     // nothing: it is only in process
  kReady,    // a worker
  kDelayed,  // its time
  kParked,   // the next start: it was added after ShutDown
  kDead,     // a person: its retries are used up
};

struct QueueItemInfo {
  std::string item;
  bool in_process = false;
  PendingPhase pending = PendingPhase::kIdle;
  int64_t not_before_ms = 0;  // wall clock; 0 unless delayed
  int32_t priority = 0;
  uint32_t failures = 0;
};

}  // namespace larder
