#include "queue/metric_family.h"

#include <prometheus/registry.h>

#include <unordered_map>
#include <utility>

#include "base/mutex.h"

namespace larder::internal {
namespace {

// How many families of this process use each metric.
struct Users {
  Mutex mutex;
  std::unordered_map<const void*, size_t> of LARDER_GUARDED_BY(mutex);

  static Users& Instance() {
    static Users users;
    return users;
  }
};

}  // namespace

MetricFamily::MetricFamily(prometheus::Registry* registry, prometheus::Labels labels)
    : registry_(registry), labels_(std::move(labels)) {}

MetricFamily::~MetricFamily() {
  for (const auto& remove : removers_) remove();
}

prometheus::Gauge* MetricFamily::Gauge(const char* name, const char* help) {
  return Make<prometheus::Gauge>(prometheus::BuildGauge(), name, help, labels_);
}

prometheus::Counter* MetricFamily::Counter(const char* name, const char* help,
                                           const prometheus::Labels& more) {
  prometheus::Labels labels = labels_;
  labels.insert(more.begin(), more.end());
  return Make<prometheus::Counter>(prometheus::BuildCounter(), name, help, labels);
}

prometheus::Histogram* MetricFamily::Histogram(
    const char* name, const char* help, const prometheus::Histogram::BucketBoundaries& bounds) {
  return Make<prometheus::Histogram>(prometheus::BuildHistogram(), name, help, labels_, bounds);
}

template <typename Metric, typename Builder, typename... Args>
Metric* MetricFamily::Make(Builder builder, const char* name, const char* help,
                           const prometheus::Labels& labels, const Args&... args) {
  Users& users = Users::Instance();
  // Held while the metric is looked up: the last of its users must not take it out meanwhile.
  MutexLock lock(users.mutex);
  auto& family = builder.Name(name).Help(help).Register(*registry_);
  Metric* metric = &family.Add(labels, args...);
  ++users.of[metric];
  removers_.push_back([&users, &family, metric] {
    MutexLock removing(users.mutex);
    const auto entry = users.of.find(metric);
    if (--entry->second > 0) return;
    users.of.erase(entry);
    family.Remove(metric);
  });
  return metric;
}

}  // namespace larder::internal
