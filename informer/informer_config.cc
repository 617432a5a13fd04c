#include "informer/informer_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/duration.h"
#include "schema/selector.h"

namespace larder {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr const char* kDurationAllowed =
    "a duration such as \"10m\", \"1h30m\" or \"0\" (units: ns, us, ms, s, m, h)";
constexpr milliseconds kLeastResync{1000};
constexpr milliseconds kMost{std::chrono::hours(24 * 365)};

tl::unexpected<Error> Invalid(std::string_view field, std::string_view value,
                              std::string_view allowed) {
  return MakeError(ErrorCode::kInvalidArgument, "informer configuration: {} is \"{}\"; allowed: {}",
                   field, value, allowed);
}

Result<milliseconds> DurationField(std::string_view field, std::string_view text) {
  const auto parsed = ParsePeriod(text);
  if (!parsed) return Invalid(field, text, kDurationAllowed);
  return std::chrono::duration_cast<milliseconds>(*parsed);
}

Result<int64_t> IntegerField(std::string_view field, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return Invalid(field, text, "a whole number, 0 or more");
  }
  return value;
}

Result<bool> BooleanField(std::string_view field, std::string_view text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return Invalid(field, text, "true or false");
}

// One field of the configuration, read from its text.
struct Field {
  const char* name;         // in JSON, after the name of its object
  const char* environment;  // variable
  Result<void> (*set)(InformerConfig&, std::string_view field, std::string_view text);
};

Result<void> SetResync(InformerConfig& config, std::string_view field, std::string_view text) {
  LARDER_ASSIGN_OR_RETURN(config.resync_period, DurationField(field, text));
  return {};
}
Result<void> SetSizeLimit(InformerConfig& config, std::string_view field, std::string_view text) {
  LARDER_ASSIGN_OR_RETURN(config.cache.size_limit, IntegerField(field, text));
  return {};
}
Result<void> SetTtl(InformerConfig& config, std::string_view field, std::string_view text) {
  LARDER_ASSIGN_OR_RETURN(config.cache.ttl, DurationField(field, text));
  return {};
}
Result<void> SetCompression(InformerConfig& config, std::string_view field, std::string_view text) {
  LARDER_ASSIGN_OR_RETURN(config.cache.compression, BooleanField(field, text));
  return {};
}

const std::array<Field, 7>& Fields() {
  static const std::array<Field, 7> kFields = {{
      {"resyncPeriod", "INFORMER_RESYNC_PERIOD", SetResync},
      {"namespace", "INFORMER_NAMESPACE",
       [](InformerConfig& config, std::string_view, std::string_view text) -> Result<void> {
         config.ns = text;
         return {};
       }},
      {"labelSelector", "INFORMER_LABEL_SELECTOR",
       [](InformerConfig& config, std::string_view, std::string_view text) -> Result<void> {
         config.label_selector = text;
         return {};
       }},
      {"fieldSelector", "INFORMER_FIELD_SELECTOR",
       [](InformerConfig& config, std::string_view, std::string_view text) -> Result<void> {
         config.field_selector = text;
         return {};
       }},
      {"cacheConfig.sizeLimit", "CACHE_SIZE_LIMIT", SetSizeLimit},
      {"cacheConfig.ttl", "CACHE_TTL", SetTtl},
      {"cacheConfig.compression", "ENABLE_COMPRESSION", SetCompression},
  }};
  return kFields;
}

Result<void> SetFromJson(InformerConfig& config, const std::string& name,
                         const nlohmann::json& value) {
  std::string known;
  for (const Field& field : Fields()) {
    known += (known.empty() ? "" : ", ") + std::string(field.name);
    if (name != field.name) continue;
    // Go writes a time.Duration as its nanoseconds.
    const bool duration = name == "resyncPeriod" || name == "cacheConfig.ttl";
    if (value.is_string()) return field.set(config, name, value.get<std::string>());
    if (duration && value.is_number_integer()) return field.set(config, name, value.dump() + "ns");
    if (value.is_number() || value.is_boolean()) return field.set(config, name, value.dump());
    return Invalid(name, value.dump(), "text, a number, or true or false");
  }
  return Invalid(name, value.dump(), "only these fields: " + known);
}

