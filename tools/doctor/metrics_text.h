// Prometheus' text form, read back.
//
//   const Metrics metrics = Metrics::Parse(body);
//   metrics.Sum("workqueue_depth", {{"name", "pods"}});
//   metrics.Quantile("workqueue_queue_duration_seconds", {{"name", "pods"}}, 0.99);
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace larder::tools {

using Labels = std::map<std::string, std::string>;

struct Sample {
  std::string name;
  Labels labels;
  double value = 0;
};

class Metrics {
 public:
  // Lines that are no samples are left out.
  static Metrics Parse(std::string_view text);

  // The sum of all samples of this name whose labels include these; nullopt: there is none.
  std::optional<double> Sum(std::string_view name, const Labels& labels = {}) const;
  // Every value that a label has among samples of this name, sorted.
  std::vector<std::string> ValuesOf(std::string_view name, const std::string& label) const;
  // Of a histogram, interpolated within its bucket; nullopt: nothing was observed.
  std::optional<double> Quantile(const std::string& name, const Labels& labels, double q) const;
  // Buckets as (upper bound, count within), without those above the last observation.
  std::vector<std::pair<double, double>> Buckets(const std::string& name,
                                                 const Labels& labels) const;
  bool Empty() const { return samples_.empty(); }

 private:
  std::vector<Sample> samples_;
};

}  // namespace larder::tools
