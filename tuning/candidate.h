// The options that are tried: what the store has now, RocksDB as it comes, and changes to the
// former, one at a time; the search puts together those that did well.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "storage/engine_options.h"

namespace larder::tuning {

struct Candidate {
  std::string name;  // "universal", "log 16M + ribbon"
  // What it changes of the current options.
  EngineOptions change;
  // With the current ones: what is run.
  EngineOptions engine;
  // Measured to compare with, in every round, and never recommended for itself.
  bool baseline = false;
  unsigned changes = 0;  // how many single changes it is made of
};

inline constexpr const char* kCurrentName = "current";
inline constexpr const char* kLarderName = "larder-defaults";
inline constexpr const char* kRocksDbName = "rocksdb-defaults";
inline constexpr const char* kRocksDbValuesName = "rocksdb-defaults+values";

// All single changes that apply; `current` first, then the baselines.
std::vector<Candidate> MakeMatrix(const EngineOptions& current);
// The same with only the first few: for a quick look and for tests.
std::vector<Candidate> MakeSmallMatrix(const EngineOptions& current);

// Two candidates in one; kInvalidArgument where they change the same option.
Result<Candidate> Combine(const EngineOptions& current, const Candidate& a, const Candidate& b);

}  // namespace larder::tuning
