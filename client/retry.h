// When to try again. Most often: read, change, write; on a conflict again.
//
// RetryOnConflict calls `attempt` until it returns something else than kConflict, at most `steps`
// times, with a short pause in between, as client-go's retry.RetryOnConflict does with its
// DefaultRetry. `attempt` must read the object anew each time. The last result is returned.
//
//   Result<ObjectPtr> done = RetryOnConflict([&]() -> Result<ObjectPtr> {
//     LARDER_ASSIGN_OR_RETURN(ObjectPtr pod, client.Get(pods, key));
//     Json changed = pod->ToMutable();
//     ...
//     return client.Update(pods, changed);
//   });
#pragma once

#include <chrono>
#include <stop_token>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace larder {

// How long to wait between tries: duration, times factor each time, plus up to jitter * duration.
struct RetryBackoff {
  int steps = 5;
  std::chrono::nanoseconds duration = std::chrono::milliseconds(10);
  double factor = 1.0;
  double jitter = 0.1;

  // The next pause; moves on by one.
  std::chrono::nanoseconds Next();
};

template <typename Attempt>
auto RetryOnConflict(Attempt&& attempt, const std::stop_token& stop = {}, RetryBackoff backoff = {},
                     Clock* clock = RealClock()) -> decltype(attempt()) {
  for (int step = 1;; ++step) {
    auto result = attempt();
    if (result || result.error().code != ErrorCode::kConflict || step >= backoff.steps) {
      return result;
    }
    if (!clock->SleepFor(backoff.Next(), stop)) {
      return MakeError(ErrorCode::kCancelled, "stopped by the caller");
    }
  }
}

// How long to wait before this is tried again because a server asked for it (Retry-After): a minute
// at most, zero where it did not.
std::chrono::milliseconds ServerPause(const Error& error);

}  // namespace larder
