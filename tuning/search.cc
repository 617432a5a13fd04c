#include "tuning/search.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "tuning/prepare.h"
#include "tuning/recommend.h"
#include "tuning/runner.h"

namespace larder::tuning {
namespace {

// Results of other measurements cannot be compared with ours.
constexpr unsigned kVersion = 2;
// At least so many go on to the next round, besides the baselines.
constexpr size_t kFewest = 6;
constexpr double kKeep = 1.0 / 3;
// How many of an aim's best are tried together.
constexpr size_t kTogether = 4;

// So much worse in something that no aim pays for it. The tails of latencies do not count: one run
// says little about them.
bool IsHopeless(const Measures& measures, const Measures& current) {
  constexpr double kTooMuch = 3;
  for (const MeasureInfo& info : ComparedMeasures()) {
    if (std::string_view(info.key).find("p99") != std::string_view::npos) continue;
    if (RatioOf(info, measures, current) > kTooMuch) return true;
  }
  return false;
}

// One that breaks a guard rail is out, and so is one that holds other rows than the current
// options' in the same round.
void Judge(const Measures& run, const Results& results, unsigned round, Measured& entry) {
  if (!entry.failure.empty()) return;
  const ResultsHeader& header = results.header();
  if (!entry.candidate.baseline) {
    entry.failure = BrokenRail(run, entry.candidate, header.memory_limit, header.disk_budget);
  }
  const RunResult* const current = results.Find({kCurrentName, round, 0});
  if (current && current->measures && run.content != current->measures->content) {
    entry.failure = "its store holds other rows than the current options' after the replay";
  }
}

class Searcher {
 public:
  Searcher(WorkSource& source, const SearchOptions& options, Results& results)
      : source_(source), options_(options), results_(results), runners_(options.matrix) {}

  Result<SearchOutcome> Do() {
    const auto last = static_cast<unsigned>(options_.rounds.size() - 1);
    planned_ = static_cast<double>(runners_.size());
    for (unsigned round = 0; round <= last; ++round) {
      const unsigned repeats = round == last ? options_.repeats : 1;
      if (round > 0) {
        Narrow();
        if (round == 1) AddCombinations();
      }
      Replan(round);
      for (unsigned repeat = 0; repeat < repeats; ++repeat) {
        for (size_t i = 0; i < runners_.size(); ++i) {
          const auto outcome = MeasureOne(runners_[i], round, repeat);
          if (outcome) continue;
          if (outcome.error().code != ErrorCode::kCancelled || measured_.empty()) {
            return tl::unexpected(outcome.error());
          }
          return Finish(round, /*interrupted=*/true);
        }
      }
    }
    return Finish(last, /*interrupted=*/false);
  }

 private:
  // The share of the work that is behind us, by the steps that were and will be replayed.
  void Replan(unsigned round) {
    double rest = 0;
    size_t count = runners_.size();
    for (size_t i = round; i < options_.rounds.size(); ++i) {
      const bool last = i + 1 == options_.rounds.size();
      rest +=
          static_cast<double>(count) * (options_.rounds[i] + 0.05) * (last ? options_.repeats : 1);
      count = Kept(count) + (i == 0 ? 2 * kAims.size() : 0);
    }
    planned_ = done_ + rest;
  }

  static size_t Kept(size_t count) {
    return std::max(kFewest, static_cast<size_t>(std::ceil(static_cast<double>(count) * kKeep)));
  }

  Result<const Prepared*> PreparedFor(const Encoding& encoding) {
    const auto found = prepared_.find(encoding);
    if (found != prepared_.end()) return &found->second;
    PrepareOptions options;
    options.folder = options_.folder;
    options.stop = options_.stop;
    options.progress = [&](uint64_t done, uint64_t all) {
      Tell(fmt::format("encoding as {}: {}%", encoding.Name(), all ? done * 100 / all : 0));
    };
    LARDER_ASSIGN_OR_RETURN(Prepared prepared, Prepare(source_, encoding, options));
    return &prepared_.emplace(encoding, std::move(prepared)).first->second;
  }

  void Tell(const std::string& what) const {
    if (options_.progress) options_.progress(what, planned_ > 0 ? done_ / planned_ : 0);
  }

