#include "tuning/recommend.h"

#include <algorithm>
#include <cmath>

#include "storage/options.h"

namespace larder::tuning {
namespace {

constexpr std::array<const char*, 6> kAxes = {"write_amplification", "space_amplification",
                                              "restart_ms",          "cpu_us_per_event",
                                              "get_p50_us",          "memory_mib"};
// Less than this is no reason to change anything, where bytes are concerned.
constexpr double kLeastNoise = 0.02;
constexpr double kClearly = 0.05;
// The store's share of the memory limit; the rest is the hot tier's.
constexpr double kStoreShare = 0.65;

double NoiseIn(const SearchOutcome& outcome, std::string_view key) {
  const auto found = outcome.noise.find(std::string(key));
  // Two runs may agree by chance; a tail of latencies never repeats that well.
  double least = kLeastNoise;
  if (MeasureOf(key).time) least = key.find("p99") == std::string_view::npos ? 0.05 : 0.15;
  return std::max(least, found == outcome.noise.end() ? 0 : found->second);
}

std::string_view AimKey(Aim aim) {
  switch (aim) {
    case Aim::kWear:
      return "write_amplification";
    case Aim::kSize:
      return "space_amplification";
    case Aim::kRestart:
      return "restart_ms";
    case Aim::kBalanced:
      break;
  }
  return "";
}

double AimNoise(const SearchOutcome& outcome, Aim aim) {
  if (aim != Aim::kBalanced) return NoiseIn(outcome, AimKey(aim));
  double sum = 0;
  for (const MeasureInfo& info : ComparedMeasures()) sum += std::pow(NoiseIn(outcome, info.key), 2);
  // Of a mean of independent figures.
  return std::max(kLeastNoise, std::sqrt(sum) / static_cast<double>(ComparedMeasures().size()));
}

bool Tolerable(const SearchOutcome& outcome, Aim aim, const Measured& entry,
               const Measured& current, double tolerance) {
  for (const MeasureInfo& info : ComparedMeasures()) {
    if (AimKey(aim) == info.key) continue;
    const double allowed = std::max(tolerance, 1 + 2 * NoiseIn(outcome, info.key));
    if (RatioOf(info, entry.mean, current.mean) > allowed) return false;
  }
  return true;
}

// "half", "0.81 of".
std::string Times(double ratio) { return fmt::format("{:.2f}", ratio); }

std::string AimWords(Aim aim) {
  switch (aim) {
    case Aim::kWear:
      return "the bytes written";
    case Aim::kSize:
      return "the disk space";
    case Aim::kRestart:
      return "the restart time";
    case Aim::kBalanced:
      return "all measures together";
  }
  return "";
}

std::string ReasonFor(Aim aim, const Measured& chosen, const Measured& current, double score) {
  std::string out = fmt::format("{} times {} of the current options", Times(score), AimWords(aim));
  if (aim != Aim::kBalanced) {
    const MeasureInfo& info = MeasureOf(AimKey(aim));
    out += fmt::format(" ({:.3g} {} instead of {:.3g})", chosen.mean.*info.value, info.unit,
                       current.mean.*info.value);
  }
  // What it costs, and what it brings besides.
  const MeasureInfo* worst = nullptr;
  const MeasureInfo* best = nullptr;
  for (const MeasureInfo& info : ComparedMeasures()) {
    if (AimKey(aim) == info.key) continue;
    const double ratio = RatioOf(info, chosen.mean, current.mean);
    if (!worst || ratio > RatioOf(*worst, chosen.mean, current.mean)) worst = &info;
    if (!best || ratio < RatioOf(*best, chosen.mean, current.mean)) best = &info;
  }
  if (best && RatioOf(*best, chosen.mean, current.mean) < 0.95) {
    out += fmt::format("; {} times the {}", Times(RatioOf(*best, chosen.mean, current.mean)),
                       best->key);
  }
  if (worst && RatioOf(*worst, chosen.mean, current.mean) > 1.05) {
    out += fmt::format("; it costs {} times the {}",
                       Times(RatioOf(*worst, chosen.mean, current.mean)), worst->key);
  }
  return out;
}

Recommendation RecommendFor(Aim aim, const SearchOutcome& outcome,
                            const RecommendOptions& options) {
  Recommendation out;
  out.aim = aim;
  const Measured* const current = outcome.Find(kCurrentName);
  std::vector<const Measured*> fit;
  for (const Measured* entry : outcome.Finalists()) {
    if (entry->candidate.baseline || !entry->failure.empty()) continue;
    if (Tolerable(outcome, aim, *entry, *current, options.tolerance)) fit.push_back(entry);
  }
  const double noise = AimNoise(outcome, aim);
  const auto score = [&](const Measured* entry) {
    return ScoreOf(aim, entry->mean, current->mean);
  };
  double least = 1;
  for (const Measured* entry : fit) least = std::min(least, score(entry));
  // Twice the noise: both figures have it.
  if (least > 1 - 2 * noise) {
    out.chosen = current;
    out.keep_current = true;
    out.reason = fit.empty()
                     ? fmt::format("every change makes something else more than {} times worse",
                                   Times(options.tolerance))
                     : fmt::format("no change is better by more than twice the noise of {:.0f}%",
                                   noise * 100);
    return out;
  }
  // Among those that are equally good within the noise: the one that changes least, then by name,
  // so that two runs choose the same.
  std::vector<const Measured*> best;
  for (const Measured* entry : fit) {
    if (score(entry) <= least * (1 + noise)) best.push_back(entry);
  }
  std::sort(best.begin(), best.end(), [](const Measured* a, const Measured* b) {
    return std::tie(a->candidate.changes, a->candidate.name) <
           std::tie(b->candidate.changes, b->candidate.name);
  });
  out.chosen = best.front();
  out.score = score(out.chosen);
  if (best.size() > 1) out.as_good = best[1]->candidate.name;
  out.reason = ReasonFor(aim, *out.chosen, *current, out.score);
  return out;
}

double Axis(const Measured& entry, const char* key) {
  const MeasureInfo& info = MeasureOf(key);
  return std::max(entry.mean.*info.value, std::max(info.floor, 1e-9));
}

// Would `a` beat `b` if b were better by `margin` in every axis?
bool Beats(const SearchOutcome& outcome, const Measured& a, const Measured& b, double margin) {
  bool clearly = false;
  for (const char* key : kAxes) {
    const double ratio = Axis(a, key) / (Axis(b, key) * (1 - margin));
    if (ratio > 1) return false;
    if (ratio < 1 - std::max(kClearly, NoiseIn(outcome, key))) clearly = true;
  }
  return clearly;
}

}  // namespace

std::vector<Recommendation> Recommend(const SearchOutcome& outcome,
                                      const RecommendOptions& options) {
  std::vector<Recommendation> out;
  out.reserve(kAims.size());
  for (const Aim aim : kAims) out.push_back(RecommendFor(aim, outcome, options));
  return out;
}

double PercentBehindFront(const SearchOutcome& outcome, const Measured& entry) {
  const auto beaten = [&](double margin) {
    for (const Measured* other : outcome.Finalists()) {
      if (other != &entry && other->failure.empty() && Beats(outcome, *other, entry, margin)) {
        return true;
      }
    }
    return false;
  };
  for (int percent = 0; percent < 100; ++percent) {
    if (!beaten(percent / 100.0)) return percent;
  }
  return 100;
}

std::string BrokenRail(const Measures& measures, const Candidate& candidate, size_t memory_limit,
                       uint64_t disk_budget) {
  if (std::string why = candidate.engine.Unfit(); !why.empty()) return why;
  const double memory_mib = static_cast<double>(memory_limit) * kStoreShare / (1 << 20);
  if (measures.memory_mib > memory_mib) {
    return fmt::format("it takes {:.1f} MiB of memory, above the store's share of {:.1f} MiB",
                       measures.memory_mib, memory_mib);
  }
  const double disk_mib = static_cast<double>(disk_budget) / (1 << 20);
  if (disk_budget != 0 && measures.disk_peak_mib > disk_mib) {
    return fmt::format("its store takes {:.1f} MiB, above the disk budget of {:.1f} MiB",
                       measures.disk_peak_mib, disk_mib);
  }
  const auto usual = static_cast<uint64_t>(StoreOptions().sync_interval.count());
  if (candidate.engine.LarderNumber("sync_interval_ms", usual) > usual) {
    return fmt::format("it leaves commits unsynced for longer than {} ms", usual);
  }
  return {};
}

std::map<std::string, double> NoiseOf(const std::vector<Measured>& measured) {
  std::map<std::string, double> out;
  for (const MeasureInfo& info : ComparedMeasures()) {
    std::vector<double> spreads;
    for (const Measured& entry : measured) {
      if (entry.runs.size() < 2) continue;
      double least = 1e300, most = 0;
      for (const Measures& run : entry.runs) {
        const double value = std::max({run.*info.value, info.floor, 1e-9});
        least = std::min(least, value);
        most = std::max(most, value);
      }
      spreads.push_back((most - least) / (most + least));
    }
    if (spreads.empty()) continue;
    std::sort(spreads.begin(), spreads.end());
    out[info.key] = spreads[spreads.size() / 2];
  }
  return out;
}

Comparison Compare(Aim aim, const Measures& chosen, const Measures& other) {
  Comparison out;
  out.aim_factor = 1 / ScoreOf(aim, chosen, other);
  out.worst_factor = 0;
  for (const MeasureInfo& info : ComparedMeasures()) {
    if (AimKey(aim) == info.key) continue;
    const double ratio = RatioOf(info, chosen, other);
    if (ratio > out.worst_factor) {
      out.worst_factor = ratio;
      out.worst = info.key;
    }
  }
  return out;
}

}  // namespace larder::tuning
