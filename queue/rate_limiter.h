// How long a failed item waits before it is tried again.
//
// A limiter answers When(item): the delay of this retry. It counts the item's failures until
// Forget(item). Limiters compose (MaxOf, WithMaxWait), and a user adds one by deriving from
// RateLimiter. Failure counts outlive the process: the work queue stores them with the item and
// hands them back through Restore when it is opened again.
//
// Thread-safe, all of them; a user's own must be, too. Nothing here blocks or fails.
//
//   auto limiter = MakeMaxOf(std::make_unique<ItemExponentialRateLimiter>(5ms, 1000s),
//                            std::make_unique<BucketRateLimiter>(10, 100));
//   limiter->When("default/a");   // 5ms, then 10ms, 20ms, ...
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"

namespace larder {

class RateLimiter {
 public:
  using Duration = std::chrono::nanoseconds;

  virtual ~RateLimiter() = default;

  // Counts one failure of `item` and says how long it should wait.
  virtual Duration When(std::string_view item) = 0;
  // The item is finished, well or not: stop counting.
  virtual void Forget(std::string_view item) = 0;
  // Failures counted since the last Forget.
  virtual uint32_t NumRequeues(std::string_view item) const = 0;
  // Takes over a count from before a restart. A limiter that counts nothing per item ignores it.
  virtual void Restore(std::string_view item, uint32_t failures) {
    static_cast<void>(item);
    static_cast<void>(failures);
  }
};

using RateLimiterPtr = std::unique_ptr<RateLimiter>;

// Failures per item: what the limiters per item have in common.
class FailureCounts {
 public:
  // Returns the count after this failure.
  uint32_t Increment(std::string_view item);
  void Erase(std::string_view item);
  uint32_t Get(std::string_view item) const;
  void Set(std::string_view item, uint32_t failures);

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  mutable Mutex mutex_;
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> counts_
      LARDER_GUARDED_BY(mutex_);
};

// base, 2 base, 4 base, ... up to max.
class ItemExponentialRateLimiter final : public RateLimiter {
 public:
  ItemExponentialRateLimiter(Duration base_delay, Duration max_delay)
      : base_delay_(base_delay), max_delay_(max_delay) {}

  Duration When(std::string_view item) override;
  void Forget(std::string_view item) override { failures_.Erase(item); }
  uint32_t NumRequeues(std::string_view item) const override { return failures_.Get(item); }
  void Restore(std::string_view item, uint32_t failures) override { failures_.Set(item, failures); }

 private:
  const Duration base_delay_;
  const Duration max_delay_;
  FailureCounts failures_;
};

// `fast` for the first max_fast_attempts failures, `slow` from then on.
class ItemFastSlowRateLimiter final : public RateLimiter {
 public:
  ItemFastSlowRateLimiter(Duration fast, Duration slow, uint32_t max_fast_attempts)
      : fast_(fast), slow_(slow), max_fast_attempts_(max_fast_attempts) {}

  Duration When(std::string_view item) override;
  void Forget(std::string_view item) override { failures_.Erase(item); }
  uint32_t NumRequeues(std::string_view item) const override { return failures_.Get(item); }
  void Restore(std::string_view item, uint32_t failures) override { failures_.Set(item, failures); }

 private:
  const Duration fast_;
  const Duration slow_;
  const uint32_t max_fast_attempts_;
  FailureCounts failures_;
};

// A token bucket for all items together: `per_second` retries, `burst` of them at once. A retry
// that finds the bucket empty books the next free token and waits for it.
class BucketRateLimiter final : public RateLimiter {
 public:
  BucketRateLimiter(double per_second, uint32_t burst, Clock* clock = RealClock());

  Duration When(std::string_view item) override;
  void Forget(std::string_view) override {}
  uint32_t NumRequeues(std::string_view) const override { return 0; }

 private:
  const double per_second_;
  const double burst_;
  Clock* const clock_;
  Mutex mutex_;
  double tokens_ LARDER_GUARDED_BY(mutex_);  // below zero: booked ahead
  Clock::Steady updated_ LARDER_GUARDED_BY(mutex_);
};

// The longest delay that any of its limiters asks for.
class MaxOfRateLimiter final : public RateLimiter {
 public:
  explicit MaxOfRateLimiter(std::vector<RateLimiterPtr> limiters)
      : limiters_(std::move(limiters)) {}

  Duration When(std::string_view item) override;
  void Forget(std::string_view item) override;
  uint32_t NumRequeues(std::string_view item) const override;
  void Restore(std::string_view item, uint32_t failures) override;

 private:
  const std::vector<RateLimiterPtr> limiters_;
};

// The delay of another limiter, cut at `max_wait`.
class WithMaxWaitRateLimiter final : public RateLimiter {
 public:
  WithMaxWaitRateLimiter(RateLimiterPtr limiter, Duration max_wait)
      : limiter_(std::move(limiter)), max_wait_(max_wait) {}

  Duration When(std::string_view item) override;
  void Forget(std::string_view item) override { limiter_->Forget(item); }
  uint32_t NumRequeues(std::string_view item) const override { return limiter_->NumRequeues(item); }
  void Restore(std::string_view item, uint32_t failures) override {
    limiter_->Restore(item, failures);
  }

 private:
  const RateLimiterPtr limiter_;
  const Duration max_wait_;
};

template <typename... Limiters>
RateLimiterPtr MakeMaxOf(Limiters... limiters) {
  std::vector<RateLimiterPtr> all;
  (all.push_back(std::move(limiters)), ...);
  return std::make_unique<MaxOfRateLimiter>(std::move(all));
}

// client-go's default for controllers: 5 ms doubling to 1000 s per item; 10 a second, burst 100,
// over all items.
RateLimiterPtr DefaultControllerRateLimiter(Clock* clock = RealClock());

}  // namespace larder
