#include "tuning/measures.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace larder::tuning {
namespace {

const std::vector<MeasureInfo>& Others() {
  static const std::vector<MeasureInfo> infos = {
      {"disk_peak_mib", "DISK", "MiB", &Measures::disk_peak_mib, 0},
      {"log_peak_mib", "LOG", "MiB", &Measures::log_peak_mib, 0},
      {"seconds", "SECONDS", "s", &Measures::seconds, 0},
      {"syncs", "SYNCS", "", &Measures::syncs, 0},
  };
  return infos;
}

}  // namespace

const std::vector<MeasureInfo>& ComparedMeasures() {
  static const std::vector<MeasureInfo> infos = {
      {"write_amplification", "WRITE", "x", &Measures::write_amplification, 0.01},
      {"space_amplification", "SPACE", "x", &Measures::space_amplification, 0.01},
      {"read_amplification", "READ", "x", &Measures::read_amplification, 0.5},
      {"commit_p50_us", "COMMIT", "us", &Measures::commit_p50_us, 1, true},
      {"commit_p99_us", "COMMIT99", "us", &Measures::commit_p99_us, 50, true},
      {"get_p50_us", "GET", "us", &Measures::get_p50_us, 1, true},
      {"get_p99_us", "GET99", "us", &Measures::get_p99_us, 20, true},
      {"stall_ms", "STALLS", "ms", &Measures::stall_ms, 100, true},
      {"cpu_us_per_event", "CPU", "us/ev", &Measures::cpu_us_per_event, 1, true},
      {"memory_mib", "MEMORY", "MiB", &Measures::memory_mib, 1},
      {"restart_ms", "RESTART", "ms", &Measures::restart_ms, 3, true},
  };
  return infos;
}

const MeasureInfo& MeasureOf(std::string_view key) {
  for (const MeasureInfo& info : ComparedMeasures()) {
    if (key == info.key) return info;
  }
  LARDER_CHECK(false && "no such measure");
}

double RatioOf(const MeasureInfo& info, const Measures& a, const Measures& b) {
  return std::max(a.*info.value, info.floor) / std::max({b.*info.value, info.floor, 1e-9});
}

Json ToJson(const Measures& measures) {
  Json json = Json::object();
  for (const auto* list : {&ComparedMeasures(), &Others()}) {
    for (const MeasureInfo& info : *list) json[info.key] = measures.*info.value;
  }
  json["content"] = measures.content;
  return json;
}

Result<Measures> MeasuresFromJson(const Json& json) {
  Measures measures;
  for (const auto* list : {&ComparedMeasures(), &Others()}) {
    for (const MeasureInfo& info : *list) {
      const auto found = json.find(info.key);
      if (found == json.end() || !found->is_number()) {
        return MakeError(ErrorCode::kCorruption, "{} is missing", info.key);
      }
      measures.*info.value = found->get<double>();
    }
  }
  measures.content = json.value("content", std::string());
  return measures;
}

Measures MeanOf(const std::vector<Measures>& runs) {
  Measures mean;
  if (runs.empty()) return mean;
  for (const auto* list : {&ComparedMeasures(), &Others()}) {
    for (const MeasureInfo& info : *list) {
      double sum = 0, least = runs.front().*info.value;
      for (const Measures& run : runs) {
        sum += run.*info.value;
        least = std::min(least, run.*info.value);
      }
      mean.*info.value = info.time ? least : sum / static_cast<double>(runs.size());
    }
  }
  mean.content = runs.front().content;
  return mean;
}

}  // namespace larder::tuning