  Result<void> MeasureOne(const Candidate& candidate, unsigned round, unsigned repeat) {
    const double fraction = options_.rounds[round];
    const RunKey key{candidate.name, round, repeat};
    Tell(fmt::format("round {} of {}: {}", round + 1, options_.rounds.size(), candidate.name));
    done_ += fraction + 0.05;
    const RunResult* known = results_.Find(key);
    RunResult result;
    if (known) {
      result = *known;
    } else {
      if (options_.stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "interrupted");
      LARDER_ASSIGN_OR_RETURN(const Prepared* const reference, PreparedFor(Encoding::Of({})));
      LARDER_ASSIGN_OR_RETURN(const Prepared* const prepared,
                              PreparedFor(Encoding::Of(candidate.engine)));
      RunOptions run;
      run.folder = options_.folder;
      run.engine = candidate.engine;
      run.memory_limit = options_.memory_limit;
      run.fraction = fraction;
      run.disk_budget = candidate.baseline ? 0 : options_.disk_budget;
      run.stop = options_.stop;
      LARDER_ASSIGN_OR_RETURN(Measures measures, Measure(*prepared, *reference, run));
      result.engine = candidate.engine.ToText();
      result.failure = measures.broken;
      if (measures.broken.empty()) result.measures = std::move(measures);
      LARDER_RETURN_IF_ERROR(results_.Add(key, result));
    }
    Remember(candidate, round, result);
    return {};
  }

  void Remember(const Candidate& candidate, unsigned round, const RunResult& result) {
    auto found = std::find_if(measured_.begin(), measured_.end(), [&](const Measured& entry) {
      return entry.candidate.name == candidate.name;
    });
    if (found == measured_.end()) {
      measured_.push_back({});
      found = std::prev(measured_.end());
      found->candidate = candidate;
    }
    if (found->round != round) found->runs.clear();
    found->round = round;
    if (!result.failure.empty()) found->failure = result.failure;
    if (result.measures) {
      found->runs.push_back(*result.measures);
      found->mean = MeanOf(found->runs);
    }
    if (result.measures) Judge(*result.measures, results_, round, *found);
  }

  const Measured* Of(const Candidate& candidate) const {
    for (const Measured& entry : measured_) {
      if (entry.candidate.name == candidate.name) return &entry;
    }
    return nullptr;
  }

  std::vector<const Measured*> Ranked(Aim aim) const {
    std::vector<const Measured*> out;
    for (const Candidate& candidate : runners_) {
      const Measured* const entry = Of(candidate);
      if (!candidate.baseline && entry && entry->failure.empty()) out.push_back(entry);
    }
    const Measures& current = measured_.front().mean;
    std::stable_sort(out.begin(), out.end(), [&](const Measured* a, const Measured* b) {
      return std::pair(IsHopeless(a->mean, current), ScoreOf(aim, a->mean, current)) <
             std::pair(IsHopeless(b->mean, current), ScoreOf(aim, b->mean, current));
    });
    return out;
  }

  // The best of each aim in turn, until enough are kept.
  void Narrow() {
    std::set<std::string> keep;
    const size_t enough = Kept(runners_.size());
    std::vector<std::vector<const Measured*>> ranked;
    ranked.reserve(kAims.size());
    for (const Aim aim : kAims) ranked.push_back(Ranked(aim));
    for (size_t place = 0; place < ranked.front().size() && keep.size() < enough; ++place) {
      for (const auto& list : ranked) {
        if (keep.size() < enough) keep.insert(list[place]->candidate.name);
      }
    }
    std::erase_if(runners_, [&](const Candidate& candidate) {
      return !candidate.baseline && !keep.contains(candidate.name);
    });
  }

  // Changes that do well alone may do better together: for each aim those that help it, one after
  // another, as long as they do not contradict each other.
  void AddCombinations() {
    const Measures& current = measured_.front().mean;
    std::set<std::string> seen;
    for (const Candidate& candidate : runners_) seen.insert(candidate.engine.ToText());
    std::vector<Candidate> made;
    for (const Aim aim : kAims) {
      std::optional<Candidate> sum;
      size_t parts = 0;
      for (const Measured* entry : Ranked(aim)) {
        if (parts == kTogether || ScoreOf(aim, entry->mean, current) >= 0.99 ||
            IsHopeless(entry->mean, current)) {
          break;
        }
        if (!sum) {
          sum = entry->candidate;
          ++parts;
          continue;
        }
        auto both = Combine(options_.current, *sum, entry->candidate);
        if (!both) continue;
        sum = *std::move(both);
        ++parts;
        if (seen.insert(sum->engine.ToText()).second) made.push_back(*sum);
      }
    }
    runners_.insert(runners_.end(), made.begin(), made.end());
  }

  SearchOutcome Finish(unsigned round, bool interrupted) {
    SearchOutcome out;
    out.header = results_.header();
    out.measured = std::move(measured_);
    out.last_round = round;
    out.interrupted = interrupted;
    out.noise = NoiseOf(out.measured);
    return out;
  }

