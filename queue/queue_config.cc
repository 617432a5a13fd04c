#include "queue/queue_config.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/duration.h"

namespace larder {
namespace {

using std::chrono::nanoseconds;

// Each reads one value, or says what is allowed.
const char* Read(const nlohmann::json& value, std::string& out) {
  if (!value.is_string()) return "text";
  out = value.get<std::string>();
  return nullptr;
}
const char* Read(const nlohmann::json& value, bool& out) {
  if (!value.is_boolean()) return "true or false";
  out = value.get<bool>();
  return nullptr;
}
const char* Read(const nlohmann::json& value, double& out) {
  if (!value.is_number()) return "a number";
  out = value.get<double>();
  return nullptr;
}
const char* Read(const nlohmann::json& value, uint32_t& out) {
  if (!value.is_number_unsigned() || value > std::numeric_limits<uint32_t>::max()) {
    return "a whole number, 0 or more";
  }
  out = value.get<uint32_t>();
  return nullptr;
}
const char* Read(const nlohmann::json& value, nanoseconds& out) {
  // Go writes a time.Duration as its nanoseconds.
  const auto parsed = value.is_string()           ? ParseDuration(value.get<std::string>())
                      : value.is_number_integer() ? ParseDuration(value.dump() + "ns")
                                                  : MakeError(ErrorCode::kInvalidArgument, "");
  if (!parsed) return "a duration such as \"100ms\" or \"5m\", or a number of nanoseconds";
  out = *parsed;
  return nullptr;
}
const char* Read(const nlohmann::json& value, Durability& out) {
  if (value != "relaxed" && value != "sync") return "\"relaxed\" or \"sync\"";
  out = value == "sync" ? Durability::kSync : Durability::kRelaxed;
  return nullptr;
}

struct Field {
  const char* name;  // after the name of its object
  const char* (*read)(WorkQueueConfig& config, const nlohmann::json& value);
};
constexpr std::array<Field, 11> kFields = {{
    {"name", [](WorkQueueConfig& c, const nlohmann::json& v) { return Read(v, c.name); }},
    {"maxRetries",
     [](WorkQueueConfig& c, const nlohmann::json& v) {
       uint32_t retries = 0;
       const char* const allowed = Read(v, retries);
       c.max_retries = retries == 0 ? std::nullopt : std::optional(retries);
       return allowed;
     }},
    {"durability",
     [](WorkQueueConfig& c, const nlohmann::json& v) { return Read(v, c.durability); }},
    {"rateLimiterConfig.baseDelay",
     [](WorkQueueConfig& c, const nlohmann::json& v) { return Read(v, c.rate_limit.base_delay); }},
    {"rateLimiterConfig.maxDelay",
     [](WorkQueueConfig& c, const nlohmann::json& v) { return Read(v, c.rate_limit.max_delay); }},
    {"rateLimiterConfig.qps",
     [](WorkQueueConfig& c, const nlohmann::json& v) { return Read(v, c.rate_limit.qps); }},
    {"rateLimiterConfig.burst",
     [](WorkQueueConfig& c, const nlohmann::json& v) { return Read(v, c.rate_limit.burst); }},
    {"deduplication.enabled",
     [](WorkQueueConfig& c, const nlohmann::json& v) { return Read(v, c.deduplication.enabled); }},
    {"deduplication.ttl",
     [](WorkQueueConfig& c, const nlohmann::json& v) { return Read(v, c.deduplication.ttl); }},
    {"batching.batchSize",
     [](WorkQueueConfig& c, const nlohmann::json& v) { return Read(v, c.batching.batch_size); }},
    {"batching.flushTimeout",
     [](WorkQueueConfig& c, const nlohmann::json& v) { return Read(v, c.batching.flush_timeout); }},
}};

tl::unexpected<Error> Invalid(std::string_view field, std::string_view value,
                              std::string_view allowed) {
  return MakeError(ErrorCode::kInvalidArgument, "work queue configuration: {} is {}; allowed: {}",
                   field, value, allowed);
}

Result<void> SetFromJson(WorkQueueConfig& config, const std::string& name,
                         const nlohmann::json& value) {
  std::string known;
  for (const Field& field : kFields) {
    known += (known.empty() ? "" : ", ") + std::string(field.name);
    if (name != field.name) continue;
    const char* const allowed = field.read(config, value);
    if (allowed) return Invalid(name, value.dump(), allowed);
    return {};
  }
  return Invalid(name, value.dump(), "only these fields: " + known);
}

}  // namespace

Result<WorkQueueConfig> WorkQueueConfig::FromJson(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Invalid("the document", text.substr(0, 40), "one JSON object");
  WorkQueueConfig config;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) {
      LARDER_RETURN_IF_ERROR(SetFromJson(config, name, value));
      continue;
    }
    for (const auto& [inner, inner_value] : value.items()) {
      LARDER_RETURN_IF_ERROR(SetFromJson(config, fmt::format("{}.{}", name, inner), inner_value));
    }
  }
  LARDER_RETURN_IF_ERROR(config.Validate());
  return config;
}

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
  if (batching.batch_size == 0) return invalid("batching.batchSize", "must be above zero");
  if (batching.flush_timeout <= zero) {
    return invalid("batching.flushTimeout", "must be above zero");
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
