#include "informer/informer_metrics.h"

#include <chrono>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "indexer/hot_tier.h"
#include "informer/shared_informer.h"
#include "queue/metric_family.h"

namespace larder {

using internal::MetricFamily;

namespace {

double Seconds(std::chrono::milliseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

// A counter that follows a count kept elsewhere.
class Following {
 public:
  explicit Following(prometheus::Counter* counter) : counter_(counter) {}
  void MoveTo(uint64_t count) {
    if (count > seen_) counter_->Increment(static_cast<double>(count - seen_));
    seen_ = count;
  }

 private:
  prometheus::Counter* const counter_;
  uint64_t seen_ = 0;
};

// The hot tier is shared by many informers, and published once.
class HotTierMetrics {
 public:
  HotTierMetrics(prometheus::Registry* registry, HotTier* hot)
      : hot_(hot),
        family_(registry, {}),
        objects_(family_.Gauge("larder_hot_tier_objects", "Decoded objects in memory")),
        bytes_(family_.Gauge("larder_hot_tier_bytes", "Bytes of decoded objects in memory")),
        hits_(family_.Counter("cache_hits_total", "Reads served from memory")),
        misses_(family_.Counter("cache_misses_total", "Reads that went to the disk")),
        evictions_(family_.Counter("larder_hot_tier_evictions_total",
                                   "Objects dropped to disk for want of memory")),
        expired_(family_.Counter("larder_hot_tier_expired_total",
                                 "Objects dropped to disk because of their TTL")) {}

  void Publish() {
    const HotTier::Stats stats = hot_->GetStats();
    MutexLock lock(mutex_);
    objects_->Set(static_cast<double>(stats.objects));
    bytes_->Set(static_cast<double>(stats.bytes));
    hits_.MoveTo(stats.hits);
    misses_.MoveTo(stats.misses);
    evictions_.MoveTo(stats.evictions);
    expired_.MoveTo(stats.expired);
  }

  static std::shared_ptr<HotTierMetrics> For(prometheus::Registry* registry, HotTier* hot) {
    static Mutex mutex;
    static std::map<std::pair<prometheus::Registry*, HotTier*>, std::weak_ptr<HotTierMetrics>> all
        LARDER_GUARDED_BY(mutex);
    MutexLock lock(mutex);
    auto& known = all[{registry, hot}];
    std::shared_ptr<HotTierMetrics> metrics = known.lock();
    if (!metrics) known = metrics = std::make_shared<HotTierMetrics>(registry, hot);
    return metrics;
  }

 private:
  HotTier* const hot_;
  Mutex mutex_;
  MetricFamily family_;
  prometheus::Gauge* const objects_;
  prometheus::Gauge* const bytes_;
  Following hits_ LARDER_GUARDED_BY(mutex_);
  Following misses_ LARDER_GUARDED_BY(mutex_);
  Following evictions_ LARDER_GUARDED_BY(mutex_);
  Following expired_ LARDER_GUARDED_BY(mutex_);
};

class HandlerMetrics {
 public:
  HandlerMetrics(prometheus::Registry* registry, const std::string& collection,
                 const std::string& handler)
      : family_(registry, {{"collection", collection}, {"handler", handler}}),
        waiting_(family_.Gauge("larder_handler_waiting",
                               "Changes that wait for the handler, in memory and on disk")),
        lag_(family_.Gauge("larder_handler_lag_seconds",
                           "Age of the oldest change that waits for the handler")),
        spilling_(family_.Gauge("larder_handler_spilling",
                                "1 while the handler's changes go to disk, merged per key")),
        delivered_(family_.Counter("larder_handler_delivered_total", "Calls of the handler")),
        merged_(family_.Counter("larder_handler_merges_total",
                                "Changes that joined one which waited already")),
        spilled_(family_.Counter("larder_handler_spilled_total",
                                 "Changes that went to disk because the handler was behind")),
        exceptions_(family_.Counter("larder_handler_exceptions_total",
                                    "Calls of the handler or its filter that threw")),
        resyncs_(family_.Counter("larder_handler_resyncs_total", "Resyncs begun")) {}

  void Publish(const ListenerStats& stats) {
    waiting_->Set(static_cast<double>(stats.buffered + (stats.spilling ? stats.rows : 0)));
    lag_->Set(Seconds(stats.lag));
    spilling_->Set(stats.spilling ? 1 : 0);
    delivered_.MoveTo(stats.delivered);
    merged_.MoveTo(stats.merged);
    spilled_.MoveTo(stats.spilled);
    exceptions_.MoveTo(stats.exceptions);
    resyncs_.MoveTo(stats.resyncs);
  }

 private:
  MetricFamily family_;
  prometheus::Gauge* const waiting_;
  prometheus::Gauge* const lag_;
  prometheus::Gauge* const spilling_;
  Following delivered_;
  Following merged_;
  Following spilled_;
  Following exceptions_;
  Following resyncs_;
};

Following Events(MetricFamily& family, const char* type) {
  return Following(family.Counter("larder_informer_events_total",
                                  "Committed changes by what happened to the object",
                                  {{"type", type}}));
}

}  // namespace

struct InformerMetrics::Rep {
  Rep(prometheus::Registry* registry_in, std::string collection_in, HotTier* hot_in)
      : registry(registry_in),
        collection(std::move(collection_in)),
        hot(hot_in ? HotTierMetrics::For(registry_in, hot_in) : nullptr),
        family(registry, {{"collection", collection}}),
        size(family.Gauge("cache_size", "Objects in the collection")),
        bytes(family.Gauge("larder_informer_bytes", "Bytes of the collection's objects as JSON")),
        sync_lag(family.Gauge("cache_sync_lag",
                              "Seconds for which the cache may be "
                              "behind the server; 0: it is not")),
        cursor_age(family.Gauge("larder_informer_cursor_age_seconds",
                                "Seconds since the stored resourceVersion moved")),
        bookmark_age(family.Gauge("larder_informer_bookmark_age_seconds",
                                  "Seconds since the last bookmark; -1: none came yet")),
        commits(family.Counter("larder_informer_commits_total", "Commits")),
        added(Events(family, "added")),
        updated(Events(family, "updated")),
        deleted(Events(family, "deleted")),
        unchanged(Events(family, "unchanged")) {}

