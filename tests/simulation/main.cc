// simulation [--seeds N] [--seed FIRST] [--mutant NAME] [--twice]: runs N seeds and says what
// broke.
//
// A long run says every 10,000 seeds how far it is: what was run counts, even if it is cut off.
// Exits 1 on a violation; with a mutant, 1 when nothing is found.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tests/simulation/run.h"

namespace {
constexpr uint64_t kSeedsBetweenLines = 10'000;
}  // namespace

int main(int argc, char** argv) {
  using namespace larder::simulation;
  uint64_t seeds = 1000, first = 1;
  Mutant mutant = Mutant::kNone;
  bool twice = false;
  CLI::App app("Seeded simulation of reflector, commits and queue, with crashes");
  app.add_option("--seeds", seeds, "How many")->capture_default_str();
  app.add_option("--seed", first, "The first of them")->capture_default_str();
  app.add_option("--mutant", mutant, "A bug to switch on: the run must find it")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Mutant>{{"lose-event", Mutant::kLoseEvent},
                                        {"lose-queue-item", Mutant::kLoseQueueItem},
                                        {"skip-sweep", Mutant::kSkipSweep},
                                        {"early-cursor", Mutant::kEarlyCursor},
                                        {"drop-waiting", Mutant::kDropWaiting},
                                        {"lose-retry", Mutant::kLoseRetry},
                                        {"early-retry", Mutant::kEarlyRetry},
                                        {"lose-row", Mutant::kLoseRow},
                                        {"tell-again", Mutant::kTellAgain},
                                        {"ignore-failure", Mutant::kIgnoreFailure}}));
  app.add_flag("--twice", twice, "Run each seed again, and compare the traces");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::off);
  const bool memory = std::filesystem::is_directory("/dev/shm");
  std::string directory = std::string(memory ? "/dev/shm" : "/tmp") + "/larder-simulation-XXXXXX";
  if (!::mkdtemp(directory.data())) {
    std::cerr << "simulation: cannot make a directory like " << directory << "\n";
    return 2;
  }
  uint64_t violations = 0, traces = 0;
  const auto summary = [&](uint64_t done) {
    return fmt::format("{} seeds from {}, {} violations, trace {:016x}", done, first, violations,
                       traces);
  };
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    Verdict verdict = Run(seed, directory, mutant);
    if (twice && Run(seed, directory, mutant).trace != verdict.trace) {
      verdict.violation = "the same seed gave another trace";
    }
    traces = traces * 31 + verdict.trace;
    if (!verdict.violation.empty()) {
      ++violations;
      std::cout << fmt::format("seed {}: {}\n  repeat with: simulation --seeds 1 --seed {}\n", seed,
                               verdict.violation, seed);
      if (mutant != Mutant::kNone) break;  // found
    }
    const uint64_t done = seed - first + 1;
    if (done % kSeedsBetweenLines == 0 && done < seeds) {
      std::cerr << "simulation: so far " << summary(done) << std::endl;
    }
  }
  std::filesystem::remove_all(directory);
  std::cout << summary(seeds) << "\n";
  return (violations > 0) == (mutant == Mutant::kNone) ? 1 : 0;
}
