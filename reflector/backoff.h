// How long to wait after a failure: 0.8 s, doubling up to 30 s, each drawn with full jitter from
// [0, that], and back to 0.8 s once two minutes passed without a failure. Jitter keeps a thousand
// clients of a restarted server apart.
//
//   Backoff backoff(BackoffOptions{}, seed);
//   clock->SleepFor(backoff.Next(clock->Now()), stop);
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

#include "base/clock.h"

namespace larder {

struct BackoffOptions {
  std::chrono::milliseconds initial{800};
  std::chrono::milliseconds maximum{30'000};
  std::chrono::milliseconds reset_after{120'000};  // quiet time that makes it begin again
};

class Backoff {
 public:
  Backoff(const BackoffOptions& options, uint64_t seed) : options_(options), random_(seed) {}

  // The wait for the failure that happens now.
  std::chrono::milliseconds Next(Clock::Steady now) {
    if (!last_ || now - *last_ >= options_.reset_after) ceiling_ = options_.initial;
    std::uniform_int_distribution<int64_t> draw(0, ceiling_.count());
    const std::chrono::milliseconds wait(draw(random_));
    // Quiet time begins when the wait is over.
    last_ = now + wait;
    ceiling_ = std::min(ceiling_ * 2, options_.maximum);
    return wait;
  }

 private:
  const BackoffOptions options_;
  std::mt19937_64 random_;
  std::chrono::milliseconds ceiling_{0};
  std::optional<Clock::Steady> last_;
};

}  // namespace larder
