// simulation [--seeds N] [--seed FIRST] [--mutant NAME] [--twice]: runs N seeds and says what
// broke.
//
// A long run says every 10,000 seeds how far it is: what was run counts, even if it is cut off.
// Exits 1 on a violation; with a mutant, 1 when no violation is the one that it must be caught by.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>

#include "tests/simulation/run.h"

namespace {

using larder::simulation::Mutant;

constexpr uint64_t kSeedsBetweenLines = 10'000;

constexpr char kPrefix[] = "the store is not what the cluster was at its cursor";

struct Bug {
  Mutant mutant = Mutant::kNone;
  std::string violation;  // by which it must be caught: a part of its text
};

const std::map<std::string, Bug> kBugs = {
    {"lose-event", {Mutant::kLoseEvent, kPrefix}},
    {"lose-queue-item", {Mutant::kLoseQueueItem, "nobody will hear that"}},
    {"skip-sweep", {Mutant::kSkipSweep, kPrefix}},
    {"early-cursor", {Mutant::kEarlyCursor, kPrefix}},
    {"drop-waiting", {Mutant::kDropWaiting, kPrefix}},
    {"lose-retry", {Mutant::kLoseRetry, "was to be tried again"}},
    {"early-retry", {Mutant::kEarlyRetry, "ms early"}},
    {"lose-row", {Mutant::kLoseRow, "and nothing is pending"}},
    {"tell-again", {Mutant::kTellAgain, "was acknowledged and came again"}},
    {"ignore-failure", {Mutant::kIgnoreFailure, kPrefix}},
    {"older-again", {Mutant::kOlderAgain, " after "}},
    {"older-delete", {Mutant::kOlderDelete, "the handler heard of the end of"}},
    {"wrong-old", {Mutant::kWrongOld, ", and knew ["}},
    {"row-ahead", {Mutant::kRowAhead, kPrefix}},
};

}  // namespace

int main(int argc, char** argv) {
  using namespace larder::simulation;
  uint64_t seeds = 1000, first = 1;
  std::string bug;
  bool twice = false;
  CLI::App app("Seeded simulation of reflector, commits and queue, with crashes");
  app.add_option("--seeds", seeds, "How many")->capture_default_str();
  app.add_option("--seed", first, "The first of them")->capture_default_str();
  app.add_option("--mutant", bug, "A bug to switch on: the run must find it, as what it is")
      ->check(CLI::IsMember(kBugs));
  app.add_flag("--twice", twice, "Run each seed again, and compare the traces");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::off);
  const bool memory = std::filesystem::is_directory("/dev/shm");
  std::string directory = std::string(memory ? "/dev/shm" : "/tmp") + "/larder-simulation-XXXXXX";
  if (!::mkdtemp(directory.data())) {
    std::cerr << "simulation: cannot make a directory like " << directory << "\n";
    return 2;
  }
  const auto [mutant, expected] = bug.empty() ? Bug() : kBugs.at(bug);
  bool found = false;
  uint64_t violations = 0, traces = 0;
  const auto summary = [&](uint64_t done) {
    return fmt::format("{} seeds from {}, {} violations, trace {:016x}", done, first, violations,
                       traces);
  };
  uint64_t seed = first;
  for (; seed < first + seeds && !found; ++seed) {
    Verdict verdict = Run(seed, directory, mutant);
    if (twice && Run(seed, directory, mutant).trace != verdict.trace) {
      verdict.violation = "the same seed gave another trace";
    }
    traces = traces * 31 + verdict.trace;
    if (!verdict.violation.empty()) {
      ++violations;
      std::cout << fmt::format("seed {}: {}\n  repeat with: simulation --seeds 1 --seed {}\n", seed,
                               verdict.violation, seed);
      found = mutant != Mutant::kNone && verdict.violation.find(expected) != std::string::npos;
    }
    const uint64_t done = seed - first + 1;
    if (done % kSeedsBetweenLines == 0 && done < seeds) {
      std::cerr << "simulation: so far " << summary(done) << std::endl;
    }
  }
  std::filesystem::remove_all(directory);
  std::cout << summary(seed - first) << "\n";
  return mutant == Mutant::kNone ? (violations > 0 ? 1 : 0) : (found ? 0 : 1);
}
