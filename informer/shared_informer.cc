#include "informer/shared_informer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "base/mutex.h"
#include "base/thread_name.h"
#include "schema/selector.h"

namespace larder {

Result<CollectionSpec> SpecOf(const InformerContext& context, const InformerOptions& options) {
  CollectionSpec spec;
  spec.cluster_uid = context.cluster_uid;
  spec.resource = options.resource;
  spec.ns = options.ns;
  // Canonical, so that two spellings of one selector share one collection.
  LARDER_ASSIGN_OR_RETURN(const LabelSelector labels, LabelSelector::Parse(options.label_selector));
  LARDER_ASSIGN_OR_RETURN(const FieldSelector fields, FieldSelector::Parse(options.field_selector));
  spec.label_selector = labels.ToString();
  spec.field_selector = fields.ToString();
  spec.projection = options.metadata_only ? "metadata" : "";
  spec.transform = options.transform.name;
  spec.shard = options.shard_selector;
  if (options.transform && options.transform.name.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a transform needs a name, one that changes when the transform does");
  }
  return spec;
}

namespace {

std::chrono::milliseconds Between(Clock::Wall from, Clock::Wall to) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::max(to, from) - from);
}

Clock::Wall WallOf(int64_t ms) { return Clock::Wall(std::chrono::milliseconds(ms)); }

// Which collections have an informer in this process: two would write over each other.
class OpenCollections {
 public:
  static bool Take(const Store* store, const std::string& fingerprint) {
    MutexLock lock(mutex_);
    return taken_.emplace(store, fingerprint).second;
  }
  static void Give(const Store* store, const std::string& fingerprint) {
    MutexLock lock(mutex_);
    taken_.erase({store, fingerprint});
  }