  WorkSource& source_;
  const SearchOptions& options_;
  Results& results_;
  std::vector<Candidate> runners_;
  std::vector<Measured> measured_;  // the current options first
  std::map<Encoding, Prepared> prepared_;
  double done_ = 0, planned_ = 0;
};

}  // namespace

std::string_view ToString(Aim aim) {
  switch (aim) {
    case Aim::kWear:
      return "wear";
    case Aim::kSize:
      return "size";
    case Aim::kRestart:
      return "restart";
    case Aim::kBalanced:
      return "balanced";
  }
  return "";
}

Result<Aim> AimFromString(std::string_view text) {
  for (const Aim aim : kAims) {
    if (ToString(aim) == text) return aim;
  }
  return MakeError(ErrorCode::kInvalidArgument, "{} is no aim; use wear, size, restart or balanced",
                   text);
}

double ScoreOf(Aim aim, const Measures& measures, const Measures& current) {
  switch (aim) {
    case Aim::kWear:
      return RatioOf(MeasureOf("write_amplification"), measures, current);
    case Aim::kSize:
      return RatioOf(MeasureOf("space_amplification"), measures, current);
    case Aim::kRestart:
      return RatioOf(MeasureOf("restart_ms"), measures, current);
    case Aim::kBalanced:
      break;
  }
  double sum = 0;
  for (const MeasureInfo& info : ComparedMeasures()) {
    sum += std::log(RatioOf(info, measures, current));
  }
  return std::exp(sum / static_cast<double>(ComparedMeasures().size()));
}

const Measured* SearchOutcome::Find(std::string_view name) const {
  for (const Measured& entry : measured) {
    if (entry.candidate.name == name) return &entry;
  }
  return nullptr;
}

std::vector<const Measured*> SearchOutcome::Finalists() const {
  std::vector<const Measured*> out;
  for (const Measured& entry : measured) {
    if (entry.round == last_round && !entry.runs.empty()) out.push_back(&entry);
  }
  return out;
}

Result<SearchOutcome> Search(WorkSource& source, const SearchOptions& options) {
  if (options.matrix.empty() || options.matrix.front().name != kCurrentName ||
      options.rounds.empty() || options.repeats == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a search needs candidates, the current options first, and rounds");
  }
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) {
    return MakeError(ErrorCode::kIo, "cannot make {}: {}", options.folder, error.message());
  }
  LARDER_ASSIGN_OR_RETURN(
      const auto results,
      Results::Open(options.results, {source.Name(), source.Fingerprint(), options.current.ToText(),
                                      options.memory_limit, options.disk_budget,
                                      fmt::format("{}", fmt::join(options.rounds, ", ")),
                                      fmt::format("{} on RocksDB {}", kVersion, EngineVersion())}));
  return Searcher(source, options, *results).Do();
}

Result<SearchOutcome> OutcomeOf(const Results& results) {
  SearchOutcome out;
  out.header = results.header();
  for (const auto& [key, result] : results.all()) {
    out.last_round = std::max(out.last_round, key.round);
    auto found = std::find_if(
        out.measured.begin(), out.measured.end(),
        [&key = key](const Measured& entry) { return entry.candidate.name == key.candidate; });
    if (found == out.measured.end()) {
      Measured entry;
      entry.candidate.name = key.candidate;
      LARDER_ASSIGN_OR_RETURN(entry.candidate.engine,
                              EngineOptions::Parse(result.engine, EngineOptions::Use::kMeasure));
      entry.candidate.engine.rocksdb_defaults =
          key.candidate == kRocksDbName || key.candidate == kRocksDbValuesName;
      entry.candidate.baseline = entry.candidate.engine.rocksdb_defaults ||
                                 key.candidate == kCurrentName || key.candidate == kLarderName;
      entry.candidate.changes =
          static_cast<unsigned>(1 + std::count(key.candidate.begin(), key.candidate.end(), '+'));
      out.measured.push_back(std::move(entry));
      found = std::prev(out.measured.end());
    }
    if (found->round != key.round) found->runs.clear();
    found->round = key.round;
    if (!result.failure.empty()) found->failure = result.failure;
    if (result.measures) {
      found->runs.push_back(*result.measures);
      found->mean = MeanOf(found->runs);
      Judge(*result.measures, results, key.round, *found);
    }
  }
  const auto current =
      std::find_if(out.measured.begin(), out.measured.end(),
                   [](const Measured& entry) { return entry.candidate.name == kCurrentName; });
  if (current == out.measured.end()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the results do not have the current options yet; let the search run longer");
  }
  std::rotate(out.measured.begin(), current, current + 1);
  out.noise = NoiseOf(out.measured);
  return out;
}

}  // namespace larder::tuning
