// A work queue as an operator configures it: the fields a configuration file has, and what is made
// of them.
//
//   LARDER_ASSIGN_OR_RETURN(auto config, WorkQueueConfig::FromJson(text));
//   WorkQueueOptions options = MakeWorkQueueOptions(config, store.get());
//
// As JSON (durations as text, "1m30s", or as a number of nanoseconds; only the name is required):
//   {"name": "pods", "maxRetries": 5, "durability": "relaxed",
//    "rateLimiterConfig": {"baseDelay": "5ms", "maxDelay": "1000s", "qps": 10, "burst": 100},
//    "deduplication": {"enabled": true, "ttl": "5m"},
//    "batching": {"batchSize": 100, "flushTimeout": "100ms"}}
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

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

  // Of the events on their way to the queue, or to a function: a BatchingHandler made of this
  // (informer/batching_handler.h) does it, not the queue.
  struct Deduplication {
    bool enabled = false;
    // How long an object is remembered after its last new event.
    std::chrono::nanoseconds ttl = std::chrono::minutes(5);
  } deduplication{};
  struct Batching {
    uint32_t batch_size = 100;
    // How long an event may wait for others.
    std::chrono::nanoseconds flush_timeout = std::chrono::milliseconds(100);
  } batching{};

  Durability durability = Durability::kRelaxed;

  // maxRetries 0: it is tried for ever. kInvalidArgument names the field, its value and what is
  // allowed.
  static Result<WorkQueueConfig> FromJson(std::string_view json);
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
