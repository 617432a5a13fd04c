// The crash programme: breaks a running controller in every way there is and judges what is left.
//
//   larder_crash --mode kill|power|io|full|flip|all [--runs N] [--seed S] [--file KIND]
//                [--fail-at-rest] [--mutant NAME] [--keep DIR] [--quiet]
//   larder_crash --mode io --sweep [--operation append ...] [--stride N | --only N]
//
// Prints "N runs, V violations" and ends with 1 when there is any, with 3 when too little was
// broken for that to prove anything, with 77 when a mode could not run on this machine. A failing
// episode prints the command that repeats it and keeps its store and its journal.
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/crash/episode.h"
#include "tests/crash/subject.h"
#include "tests/crash/sweep.h"

namespace larder::crash {
namespace {

namespace fs = std::filesystem;

constexpr int kRunsAnEpisode = 10;

// What is at least to be expected, in any order of luck: in every so many-th run something breaks;
// of so many refused stores all but one can be repaired.
constexpr int kRunsAnInjection = 10;
constexpr int kRefusedAnEmptied = 3;
// What was planned so often comes true once: of the rarest points one plan in six does.
constexpr int kPlansThatCount = 30;

constexpr int kHeld = 0;
constexpr int kViolated = 1;
constexpr int kUnproven = 3;
constexpr int kSkipped = 77;

struct Options {
  std::string mode = "all";
  std::string file{};
  int runs = 100;
  uint64_t seed = 0;
  std::string mutant{};
  std::string keep{};
  bool fail_at_rest = false;
  bool sweep = false;
  std::vector<std::string> operations{};
  int stride = 1;
  int only = 0;
  bool quiet = false;
  std::string program{};
};

// A file system of 24 MiB that only this process and its children see. False: not permitted.
bool MountSmallDisk(const std::string& path) {
  const auto write = [](const char* file, const std::string& text) { std::ofstream(file) << text; };
  const uid_t uid = ::getuid();
  const gid_t gid = ::getgid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    write("/proc/self/setgroups", "deny");
    write("/proc/self/uid_map", fmt::format("{0} {0} 1", uid));
    write("/proc/self/gid_map", fmt::format("{0} {0} 1", gid));
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("larder", path.c_str(), "tmpfs", 0, "size=24m") == 0;
}

// Every mode breaks the disk itself, so what is underneath may as well be fast.
fs::path ScratchPlace() {
  const fs::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path();
}

std::string MakeDirectory(const fs::path& place) {
  std::string path = (place / "larder-crash-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) {
    std::fprintf(stderr, "crash: no temporary directory\n");
    std::_Exit(2);
  }
  return path;
}

// Says what is wrong, puts the evidence aside and says how to see it again.
void Keep(const Options& options, const std::string& directory, const std::string& store,
          const std::vector<std::string>& violations, const std::string& arguments) {
  for (const std::string& violation : violations) {
    std::fprintf(stderr, "  %s\n", violation.c_str());
  }
  const std::string kept =
      options.keep.empty() ? MakeDirectory(fs::temp_directory_path()) : options.keep;
  std::error_code error;
  fs::copy(directory, kept, fs::copy_options::recursive, error);
  // It may be on a disk of its own.
  if (!store.empty() && fs::path(store).parent_path() != directory) {
    fs::copy(store, kept + "/store", fs::copy_options::recursive, error);
  }
  std::fprintf(stderr, "  store and journal: %s\n  to repeat: ./dev crash %s\n", kept.c_str(),
               arguments.c_str());
}

void Report(const Options& options, const EpisodeOptions& episode, const EpisodeResult& result) {
  std::fprintf(stderr, "crash: %s, run %d: %s\n", episode.mode.c_str(), result.runs,
               result.crash.c_str());
  Keep(options, episode.directory, episode.store, result.violations,
       fmt::format("--mode {}{}{} --seed {} --runs {}{}", episode.mode,
                   episode.file.empty() ? "" : " --file " + episode.file,
                   episode.fail_at_rest ? " --fail-at-rest" : "", episode.seed, episode.runs,
                   episode.mutant.empty() ? "" : " --mutant " + episode.mutant));
}

// What the episodes of a mode met.
struct Totals {
  int runs = 0;
  int injected = 0;
  int refused = 0;
  int lived = 0;
  int emptied = 0;
  std::map<std::string, int> met{};
  std::map<std::string, int> planned{};
  std::map<std::string, int> aborts{};

