#include "tools/doctor/metrics_text.h"

#include <cmath>
#include <cstdlib>
#include <set>

namespace larder::tools {
namespace {

// name{a="b",c="d"} 12
std::optional<Sample> ParseLine(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  Sample sample;
  size_t at = line.find_first_of("{ ");
  if (at == std::string_view::npos) return std::nullopt;
  sample.name = line.substr(0, at);
  if (line[at] == '{') {
    ++at;
    while (at < line.size() && line[at] != '}') {
      const size_t equals = line.find('=', at);
      if (equals == std::string_view::npos || equals + 1 >= line.size()) return std::nullopt;
      const std::string name(line.substr(at, equals - at));
      std::string value;
      at = equals + 2;
      while (at < line.size() && line[at] != '"') {
        if (line[at] == '\\' && at + 1 < line.size()) ++at;
        value += line[at++];
      }
      sample.labels[name] = value;
      ++at;
      if (at < line.size() && line[at] == ',') ++at;
    }
    ++at;
  }
  if (at >= line.size()) return std::nullopt;
  const std::string number(line.substr(at + (line[at] == ' ' ? 1 : 0)));
  char* end = nullptr;
  sample.value = std::strtod(number.c_str(), &end);
  if (end == number.c_str()) return std::nullopt;
  return sample;
}

bool Includes(const Labels& labels, const Labels& wanted) {
  for (const auto& [name, value] : wanted) {
    const auto found = labels.find(name);
    if (found == labels.end() || found->second != value) return false;
  }
  return true;
}

}  // namespace

Metrics Metrics::Parse(std::string_view text) {
  Metrics out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (auto sample = ParseLine(text.substr(0, end))) out.samples_.push_back(*std::move(sample));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::optional<double> Metrics::Sum(std::string_view name, const Labels& labels) const {
  std::optional<double> sum;
  for (const Sample& sample : samples_) {
    if (sample.name == name && Includes(sample.labels, labels)) {
      sum = sum.value_or(0) + sample.value;
    }
  }
  return sum;
}

std::vector<std::string> Metrics::ValuesOf(std::string_view name, const std::string& label) const {
  std::set<std::string> values;
  for (const Sample& sample : samples_) {
    const auto found = sample.labels.find(label);
    if (sample.name == name && found != sample.labels.end()) values.insert(found->second);
  }
  return {values.begin(), values.end()};
}

std::vector<std::pair<double, double>> Metrics::Buckets(const std::string& name,
                                                        const Labels& labels) const {
  std::map<double, double> cumulative;
  for (const Sample& sample : samples_) {
    const auto bound = sample.labels.find("le");
    if (sample.name != name + "_bucket" || bound == sample.labels.end() ||
        !Includes(sample.labels, labels)) {
      continue;
    }
    const double upper = bound->second == "+Inf" ? INFINITY : std::atof(bound->second.c_str());
    cumulative[upper] += sample.value;
  }
  std::vector<std::pair<double, double>> out;
  double before = 0;
  size_t last = 0;
  for (const auto& [upper, count] : cumulative) {
    out.emplace_back(upper, count - before);
    before = count;
    if (out.back().second > 0) last = out.size();
  }
  out.resize(last);
  return out;
}

std::optional<double> Metrics::Quantile(const std::string& name, const Labels& labels,
                                        double q) const {
  const auto buckets = Buckets(name, labels);
  double total = 0;
  for (const auto& [upper, count] : buckets) total += count;
  if (total == 0) return std::nullopt;
  double lower = 0, seen = 0;
  for (const auto& [upper, count] : buckets) {
    if (seen + count >= q * total && count > 0) {
      if (std::isinf(upper)) return lower;
      return lower + (upper - lower) * (q * total - seen) / count;
    }
    seen += count;
    lower = upper;
  }
  return lower;
}

}  // namespace larder::tools