Result<void> CheckNamespace(const std::string& ns) {
  const bool valid = !ns.empty() && ns.size() <= 63 && ns.front() != '-' && ns.back() != '-' &&
                     std::all_of(ns.begin(), ns.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
                     });
  if (valid) return {};
  return Invalid("namespace", ns,
                 "names of at most 63 small letters, digits and '-', with commas between them");
}

}  // namespace

Result<nanoseconds> ParsePeriod(std::string_view text) {
  auto duration = ParseDuration(text);
  if (duration && !text.starts_with('-') && !text.starts_with('+')) return duration;
  return MakeError(ErrorCode::kInvalidArgument, "\"{}\" is not a period; allowed: {}", text,
                   kDurationAllowed);
}

Result<InformerConfig> InformerConfig::FromJson(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return Invalid("the document", std::string(text.substr(0, 40)), "one JSON object");
  }
  InformerConfig config;
  for (const auto& [name, value] : json.items()) {
    if (name != "cacheConfig") {
      LARDER_RETURN_IF_ERROR(SetFromJson(config, name, value));
      continue;
    }
    if (!value.is_object()) return Invalid(name, value.dump(), "a JSON object");
    for (const auto& [inner, inner_value] : value.items()) {
      LARDER_RETURN_IF_ERROR(SetFromJson(config, "cacheConfig." + inner, inner_value));
    }
  }
  LARDER_RETURN_IF_ERROR(config.Validate());
  return config;
}

Result<InformerConfig> InformerConfig::FromEnvironment(const Lookup& lookup) {
  InformerConfig config;
  for (const Field& field : Fields()) {
    std::optional<std::string> value;
    if (lookup) {
      value = lookup(field.environment);
    } else if (const char* found = std::getenv(field.environment); found != nullptr) {
      value = found;
    }
    if (!value) continue;
    LARDER_RETURN_IF_ERROR(field.set(config, field.environment, *value));
  }
  LARDER_RETURN_IF_ERROR(config.Validate());
  return config;
}

Result<void> InformerConfig::Validate() const {
  const auto ms = [](milliseconds value) { return std::to_string(value.count()) + "ms"; };
  if (resync_period.count() != 0 && (resync_period < kLeastResync || resync_period > kMost)) {
    return Invalid("resyncPeriod", ms(resync_period), "0 (no resync), or from 1s to a year");
  }
  if (cache.size_limit < 0) {
    return Invalid("cacheConfig.sizeLimit", std::to_string(cache.size_limit),
                   "0 (no limit by number) or more objects");
  }
  if (cache.ttl.count() < 0 || cache.ttl > kMost) {
    return Invalid("cacheConfig.ttl", ms(cache.ttl), "0 (no expiry), or up to a year");
  }
  for (const std::string& one : Namespaces()) LARDER_RETURN_IF_ERROR(CheckNamespace(one));
  if (const auto labels = LabelSelector::Parse(label_selector); !labels) {
    return Invalid("labelSelector", label_selector, "a label selector: " + labels.error().message);
  }
  if (const auto fields = FieldSelector::Parse(field_selector); !fields) {
    return Invalid("fieldSelector", field_selector, "a field selector: " + fields.error().message);
  }
  return {};
}

std::vector<std::string> InformerConfig::Namespaces() const {
  std::vector<std::string> all;
  if (ns.empty()) return all;
  size_t from = 0;
  for (;;) {
    const size_t comma = std::min(ns.find(',', from), ns.size());
    all.push_back(ns.substr(from, comma - from));
    if (comma == ns.size()) return all;
    from = comma + 1;
  }
}

StoreOptions InformerConfig::ForStore(StoreOptions options) const {
  options.compression = cache.compression;
  return options;
}

HotTierOptions InformerConfig::ForHotTier(HotTierOptions options) const {
  options.max_objects = static_cast<size_t>(cache.size_limit);
  options.ttl = cache.ttl;
  return options;
}

FactoryOptions InformerConfig::ForFactory(FactoryOptions options) const {
  options.namespaces = Namespaces();
  options.label_selector = label_selector;
  options.field_selector = field_selector;
  options.resync_period = resync_period;
  return options;
}

InformerOptions InformerConfig::ForInformer(InformerOptions options) const {
  options.ns = ns;
  options.label_selector = label_selector;
  options.field_selector = field_selector;
  options.resync_period = resync_period;
  return options;
}

}  // namespace larder
