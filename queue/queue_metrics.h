// A work queue's metrics in a Prometheus registry, under client-go's names with the label "name".
//
// Publish() moves what was counted since the last call; the queue calls it twice a second, so that
// workers never touch the registry. Thread-safe; Publish() calls must not overlap. Queues of one
// name in one registry share their metrics (queue/metric_family.h).
#pragma once

#include <memory>
#include <string>

#include "queue/queue_counters.h"

namespace prometheus {
class Registry;
}

namespace larder::internal {

class QueueMetrics {
 public:
  QueueMetrics(prometheus::Registry* registry, const std::string& name, bool durable);
  ~QueueMetrics();
  QueueMetrics(const QueueMetrics&) = delete;
  QueueMetrics& operator=(const QueueMetrics&) = delete;

  // `now_nanos` on the clock of the counters' start times.
  void Publish(const QueueCounters& counters, int64_t now_nanos);

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace larder::internal
