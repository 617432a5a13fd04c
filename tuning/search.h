// Finds good options in minutes: successive halving. Every candidate replays a short part of the
// workload; the better ones, and what they make together, a longer part; the best all of it,
// several times, so that the spread of the figures is known.
//
// Deterministic but for the figures themselves. Everything measured goes to a results file at once
// (tuning/results.h), and a search that was interrupted goes on from it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "tuning/candidate.h"
#include "tuning/measures.h"
#include "tuning/results.h"
#include "tuning/source.h"

namespace larder::tuning {

enum class Aim { kWear, kSize, kRestart, kBalanced };
inline constexpr std::array<Aim, 4> kAims = {Aim::kWear, Aim::kSize, Aim::kRestart, Aim::kBalanced};
std::string_view ToString(Aim aim);  // "wear", "size", "restart", "balanced"
Result<Aim> AimFromString(std::string_view text);

// What an aim wants small, against the current options: a ratio of one measure, or for kBalanced
// the geometric mean of all.
double ScoreOf(Aim aim, const Measures& measures, const Measures& current);

struct SearchOptions {
  EngineOptions current{};
  std::vector<Candidate> matrix{};
  size_t memory_limit = size_t{64} << 20;
  uint64_t disk_budget = 0;
  // The share of the workload that each round replays; the last one is repeated.
  std::vector<double> rounds = {0.25, 0.5, 1};
  unsigned repeats = 2;
  std::string folder{};   // for stores and traces; emptied at the end
  std::string results{};  // file; empty: none
  // What is being done, and how far all of it is, 0 to 1.
  std::function<void(const std::string& what, double done)> progress{};
  std::stop_token stop{};
};

struct Measured {
  Candidate candidate;
  unsigned round = 0;  // the last one that it was in
  std::vector<Measures> runs;
  Measures mean;
  std::string failure;  // a guard rail that it broke
};

struct SearchOutcome {
  ResultsHeader header;
  std::vector<Measured> measured;  // every candidate, in its last round
  unsigned last_round = 0;
  bool interrupted = false;
  // By how much a figure differs between runs of the same candidate: the median over candidates of
  // half the relative spread.
  std::map<std::string, double> noise;

  const Measured* Find(std::string_view name) const;
  std::vector<const Measured*> Finalists() const;
};

// The error is kCancelled only where nothing was measured yet; later an interruption gives what
// there is.
Result<SearchOutcome> Search(WorkSource& source, const SearchOptions& options);
// From a results file alone.
Result<SearchOutcome> OutcomeOf(const Results& results);

}  // namespace larder::tuning
