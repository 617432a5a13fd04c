// A work queue as an operator configures it: the fields a configuration file has, and what is made
// of them.
//
//   WorkQueueConfig config{.name = "pods", .max_retries = 5};
//   WorkQueueOptions options = MakeWorkQueueOptions(config, store.get());
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "queue/event_deduplicator.h"
#include "queue/rate_limiter.h"
#include "queue/work_queue.h"

namespace larder {

struct WorkQueueConfig {
  std::string name{};
  // Failures in a row before an item becomes a dead letter. None: it is tried for ever.
  std::optional<uint32_t> max_retries{};

  struct RateLimit {
    std::chrono::nanoseconds base_delay = std::chrono::milliseconds(5);
    std::chrono::nanoseconds max_delay = std::chrono::seconds(1000);
    // Over all items. 0: only the delay per item counts.
    double qps = 10;
    uint32_t burst = 100;
  } rate_limit{};

  struct Deduplication {
    bool enabled = false;
    std::chrono::nanoseconds ttl = std::chrono::minutes(5);
  } deduplication{};

  Durability durability = Durability::kRelaxed;

  // kInvalidArgument names the field.
  Result<void> Validate() const;
};

RateLimiterPtr MakeRateLimiter(const WorkQueueConfig::RateLimit& config,
                               Clock* clock = RealClock());
// Null when deduplication is off.
std::unique_ptr<EventDeduplicator> MakeEventDeduplicator(const WorkQueueConfig& config,
                                                         Clock* clock = RealClock());
// A null store: in memory.
WorkQueueOptions MakeWorkQueueOptions(const WorkQueueConfig& config, Store* store,
                                      Clock* clock = RealClock());

}  // namespace larder
