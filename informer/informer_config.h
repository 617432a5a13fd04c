// Informers as an operator configures them: the fields a configuration file or the environment has,
// and what is made of them.
//
//   LARDER_ASSIGN_OR_RETURN(auto config, InformerConfig::FromJson(text));
//   LARDER_ASSIGN_OR_RETURN(auto store, Store::Open(config.ForStore({.path = path})));
//   HotTier hot(config.ForHotTier());
//   SharedInformerFactory factory(context, config.ForFactory());
//
// As JSON (durations as text, "1h30m", or as a number of nanoseconds):
//   {"resyncPeriod": "10m", "namespace": "a,b", "labelSelector": "app=web", "fieldSelector": "",
//    "cacheConfig": {"sizeLimit": 10000, "ttl": "1h", "compression": true}}
// From the environment: INFORMER_RESYNC_PERIOD, INFORMER_NAMESPACE, INFORMER_LABEL_SELECTOR,
// INFORMER_FIELD_SELECTOR, CACHE_SIZE_LIMIT, CACHE_TTL, ENABLE_COMPRESSION.
//
// Every error is kInvalidArgument and names the field, its value and what is allowed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "indexer/hot_tier.h"
#include "informer/factory.h"
#include "storage/options.h"

namespace larder {

struct InformerConfig {
  // 0: no resync. Otherwise at least a second, so that a forgotten unit does not resync without
  // end.
  std::chrono::milliseconds resync_period{0};

  struct Cache {
    // Objects held decoded in memory; the rest is one read away on disk. 0: only memory limits it.
    int64_t size_limit = 0;
    // After this long unused objects leave the memory (never the disk). 0: they stay.
    std::chrono::milliseconds ttl{0};
    bool compression = true;
  } cache{};

  // One, several with commas between them, or empty: all.
  std::string ns{};
  std::string label_selector{};
  std::string field_selector{};

  static Result<InformerConfig> FromJson(std::string_view json);
  // `lookup` gives an environment variable's value. Null: the process's own.
  using Lookup = std::function<std::optional<std::string>(const std::string& name)>;
  static Result<InformerConfig> FromEnvironment(const Lookup& lookup = {});

  Result<void> Validate() const;

  // What it says, put into options that say the rest. REQUIRES: Validate() succeeded.
  StoreOptions ForStore(StoreOptions options = {}) const;
  HotTierOptions ForHotTier(HotTierOptions options = {}) const;
  FactoryOptions ForFactory(FactoryOptions options = {}) const;
  // For an informer without a factory. REQUIRES: at most one namespace.
  InformerOptions ForInformer(InformerOptions options) const;
  std::vector<std::string> Namespaces() const;
};

// A duration (base/duration.h) without a sign: "1h30m", "600s", "1.5s", "250ms", "0".
// kInvalidArgument.
Result<std::chrono::nanoseconds> ParsePeriod(std::string_view text);

}  // namespace larder
