#include "client/retry.h"

#include <algorithm>
#include <random>

namespace larder {

using std::chrono::milliseconds;

std::chrono::nanoseconds RetryBackoff::Next() {
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  const auto nanos = static_cast<double>(duration.count());
  duration = std::chrono::nanoseconds(static_cast<int64_t>(nanos * factor));
  return std::chrono::nanoseconds(static_cast<int64_t>(nanos * (1.0 + jitter * unit(random))));
}

milliseconds ServerPause(const Error& error) {
  constexpr milliseconds kLongest = std::chrono::minutes(1);
  return std::min(error.retry_after.value_or(milliseconds(0)), kLongest);
}

}  // namespace larder
