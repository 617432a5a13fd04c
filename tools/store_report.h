// Figures of a store in the form that stats and doctor share.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "schema/object.h"
#include "storage/maintenance.h"

namespace larder::tools {

struct QueueSummary {
  std::string name;
  uint64_t ready = 0;
  uint64_t delayed = 0;
  uint64_t dead = 0;
  uint64_t failing = 0;   // not dead, but failed before
  int64_t oldest_ms = 0;  // when the one that waits longest was added; 0: none waits
  // Rows that cannot be read, and the first of them: "shop/cart-1: ...".
  uint64_t damaged = 0;
  std::string first_damaged{};
};
// Every queue of the store. An item that is stored twice counts once, by its last copy.
Result<std::vector<QueueSummary>> SummariseQueues(const Store& store);

// `counted`: objects and bytes were; otherwise they are null.
Json StatsToJson(const StoreStats& stats, const std::vector<QueueSummary>& queues,
                 bool counted = true);
// A time of scripts: null for 0, which is no time.
Json TimeToJson(int64_t ms);

}  // namespace larder::tools
