#include "client/qps_limiter.h"

#include <algorithm>
#include <cmath>

namespace larder {

QpsLimiter::QpsLimiter(double qps, int burst, Clock* clock)
    : qps_(qps),
      burst_(std::max(1, burst)),
      clock_(clock),
      tokens_(burst_),
      filled_at_(clock->Now()) {}

void QpsLimiter::Refill() {
  const Clock::Steady now = clock_->Now();
  const double seconds = std::chrono::duration<double>(now - filled_at_).count();
  filled_at_ = now;
  tokens_ = std::min(burst_, tokens_ + seconds * qps_);
}

bool QpsLimiter::Wait(const std::stop_token& stop) {
  if (stop.stop_requested()) return false;
  if (qps_ <= 0) return true;
  std::chrono::nanoseconds delay{0};
  {
    MutexLock lock(mutex_);
    Refill();
    tokens_ -= 1;
    if (tokens_ >= 0) return true;
    delay = std::chrono::nanoseconds(static_cast<int64_t>(std::ceil(-tokens_ / qps_ * 1e9)));
  }
  if (clock_->SleepFor(delay, stop)) return true;
  MutexLock lock(mutex_);
  tokens_ += 1;
  return false;
}

bool QpsLimiter::TryAccept() {
  if (qps_ <= 0) return true;
  MutexLock lock(mutex_);
  Refill();
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

}  // namespace larder
