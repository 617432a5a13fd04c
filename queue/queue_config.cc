#include "queue/queue_config.h"

namespace larder {

Result<void> WorkQueueConfig::Validate() const {
  const auto invalid = [this](const char* field, const char* rule) {
    return MakeError(ErrorCode::kInvalidArgument, "work queue \"{}\": {} {}", name, field, rule);
  };
  constexpr std::chrono::nanoseconds zero{0};
  if (name.empty()) return invalid("name", "must not be empty");
  if (rate_limit.base_delay <= zero) return invalid("baseDelay", "must be above zero");
  if (rate_limit.max_delay < rate_limit.base_delay) {
    return invalid("maxDelay", "must not be below baseDelay");
  }
  if (!(rate_limit.qps >= 0)) return invalid("qps", "must not be negative");
  if (rate_limit.qps > 0 && rate_limit.burst == 0) return invalid("burst", "must be above zero");
  if (deduplication.enabled && deduplication.ttl <= zero) {
    return invalid("deduplication.ttl", "must be above zero");
  }
  return {};
}

RateLimiterPtr MakeRateLimiter(const WorkQueueConfig::RateLimit& config, Clock* clock) {
  auto per_item = std::make_unique<ItemExponentialRateLimiter>(config.base_delay, config.max_delay);
  if (config.qps <= 0) return per_item;
  return MakeMaxOf(std::move(per_item),
                   std::make_unique<BucketRateLimiter>(config.qps, config.burst, clock));
}

std::unique_ptr<EventDeduplicator> MakeEventDeduplicator(const WorkQueueConfig& config,
                                                         Clock* clock) {
  if (!config.deduplication.enabled) return nullptr;
  EventDeduplicatorOptions options;
  options.ttl = config.deduplication.ttl;
  options.clock = clock;
  return std::make_unique<EventDeduplicator>(options);
}

WorkQueueOptions MakeWorkQueueOptions(const WorkQueueConfig& config, Store* store, Clock* clock) {
  WorkQueueOptions options;
  options.name = config.name;
  options.store = store;
  options.durability = config.durability;
  options.max_retries = config.max_retries;
  options.rate_limiter = MakeRateLimiter(config.rate_limit, clock);
  options.clock = clock;
  return options;
}

}  // namespace larder
