// An event handler that drops what it has heard already and hands over the rest in batches: to a
// function, or as keys to a work queue.
//
// What is dropped (config.deduplication): an event of an object whose version it has heard already,
// or a newer one, within `ttl`. Such come from a resync, or from a second informer whose selector
// overlaps. Never a delete, and never the way back to an older version after the server's store was
// restored.
//
// What it guarantees: order is kept; a batch whose function fails or throws comes again until it
// succeeds, before everything newer. What it holds is in memory, so the informer acknowledges a
// durable name's changes only when the function has taken them (EventHandler::Flush): after a crash
// they are told again. At most 256 changes are gathered for that, whatever the batch's size.
//
// Thread-safe: may be added to several informers. The function runs on one thread at a time, with
// no lock held; it must not remove its own handler.
//
//   LARDER_ASSIGN_OR_RETURN(auto config, WorkQueueConfig::FromJson(text));
//   auto handler = std::make_shared<BatchingHandler>(config, [](const auto& batch) { ... });
//   pods->AddEventHandler(handler, {.durable_name = config.name});
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "informer/change.h"
#include "informer/event_handler.h"
#include "queue/event_batcher.h"
#include "queue/event_deduplicator.h"
#include "queue/queue_config.h"
#include "queue/work_queue.h"

namespace prometheus {
class Registry;
}

namespace larder {

class BatchingHandler final : public EventHandler {
 public:
  using Batch = std::vector<ObjectChange>;
  using Function = std::function<Result<void>(const Batch&)>;

  // Of the configuration it takes name, deduplication and batching. A registry gets the metrics
  // (docs/metrics.md) under that name, and must outlive this.
  BatchingHandler(const WorkQueueConfig& config, Function function,
                  prometheus::Registry* registry = nullptr, Clock* clock = RealClock());
  // Hands over what is left; what the function goes on refusing is logged.
  ~BatchingHandler() override;

  void OnAdd(const ObjectPtr& object, bool is_in_initial_list) override;
  void OnUpdate(const ObjectPtr& old, const ObjectPtr& now) override;
  void OnDelete(const ObjectPtr& last_known, bool inferred) override;
  std::chrono::nanoseconds MaxDelay() const override { return max_delay_; }
  Result<void> Flush() override { return batcher_.Flush(); }

  uint64_t duplicates() const { return seen_ ? seen_->dropped() : 0; }
  uint64_t failed_batches() const { return batcher_.failures(); }

 private:
  void Take(ObjectChange change);
  bool IsDuplicate(const ObjectChange& change) LARDER_REQUIRES(mutex_);

  const std::string name_;
  const std::chrono::nanoseconds max_delay_;
  // So that of one object nothing older is added after something newer, and what is dropped was
  // added before.
  Mutex mutex_;
  const std::unique_ptr<EventDeduplicator> seen_;  // null: nothing is dropped
  EventBatcher<ObjectChange> batcher_;
  std::shared_ptr<void> publishing_;  // last: it uses the rest
};

// Adds the objects' keys to `queue` and returns when they are synced to its disk, where it has one.
// The queue must outlive the handler. Where queue and informer have one store,
// SharedInformer::AddEnqueuer is better: item and change are then one commit.
BatchingHandler::Function AddKeysTo(WorkQueue* queue);

}  // namespace larder