 private:
  static inline Mutex mutex_;
  static inline std::set<std::pair<const Store*, std::string>> taken_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace

SharedInformer::SharedInformer(const InformerContext& context, InformerOptions options)
    : context_(context), options_(std::move(options)) {}

Result<std::unique_ptr<SharedInformer>> SharedInformer::Open(const InformerContext& shared,
                                                             InformerOptions options) {
  LARDER_ASSIGN_OR_RETURN(const CollectionSpec spec, SpecOf(shared, options));
  InformerContext context = shared;
  LARDER_ASSIGN_OR_RETURN(context.store, shared.store->KeeperOf(options.resource));
  if (context.store != shared.store) {
    context.hot = nullptr;  // which knows collections by their number in one store
    spdlog::warn(
        "{}: there is no key to encrypt them with, so they are kept in memory alone and "
        "listed at every start",
        spec.ToString());
  }
  std::unique_ptr<SharedInformer> informer(new SharedInformer(context, std::move(options)));
  const InformerOptions& kept = informer->options_;
  const std::string fingerprint = spec.Fingerprint();
  if (!OpenCollections::Take(context.store, fingerprint)) {
    return MakeError(ErrorCode::kAlreadyExists,
                     "{} has an informer in this process already: share it (SharedInformerFactory)",
                     spec.ToString());
  }
  informer->taken_ = fingerprint;
  LARDER_ASSIGN_OR_RETURN(informer->indexer_,
                          Indexer::Open(context.store, context.hot, spec, kept.indexes));
  informer->names_ =
      std::make_unique<DurableNames>(context.store, informer->indexer_->collection().id);
  LARDER_RETURN_IF_ERROR(informer->names_->Load());
  informer->DropNobodysRows();
  informer->KeepForAbsent();
  CollectionSyncOptions sync;
  sync.durability = kept.durability;
  sync.transform = kept.transform.apply;
  sync.on_failure = [raw = informer.get()](const Error& error) {
    raw->reflector_->TargetFailed(error);
  };
  sync.clock = kept.clock;
  informer->sync_ = std::make_unique<CollectionSync>(
      informer->indexer_.get(), static_cast<ChangeSink*>(informer.get()), std::move(sync));
  LARDER_RETURN_IF_ERROR(informer->sync_->LoadSize());
  const int64_t updated_ms = informer->sync_->cursor().updated_ms;
  {
    MutexLock lock(informer->mutex_);
    informer->current_at_ = updated_ms == 0 ? kept.clock->WallNow() : WallOf(updated_ms);
  }
  ReflectorOptions reflector = kept.reflector;
  if (reflector.name.empty()) {
    reflector.name = spec.ToString();
    if (!context.cluster_name.empty()) reflector.name += " @" + context.cluster_name;
  }
  const std::string name = reflector.name;
  reflector.resource = kept.resource;
  reflector.ns = kept.ns;
  reflector.label_selector = spec.label_selector;
  reflector.field_selector = spec.field_selector;
  reflector.shard_selector = kept.shard_selector;
  reflector.metadata_only = kept.metadata_only;
  reflector.transform = kept.transform;
  reflector.clock = kept.clock;
  if (reflector.list_gate == nullptr) reflector.list_gate = context.list_gate;
  if (reflector.registry == nullptr) reflector.registry = context.registry;
  reflector.on_error = [raw = informer.get()](const Error& error) { raw->WatchFailed(error); };
  LARDER_ASSIGN_OR_RETURN(
      informer->reflector_,
      Reflector::Create(std::move(reflector), context.transport, informer->sync_.get()));
  if (context.registry != nullptr) {
    informer->metrics_ = std::make_unique<InformerMetrics>(context.registry, name, context.hot);
    informer->publishing_ =
        PublishRegularly(context.registry, [raw = informer.get()] { raw->PublishMetrics(); });
  }
  return informer;
}

void SharedInformer::KeepForAbsent() {
  MutexLock lock(mutex_);
  for (const std::string& name : names_->All()) {
    absent_.try_emplace(name, indexer_.get(), name);
  }
}

void SharedInformer::DropNobodysRows() {
  const CollectionId collection = indexer_->collection().id;
  const auto handlers = context_.store->DeltaHandlers(collection);
  Result<void> dropped = handlers.map([](const auto&) {});
  for (const std::string& handler : handlers.value_or(std::vector<std::string>())) {
    if (!names_->Revision(handler) && dropped) {
      dropped = context_.store->DropDeltas(collection, handler);
    }
  }
  // They cost room and nothing else: no reason not to start.
  if (!dropped) {
    spdlog::warn("{}: rows of handlers that are gone are still there: {}",
                 indexer_->collection().spec.ToString(), dropped.error().ToString());
  }
}

SharedInformer::~SharedInformer() {
  publishing_.reset();
  Stop();
  if (!taken_.empty()) OpenCollections::Give(context_.store, taken_);
}

Result<void> SharedInformer::Stage(Indexer::Writer& writer, const ObjectChange& change) {
  MutexLock lock(mutex_);
  for (const auto& enqueuer : enqueuers_) StageItems(*enqueuer, writer, change);
  for (auto& [name, kept] : absent_) {
    // What it will see of it nobody knows yet.
    LARDER_RETURN_IF_ERROR(kept.Merge(writer, change, /*only_on_disk=*/true, /*narrowed=*/false));
  }
  for (const Registration& listener : listeners_) {
    LARDER_RETURN_IF_ERROR(listener->Stage(writer, change));
  }
  return {};
}

void SharedInformer::Publish(bool committed) {
  {
    MutexLock lock(mutex_);
    for (const auto& enqueuer : enqueuers_) {
      WorkQueue::Staged staged = std::exchange(enqueuer->staged, {});
      if (committed) enqueuer->queue->Committed(std::move(staged));
    }
    for (const Registration& listener : listeners_) listener->Publish(committed);
    if (!committed) {
      for (auto& [name, kept] : absent_) kept.CommitFailed();
    }
  }
  if (committed) RememberEnqueuers();
}

void SharedInformer::Synced() {
  {
    MutexLock lock(mutex_);
    if (!listed_) {
      listed_ = true;
      // Handlers that were there while the first list came in; those added to a complete collection
      // know already.
      for (const Registration& listener : listeners_) listener->ListComplete();
    }
    changed_.notify_all();
  }
  RememberEnqueuers();
}

void SharedInformer::InSync() {
  MutexLock lock(mutex_);
  changed_.notify_all();
}

void SharedInformer::Start() {
  MutexLock lock(mutex_);
  if (stopped_ || std::exchange(started_, true)) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void SharedInformer::Run(const std::stop_token& stop) {
  NameThread("larder-reflect");
  const Reflector::Outcome outcome = reflector_->Run(stop);
  if (outcome == Reflector::Outcome::kStopped) return;
  std::function<void()> handler;
  {
    MutexLock lock(mutex_);
    handler = another_cluster_;
  }
  spdlog::error("{}: the server is not the cluster that this store was filled from",
                indexer_->collection().spec.ToString());
  if (!handler) return;
  try {
    handler();
  } catch (const std::exception& thrown) {
    spdlog::error("{}: the handler of another cluster threw: {}",
                  indexer_->collection().spec.ToString(), thrown.what());
  } catch (...) {
    spdlog::error("{}: the handler of another cluster threw",
                  indexer_->collection().spec.ToString());
  }
}

std::vector<std::string> SharedInformer::Stop() { return StopBy(GraceEnd()); }

std::vector<std::string> SharedInformer::StopBy(Clock::Steady deadline) {
  return EndHandlers(EndStream(), deadline);
}

std::vector<SharedInformer::Registration> SharedInformer::EndStream() {
  std::vector<Registration> listeners;
  {
    MutexLock lock(mutex_);
    if (stopped_.exchange(true)) return {};
    thread_.request_stop();
    listeners = listeners_;
    listeners.insert(listeners.end(), retired_.begin(), retired_.end());
    changed_.notify_all();
  }
  if (sync_) sync_->Stop();
  // A handler that stops it from its own thread is not waited for: it ends with that call.
  const bool own = thread_.get_id() == std::this_thread::get_id();
  if (thread_.joinable() && !own) thread_.join();
  // All are told before any is waited for: they share the grace.
  for (const Registration& listener : listeners) listener->RequestStop();
  return listeners;
}

std::vector<std::string> SharedInformer::EndHandlers(const std::vector<Registration>& listeners,
                                                     Clock::Steady deadline) {
  std::vector<std::string> left;
  for (const Registration& listener : listeners) {
    if (!listener->Stop(deadline)) left.push_back(listener->name());
  }
  return left;
}

void SharedInformer::RequestStop() {
  MutexLock lock(mutex_);
  thread_.request_stop();
}

bool SharedInformer::IsStarted() const {
  MutexLock lock(mutex_);
  return started_;
}

Result<void> SharedInformer::EnsureIndexers(std::vector<IndexDefinition> indexes) {
  MutexLock lock(indexers_mutex_);
  std::vector<IndexDefinition> fresh;
  const std::vector<IndexDefinition> present = indexer_->GetIndexers();
  for (IndexDefinition& wanted : indexes) {
    const auto same = std::find_if(present.begin(), present.end(), [&](const auto& index) {
      return index.name() == wanted.name();
    });
    if (same == present.end()) {
      fresh.push_back(std::move(wanted));
    } else if (same->definition() != wanted.definition()) {
      return MakeError(ErrorCode::kAlreadyExists, "{}: index {} is {} already, asked for as {}",
                       indexer_->collection().spec.ToString(), wanted.name(), same->definition(),
                       wanted.definition());
    }
  }
  return fresh.empty() ? Result<void>() : indexer_->AddIndexers(std::move(fresh));
}

void SharedInformer::SetAnotherClusterHandler(std::function<void()> handler) {
  MutexLock lock(mutex_);
  another_cluster_ = std::move(handler);
}

void SharedInformer::SetWatchErrorHandler(std::function<void(const Error&)> handler) {
  MutexLock lock(mutex_);
  watch_error_ = std::move(handler);
}

void SharedInformer::WatchFailed(const Error& error) {
  std::function<void(const Error&)> handler;
  {
    MutexLock lock(mutex_);
    handler = watch_error_;
  }
  if (!handler) return;
  try {
    handler(error);
  } catch (const std::exception& thrown) {
    spdlog::error("{}: the watch error handler threw: {}", indexer_->collection().spec.ToString(),
                  thrown.what());
  } catch (...) {
    spdlog::error("{}: the watch error handler threw", indexer_->collection().spec.ToString());
  }
}

bool SharedInformer::HasSynced() const {
  return sync_->cursor().Complete() && reflector_->Status().synced;
}

Result<void> SharedInformer::WaitForSync(Clock::Steady deadline,
                                         const std::stop_token& stop) const {
  MutexLock lock(mutex_);
  while (!HasSynced()) {
    if (options_.clock->Now() >= deadline) {
      const auto status = reflector_->Status();
      return MakeError(ErrorCode::kTimeout, "{} is not synced: {}{}",
                       indexer_->collection().spec.ToString(), ToString(status.state),
                       status.error ? ", " + status.error->ToString() : std::string());
    }
    if (stopped_ || !options_.clock->WaitUntil(mutex_, changed_, deadline, stop)) {
      return MakeError(ErrorCode::kCancelled, "stopped before the first sync");
    }
  }
  return {};
}

std::chrono::milliseconds SharedInformer::CursorAge() const {
  return Between(WallOf(sync_->cursor().updated_ms), options_.clock->WallNow());
}

std::chrono::milliseconds SharedInformer::SyncLag() const {
  const auto now = options_.clock->WallNow();
  const bool current =
      HasSynced() && sync_->Idle() && reflector_->Status().state == ReflectorState::kWatching;
  MutexLock lock(mutex_);
  if (current) current_at_ = now;
  return Between(current_at_, now);
}

void SharedInformer::PublishMetrics() {
  if (metrics_) metrics_->Publish(Status());
}

InformerStatus SharedInformer::Status() const {
  InformerStatus status;
  status.synced = HasSynced();
  status.cursor = sync_->cursor();
  status.cursor_age = CursorAge();
  status.sync_lag = SyncLag();
  status.reflector = reflector_->Status();
  if (status.reflector.last_bookmark) {
    status.bookmark_age = Between(*status.reflector.last_bookmark, options_.clock->WallNow());
  }
  status.sync = sync_->Stats();
  MutexLock lock(mutex_);
  for (const Registration& listener : listeners_) {
    status.handlers.emplace_back(listener->name(), listener->Stats());
  }
  return status;
}

}  // namespace larder
