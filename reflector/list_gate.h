// How many collections are listed at once. A list holds megabytes that are parsed, compressed and
// not yet committed; fifty at once, as a controller begins, hold fifty times as much and are no
// sooner done.
//
// Thread-safe. Must outlive what enters it.
//
//   ListGate gate(4);
//   LARDER_ASSIGN_OR_RETURN(const auto pass, gate.Enter(stop));  // until pass goes away
#pragma once

#include <condition_variable>
#include <memory>
#include <stop_token>

#include "base/error.h"
#include "base/mutex.h"

namespace larder {

class ListGate {
 public:
  // At least one.
  explicit ListGate(size_t at_once) : free_(at_once == 0 ? 1 : at_once) {}

  struct Leave {
    void operator()(ListGate* gate) const { gate->GiveBack(); }
  };
  using Pass = std::unique_ptr<ListGate, Leave>;

  // Waits for its turn; kCancelled when `stop` comes first.
  Result<Pass> Enter(const std::stop_token& stop) {
    MutexLock lock(mutex_);
    if (!changed_.wait(mutex_, stop, [this]() LARDER_REQUIRES(mutex_) { return free_ > 0; })) {
      return MakeError(ErrorCode::kCancelled, "stopped while others were being listed");
    }
    --free_;
    return Pass(this);
  }

 private:
  void GiveBack() {
    MutexLock lock(mutex_);
    ++free_;
    changed_.notify_one();
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  size_t free_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
