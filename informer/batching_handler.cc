#include "informer/batching_handler.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "informer/informer_metrics.h"

namespace larder {
namespace {

EventBatcherOptions BatcherOptions(const WorkQueueConfig& config, Clock* clock) {
  EventBatcherOptions options;
  options.max_items = config.batching.batch_size;
  options.max_delay = config.batching.flush_timeout;
  options.clock = clock;
  return options;
}

}  // namespace

BatchingHandler::BatchingHandler(const WorkQueueConfig& config, Function function,
                                 prometheus::Registry* registry, Clock* clock)
    : name_(config.name),
      max_delay_(config.batching.flush_timeout),
      seen_(MakeEventDeduplicator(config, clock)),
      batcher_(BatcherOptions(config, clock), std::move(function)) {
  if (!registry) return;
  publishing_ = PublishBatching(registry, name_, [this] {
    return BatchingStats{.duplicates = duplicates(), .failed_batches = failed_batches()};
  });
}

BatchingHandler::~BatchingHandler() {
  publishing_.reset();
  if (const Batch left = batcher_.Close(); !left.empty()) {
    spdlog::error("{}: {} changes were not taken; a durable handler hears them again", name_,
                  left.size());
  }
}

void BatchingHandler::OnAdd(const ObjectPtr& object, bool is_in_initial_list) {
  Take({ChangeType::kAdded, nullptr, object, is_in_initial_list, false});
}

void BatchingHandler::OnUpdate(const ObjectPtr& old, const ObjectPtr& now) {
  Take({ChangeType::kUpdated, old, now, false, false});
}

void BatchingHandler::OnDelete(const ObjectPtr& last_known, bool inferred) {
  Take({ChangeType::kDeleted, last_known, nullptr, false, inferred});
}

void BatchingHandler::Take(ObjectChange change) {
  MutexLock lock(mutex_);
  if (seen_ && IsDuplicate(change)) return;
  // Fails only when it is closed, which is when this is gone.
  (void)batcher_.Add(std::move(change));
}

// Objects are known by uid: keys of two resources or clusters may be equal, and their versions say
// nothing of each other.
bool BatchingHandler::IsDuplicate(const ObjectChange& change) {
  if (change.type == ChangeType::kDeleted) {
    // An inferred one has the version that was heard last.
    seen_->Forget(change.old->uid());
    return false;
  }
  const std::string_view uid = change.object->uid();
  const std::string_view version = change.object->resource_version();
  if (change.old) {
    const auto order = CompareResourceVersions(version, change.old->resource_version());
    // The server's store was restored: from here on, older is newer.
    if (order && *order < 0) seen_->Forget(uid);
  }
  return !uid.empty() && !seen_->ShouldProcess(uid, version);
}

BatchingHandler::Function AddKeysTo(WorkQueue* queue) {
  return [queue](const BatchingHandler::Batch& batch) -> Result<void> {
    AddOptions relaxed;
    relaxed.durability = Durability::kRelaxed;
    for (const ObjectChange& change : batch) {
      LARDER_RETURN_IF_ERROR(queue->AddWithOptions(change.current()->key().ToString(), relaxed));
    }
    // Synced, once for all: the informer's own store, where the changes are acknowledged next, may
    // be another one.
    return queue->Flush(Durability::kSync);
  };
}

}  // namespace larder