  void Add(const EpisodeResult& result) {
    runs += result.runs;
    injected += result.injected;
    refused += result.refused;
    lived += result.lived;
    emptied += result.emptied;
    for (const auto& [what, count] : result.met) met[what] += count;
    for (const auto& [what, count] : result.planned) planned[what] += count;
    for (const auto& [what, count] : result.aborts) aborts[what] += count;
  }
  void Print() const {
    std::string text;
    std::map<std::string, int> all = met;
    for (const auto& [what, count] : planned) all.try_emplace(what, 0);
    for (const auto& [what, count] : all) {
      const auto plans = planned.find(what);
      text += fmt::format(" {} {}{},", count,
                          plans == planned.end() ? "" : fmt::format("of {} ", plans->second), what);
    }
    if (!text.empty()) std::printf("  met:%s\n", text.substr(0, text.size() - 1).c_str());
    for (const auto& [what, count] : aborts) {
      std::printf("  %d times an assertion of RocksDB's: %s\n", count, what.c_str());
    }
  }
};

// A disk that never fails breaks no promise either.
bool IsProof(const Totals& totals) {
  if (totals.injected * kRunsAnInjection < totals.runs) {
    std::printf("  of %d runs only %d broke anything: that proves nothing\n", totals.runs,
                totals.injected);
    return false;
  }
  for (const auto& [what, count] : totals.planned) {
    if (count < kPlansThatCount || totals.met.contains(what)) continue;
    std::printf("  %d times there was to be %s, and never was: that proves nothing\n", count,
                what.c_str());
    return false;
  }
  if (totals.emptied > 1 + totals.refused / kRefusedAnEmptied) {
    std::printf("  of %d refused stores %d could not be repaired: that is too many\n",
                totals.refused, totals.emptied);
    return false;
  }
  return true;
}

int RunMode(const Options& options, const std::string& mode) {
  const std::string root = MakeDirectory(ScratchPlace());
  // Only the store is on the disk that is full: what is written about it needs room.
  const std::string small = root + "/small";
  fs::create_directories(small);
  if (mode == "full" && !MountSmallDisk(small)) {
    std::printf("0 runs, 0 violations (full: skipped, this machine lets nobody mount)\n");
    fs::remove_all(root);
    return kSkipped;
  }
  int violations = 0;
  Totals totals;
  // Episode seeds are far apart, so that a failing one is repeated alone by its own seed.
  for (uint64_t number = 0; totals.runs < options.runs && violations == 0; ++number) {
    EpisodeOptions episode;
    episode.mode = mode;
    episode.file = options.file;
    episode.seed = options.seed + number * 1'000'003;
    episode.runs = std::min(kRunsAnEpisode, options.runs - totals.runs);
    episode.mutant = options.mutant;
    episode.fail_at_rest = options.fail_at_rest;
    episode.directory = root + "/episode";
    episode.store = (mode == "full" ? small : episode.directory) + "/store";
    episode.program = options.program;
    fs::create_directories(episode.directory);
    const EpisodeResult result = RunEpisode(episode);
    totals.Add(result);
    violations += static_cast<int>(result.violations.size());
    if (!result.violations.empty()) Report(options, episode, result);
    fs::remove_all(episode.directory);
    fs::remove_all(episode.store);
    if (!options.quiet && number % 10 == 9) {
      std::fprintf(stderr, "crash: %s: %d of %d runs\n", mode.c_str(), totals.runs, options.runs);
    }
  }
  std::printf(
      "%d runs, %d violations (%s%s, seed %llu%s)\n", totals.runs, violations, mode.c_str(),
      options.file.empty() ? "" : (" " + options.file).c_str(),
      static_cast<unsigned long long>(options.seed),
      mode == "flip"
          ? fmt::format(", {} refused with an error, of them {} begun anew, {} processes lived on",
                        totals.refused, totals.emptied, totals.lived)
                .c_str()
          : "");
  totals.Print();
  std::fflush(stdout);
  if (mode == "full") ::umount(small.c_str());
  std::error_code ignored;
  fs::remove_all(root, ignored);
  if (violations != 0) return kViolated;
  return IsProof(totals) ? kHeld : kUnproven;
}

// Operation N = 1, 2, 3, ... of each kind fails, in a scenario of its own.
int RunSweepMode(const Options& options) {
  const std::string root = MakeDirectory(ScratchPlace());
  SweepOptions sweep;
  sweep.operations = options.operations;
  if (sweep.operations.empty()) {
    sweep.operations.assign(std::begin(kSweptOperations), std::end(kSweptOperations));
  }
  sweep.seed = options.seed;
  sweep.stride = options.stride;
  sweep.only = options.only;
  sweep.directory = root;
  sweep.program = options.program;
  sweep.mutant = options.mutant;
  const SweepResult result = RunSweep(sweep);
  if (!result.violations.empty()) {
    std::fprintf(stderr, "crash: io sweep: %s\n", result.plan.c_str());
    const std::string number = result.plan.substr(result.plan.rfind(':') + 1);
    const size_t operation = result.plan.find(':', result.plan.find(':') + 1) + 1;
    Keep(options, root, {}, result.violations,
         fmt::format("--mode io --sweep --seed {} --operation {} --only {}", options.seed,
                     result.plan.substr(operation, result.plan.rfind(':') - operation), number));
  }
  std::string reached;
  bool all_reached = true;
  for (const std::string& operation : sweep.operations) {
    const auto it = result.reached.find(operation);
    const int count = it == result.reached.end() ? 0 : it->second;
    reached += fmt::format(", {} of {}", operation, count);
    all_reached &= count > 0;
  }
  std::printf("%d runs, %zu violations (io sweep, seed %llu%s; %d refused with an error)\n",
              result.runs, result.violations.size(), static_cast<unsigned long long>(options.seed),
              reached.c_str(), result.refused);
  Totals{.aborts = result.aborts}.Print();
  std::fflush(stdout);
  std::error_code ignored;
  fs::remove_all(root, ignored);
  if (!result.violations.empty()) return kViolated;
  if (all_reached) return kHeld;
  std::printf("  a kind of operation never failed: that proves nothing\n");
  return kUnproven;
}

int Main(int argc, char** argv) {
  CLI::App app("Breaks a running controller and judges what is left.");
  Options options;
  app.add_option("--mode", options.mode)
      ->check(CLI::IsMember({"kill", "power", "io", "full", "flip", "all"}));
  app.add_option("--file", options.file)
      ->check(CLI::IsMember({"log", "table", "manifest", "current", "options"}));
  app.add_option("--runs", options.runs)->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed);
  app.add_option("--keep", options.keep);
  app.add_flag("--quiet", options.quiet);
  app.add_flag("--fail-at-rest", options.fail_at_rest,
               "io, full: the disk fails under the process that comes to rest, too");
  app.add_flag("--sweep", options.sweep,
               "io: operation N = 1, 2, 3, ... of each kind fails, in a short scenario of its own");
  app.add_option("--operation", options.operations, "sweep: these kinds alone")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(kSweptOperations), std::end(kSweptOperations))));
  app.add_option("--stride", options.stride, "sweep: every so many-th operation")
      ->check(CLI::PositiveNumber);
  app.add_option("--only", options.only, "sweep: this operation alone")->check(CLI::PositiveNumber);
  // For the programme's own test: the process with a known bug.
  app.add_option("--mutant", options.mutant)->group("");

  SubjectOptions subject;
  CLI::App* subject_command = app.add_subcommand("subject", "")->group("");
  subject_command->add_option("--url", subject.url);
  subject_command->add_option("--store", subject.store);
  subject_command->add_option("--journal", subject.journal);
  subject_command->add_option("--plan", subject.disk_plan);
  subject_command->add_option("--seed", subject.seed);
  subject_command->add_option("--key-file", subject.key_file);
  subject_command->add_option("--mutant", subject.mutant);
  subject_command->add_flag("--sync", subject.sync);
  subject_command->add_option("--settle-file", subject.settle_file);
  subject_command->add_option("--log", subject.log);
  subject_command->add_flag("--scenario", subject.scenario);
  CLI11_PARSE(app, argc, argv);
  if (subject_command->parsed()) return RunSubject(subject);

  options.program = fs::read_symlink("/proc/self/exe").string();
  if (options.seed == 0) options.seed = std::random_device()();
  if (options.sweep) return RunSweepMode(options);
  std::vector<std::string> modes = {options.mode};
  // The one that mounts is last: it changes the process's view of the file system.
  if (options.mode == "all") modes = {"kill", "power", "io", "flip", "full"};
  std::set<int> codes;
  for (const std::string& mode : modes) codes.insert(RunMode(options, mode));
  for (const int code : {kViolated, kUnproven, kSkipped}) {
    if (codes.contains(code)) return code;
  }
  return kHeld;
}

}  // namespace
}  // namespace larder::crash

int main(int argc, char** argv) { return larder::crash::Main(argc, argv); }