  prometheus::Registry* const registry;
  const std::string collection;
  const std::shared_ptr<HotTierMetrics> hot;
  Mutex mutex;
  MetricFamily family;
  prometheus::Gauge* const size;
  prometheus::Gauge* const bytes;
  prometheus::Gauge* const sync_lag;
  prometheus::Gauge* const cursor_age;
  prometheus::Gauge* const bookmark_age;
  Following commits LARDER_GUARDED_BY(mutex);
  Following added LARDER_GUARDED_BY(mutex);
  Following updated LARDER_GUARDED_BY(mutex);
  Following deleted LARDER_GUARDED_BY(mutex);
  Following unchanged LARDER_GUARDED_BY(mutex);
  std::map<std::string, std::unique_ptr<HandlerMetrics>> handlers LARDER_GUARDED_BY(mutex);
};

InformerMetrics::InformerMetrics(prometheus::Registry* registry, std::string collection,
                                 HotTier* hot)
    : rep_(std::make_unique<Rep>(registry, std::move(collection), hot)) {}

InformerMetrics::~InformerMetrics() = default;

void InformerMetrics::Publish(const InformerStatus& status) {
  if (rep_->hot) rep_->hot->Publish();
  MutexLock lock(rep_->mutex);
  rep_->size->Set(static_cast<double>(status.sync.objects));
  rep_->bytes->Set(static_cast<double>(status.sync.bytes));
  rep_->sync_lag->Set(Seconds(status.sync_lag));
  rep_->cursor_age->Set(Seconds(status.cursor_age));
  rep_->bookmark_age->Set(status.bookmark_age ? Seconds(*status.bookmark_age) : -1);
  rep_->commits.MoveTo(status.sync.commits);
  rep_->added.MoveTo(status.sync.added);
  rep_->updated.MoveTo(status.sync.updated);
  rep_->deleted.MoveTo(status.sync.deleted);
  rep_->unchanged.MoveTo(status.sync.unchanged);
  std::map<std::string, std::unique_ptr<HandlerMetrics>> still;
  for (const auto& [name, stats] : status.handlers) {
    std::unique_ptr<HandlerMetrics> metrics = std::move(rep_->handlers[name]);
    if (!metrics) {
      metrics = std::make_unique<HandlerMetrics>(rep_->registry, rep_->collection, name);
    }
    metrics->Publish(stats);
    still[name] = std::move(metrics);
  }
  rep_->handlers = std::move(still);
}

std::shared_ptr<void> PublishBatching(prometheus::Registry* registry, const std::string& handler,
                                      std::function<BatchingStats()> stats) {
  struct Published {
    Published(prometheus::Registry* to, const std::string& name)
        : family(to, {{"handler", name}}),
          duplicates(family.Counter("larder_handler_duplicates_total",
                                    "Events that were dropped because they were heard before")),
          failures(family.Counter("larder_handler_batch_failures_total",
                                  "Batches that the handler's function did not take")) {}
    MetricFamily family;
    Following duplicates;
    Following failures;
  };
  const auto published = std::make_shared<Published>(registry, handler);
  return PublishRegularly(registry, [published, stats = std::move(stats)] {
    const BatchingStats now = stats();
    published->duplicates.MoveTo(now.duplicates);
    published->failures.MoveTo(now.failed_batches);
  });
}

}  // namespace larder
