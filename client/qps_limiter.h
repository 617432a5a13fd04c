// A token bucket for requests: `qps` a second on average, `burst` at once, as client-go's
// flowcontrol limiter.
//
// Thread-safe. Whoever comes is given a place in line at once, so that waiters go in the order they
// came.
//
//   QpsLimiter limiter(50, 100, RealClock());
//   if (!limiter.Wait(stop)) return cancelled;
#pragma once

#include <stop_token>

#include "base/clock.h"
#include "base/mutex.h"

namespace larder {

class QpsLimiter {
 public:
  // qps <= 0: no limit. A burst below 1 counts as 1.
  QpsLimiter(double qps, int burst, Clock* clock);

  // Waits for its turn; false when a stop was requested first (the turn is given back).
  bool Wait(const std::stop_token& stop);
  // Takes a token if there is one now.
  bool TryAccept();

 private:
  void Refill() LARDER_REQUIRES(mutex_);

  const double qps_;
  const double burst_;
  Clock* const clock_;
  Mutex mutex_;
  double tokens_ LARDER_GUARDED_BY(mutex_);  // below zero: so many are promised to waiters
  Clock::Steady filled_at_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
