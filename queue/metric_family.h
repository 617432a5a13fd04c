// Metrics with common labels in a Prometheus registry, which go with the last one who uses them.
//
// A registry has one metric of a name and labels: whoever asks again gets the same. Two queues of
// one name, or one that is open and another that is refused, share theirs: counters add up, of
// gauges the last word counts, and neither takes them away from the other.
//
// Making and ending families is thread-safe; the registry must outlive them.
//
//   MetricFamily family(&registry, {{"name", "pods"}});
//   family.Gauge("workqueue_depth", "Items that are ready")->Set(1);
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>

#include <functional>
#include <vector>

namespace prometheus {
class Registry;
}

namespace larder::internal {

class MetricFamily {
 public:
  MetricFamily(prometheus::Registry* registry, prometheus::Labels labels);
  ~MetricFamily();
  MetricFamily(const MetricFamily&) = delete;
  MetricFamily& operator=(const MetricFamily&) = delete;

  // Valid as long as this is.
  prometheus::Gauge* Gauge(const char* name, const char* help);
  prometheus::Counter* Counter(const char* name, const char* help,
                               const prometheus::Labels& more = {});
  prometheus::Histogram* Histogram(const char* name, const char* help,
                                   const prometheus::Histogram::BucketBoundaries& bounds);

 private:
  template <typename Metric, typename Builder, typename... Args>
  Metric* Make(Builder builder, const char* name, const char* help,
               const prometheus::Labels& labels, const Args&... args);

  prometheus::Registry* const registry_;
  const prometheus::Labels labels_;
  std::vector<std::function<void()>> removers_;
};

}  // namespace larder::internal
