// Replays a prepared workload on a store of its own with a candidate's options, and measures.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "base/error.h"
#include "storage/engine_options.h"
#include "tuning/measures.h"
#include "tuning/prepare.h"

namespace larder::tuning {

struct RunOptions {
  std::string folder{};  // where the store is made, and removed again
  EngineOptions engine{};
  size_t memory_limit = size_t{64} << 20;
  double fraction = 1;  // of the steps
  // Stop here when the store takes more, and say so in Measures::broken; 0: no bound.
  uint64_t disk_budget = 0;
  std::stop_token stop{};
};

// `reference` is the workload in larder's default encoding: what amplifications are measured
// against.
Result<Measures> Measure(const Prepared& prepared, const Prepared& reference,
                         const RunOptions& options);

}  // namespace larder::tuning
