// From figures to advice: which candidates are not beaten in everything, which one serves an aim
// best, and why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuning/search.h"

namespace larder::tuning {

struct RecommendOptions {
  // How many times worse than the current options any other measure may get.
  double tolerance = 1.2;
};

struct Recommendation {
  Aim aim = Aim::kBalanced;
  const Measured* chosen = nullptr;  // the current options where nothing is better beyond the noise
  bool keep_current = false;
  std::string reason;
  // A second one that is as good within the noise; empty: none.
  std::string as_good;
  double score = 1;  // ScoreOf against the current options
};

// Against the finalists. Never one that breaks a guard rail.
std::vector<Recommendation> Recommend(const SearchOutcome& outcome,
                                      const RecommendOptions& options = {});

// By how many percent this one would have to get better in all axes at once to be on the front; 0:
// it is. There are those that no other finalist beats: in no axis worse beyond the noise, in one
// clearly better. The axes are write, space, restart, processor, gets and memory.
double PercentBehindFront(const SearchOutcome& outcome, const Measured& entry);

// The guard rail that a candidate breaks, in words; empty: none. Durability: no option of the list
// can break it but a longer sync interval.
std::string BrokenRail(const Measures& measures, const Candidate& candidate, size_t memory_limit,
                       uint64_t disk_budget);

std::map<std::string, double> NoiseOf(const std::vector<Measured>& measured);

// One recommendation beside another set of options, measure by measure.
struct Comparison {
  double aim_factor = 1;    // how many times better in the aim's own measure
  double worst_factor = 1;  // how many times worse in the worst of the others
  std::string worst;        // which that is
};
Comparison Compare(Aim aim, const Measures& chosen, const Measures& other);

}  // namespace larder::tuning
