#include "queue/queue_metrics.h"

#include <vector>

#include "queue/metric_family.h"

namespace larder::internal {
namespace {

constexpr double kNanosPerSecond = 1e9;

prometheus::Histogram::BucketBoundaries Bounds() {
  prometheus::Histogram::BucketBoundaries bounds;
  for (const int64_t nanos : DurationHistogram::kBoundsNanos) {
    bounds.push_back(static_cast<double>(nanos) / kNanosPerSecond);
  }
  return bounds;
}

void Move(prometheus::Counter* to, uint64_t count, uint64_t published) {
  if (count != published) to->Increment(static_cast<double>(count - published));
}

void Move(prometheus::Histogram* to, const DurationHistogram& counted,
          const DurationHistogram& published) {
  if (counted.total == published.total) return;
  std::vector<double> increments(counted.counts.size());
  for (size_t i = 0; i < increments.size(); ++i) {
    increments[i] = static_cast<double>(counted.counts[i] - published.counts[i]);
  }
  to->ObserveMultiple(
      increments, static_cast<double>(counted.sum_nanos - published.sum_nanos) / kNanosPerSecond);
}

}  // namespace

struct QueueMetrics::Rep {
  Rep(prometheus::Registry* registry, const std::string& name)
      : family(registry, {{"name", name}}) {}

  MetricFamily family;
  QueueCounters published;

  prometheus::Gauge* depth = nullptr;
  prometheus::Counter* adds = nullptr;
  prometheus::Histogram* queue_duration = nullptr;
  prometheus::Histogram* work_duration = nullptr;
  prometheus::Gauge* unfinished_work = nullptr;
  prometheus::Gauge* longest_running = nullptr;
  prometheus::Counter* retries = nullptr;
  prometheus::Gauge* dead = nullptr;

  // Null for a queue in memory.
  prometheus::Gauge* unwritten = nullptr;
  prometheus::Counter* loaded = nullptr;
  prometheus::Counter* written = nullptr;
  prometheus::Counter* deleted = nullptr;
  prometheus::Counter* flush_errors = nullptr;
  prometheus::Histogram* flush_duration = nullptr;
};

QueueMetrics::QueueMetrics(prometheus::Registry* registry, const std::string& name, bool durable)
    : rep_(std::make_unique<Rep>(registry, name)) {
  MetricFamily& family = rep_->family;
  rep_->depth =
      family.Gauge("workqueue_depth", "Items that are ready, or were added again while in process");
  rep_->adds = family.Counter("workqueue_adds_total", "Items that became ready");
  rep_->queue_duration = family.Histogram("workqueue_queue_duration_seconds",
                                          "Seconds from ready to taken by a worker", Bounds());
  rep_->work_duration = family.Histogram("workqueue_work_duration_seconds",
                                         "Seconds from taken by a worker to done", Bounds());
  rep_->unfinished_work = family.Gauge("workqueue_unfinished_work_seconds",
                                       "Seconds spent so far on items in process, summed");
  rep_->longest_running = family.Gauge("workqueue_longest_running_processor_seconds",
                                       "Seconds since the oldest item in process was taken");
  rep_->retries =
      family.Counter("workqueue_retries_total", "Items added with a delay or after a failure");
  rep_->dead = family.Gauge("workqueue_dead_letters", "Items whose retries are used up");
  if (!durable) return;
  rep_->unwritten = family.Gauge("workqueue_unwritten_changes", "Changes that are not on disk yet");
  rep_->loaded =
      family.Counter("workqueue_loaded_total", "Items that came back from disk at the start");
  rep_->written = family.Counter("workqueue_records_written_total", "Records written to disk");
  rep_->deleted = family.Counter("workqueue_records_deleted_total", "Records deleted from disk");
  rep_->flush_errors = family.Counter("workqueue_flush_errors_total", "Writes to disk that failed");
  rep_->flush_duration = family.Histogram("workqueue_flush_duration_seconds",
                                          "How long one write to disk took", Bounds());
}

QueueMetrics::~QueueMetrics() = default;

void QueueMetrics::Publish(const QueueCounters& counters, int64_t now_nanos) {
  const QueueCounters& published = rep_->published;
  rep_->depth->Set(static_cast<double>(counters.depth));
  Move(rep_->adds, counters.adds, published.adds);
  Move(rep_->queue_duration, counters.queue_duration, published.queue_duration);
  Move(rep_->work_duration, counters.work_duration, published.work_duration);
  Move(rep_->retries, counters.retries, published.retries);
  // Unsigned, so that the product may wrap: the difference is small.
  const uint64_t unfinished = counters.processing * static_cast<uint64_t>(now_nanos) -
                              static_cast<uint64_t>(counters.sum_started_nanos);
  rep_->unfinished_work->Set(static_cast<double>(static_cast<int64_t>(unfinished)) /
                             kNanosPerSecond);
  rep_->longest_running->Set(counters.processing == 0
                                 ? 0
                                 : static_cast<double>(now_nanos - counters.oldest_started_nanos) /
                                       kNanosPerSecond);
  rep_->dead->Set(static_cast<double>(counters.dead));
  if (rep_->unwritten != nullptr) {
    rep_->unwritten->Set(static_cast<double>(counters.unwritten));
    Move(rep_->loaded, counters.loaded, published.loaded);
    Move(rep_->written, counters.records_written, published.records_written);
    Move(rep_->deleted, counters.records_deleted, published.records_deleted);
    Move(rep_->flush_errors, counters.flush_errors, published.flush_errors);
    Move(rep_->flush_duration, counters.flush_duration, published.flush_duration);
  }
  rep_->published = counters;
}

}  // namespace larder::internal
