#include "queue/rate_limiter.h"

#include <algorithm>
#include <cmath>

namespace larder {

using namespace std::chrono_literals;

uint32_t FailureCounts::Increment(std::string_view item) {
  MutexLock lock(mutex_);
  auto found = counts_.find(item);
  if (found == counts_.end()) found = counts_.emplace(std::string(item), 0).first;
  return ++found->second;
}

void FailureCounts::Erase(std::string_view item) {
  MutexLock lock(mutex_);
  // Forget is called after every success, and most items never failed.
  if (counts_.empty()) return;
  if (auto found = counts_.find(item); found != counts_.end()) counts_.erase(found);
}

uint32_t FailureCounts::Get(std::string_view item) const {
  MutexLock lock(mutex_);
  auto found = counts_.find(item);
  return found == counts_.end() ? 0 : found->second;
}

void FailureCounts::Set(std::string_view item, uint32_t failures) {
  MutexLock lock(mutex_);
  counts_.insert_or_assign(std::string(item), failures);
}

RateLimiter::Duration ItemExponentialRateLimiter::When(std::string_view item) {
  const uint32_t doublings = failures_.Increment(item) - 1;
  // In floating point, because base * 2^doublings leaves 64 bits long before it stops being asked
  // for.
  const double delay = std::ldexp(static_cast<double>(base_delay_.count()),
                                  static_cast<int>(std::min<uint32_t>(doublings, 1000)));
  if (delay >= static_cast<double>(max_delay_.count())) return max_delay_;
  return Duration(static_cast<Duration::rep>(delay));
}

RateLimiter::Duration ItemFastSlowRateLimiter::When(std::string_view item) {
  return failures_.Increment(item) <= max_fast_attempts_ ? fast_ : slow_;
}

BucketRateLimiter::BucketRateLimiter(double per_second, uint32_t burst, Clock* clock)
    : per_second_(per_second),
      burst_(burst),
      clock_(clock),
      tokens_(burst_),
      updated_(clock->Now()) {}

RateLimiter::Duration BucketRateLimiter::When(std::string_view) {
  const Clock::Steady now = clock_->Now();
  MutexLock lock(mutex_);
  if (now > updated_) {
    const double elapsed = std::chrono::duration<double>(now - updated_).count();
    tokens_ = std::min(burst_, tokens_ + elapsed * per_second_);
    updated_ = now;
  }
  tokens_ -= 1;
  if (tokens_ >= 0) return Duration(0);
  const double nanos = -tokens_ / per_second_ * 1e9;
  if (nanos >= static_cast<double>(Duration::max().count())) return Duration::max();
  return Duration(static_cast<Duration::rep>(nanos));
}

RateLimiter::Duration MaxOfRateLimiter::When(std::string_view item) {
  Duration longest(0);
  for (const RateLimiterPtr& limiter : limiters_) longest = std::max(longest, limiter->When(item));
  return longest;
}

void MaxOfRateLimiter::Forget(std::string_view item) {
  for (const RateLimiterPtr& limiter : limiters_) limiter->Forget(item);
}

uint32_t MaxOfRateLimiter::NumRequeues(std::string_view item) const {
  uint32_t most = 0;
  for (const RateLimiterPtr& limiter : limiters_) {
    most = std::max(most, limiter->NumRequeues(item));
  }
  return most;
}

void MaxOfRateLimiter::Restore(std::string_view item, uint32_t failures) {
  for (const RateLimiterPtr& limiter : limiters_) limiter->Restore(item, failures);
}

RateLimiter::Duration WithMaxWaitRateLimiter::When(std::string_view item) {
  return std::min(limiter_->When(item), max_wait_);
}

RateLimiterPtr DefaultControllerRateLimiter(Clock* clock) {
  return MakeMaxOf(std::make_unique<ItemExponentialRateLimiter>(5ms, 1000s),
                   std::make_unique<BucketRateLimiter>(10, 100, clock));
}

}  // namespace larder
