#include "informer/shared_informer.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "schema/selector.h"

namespace larder {
namespace {

Result<CollectionSpec> MakeSpec(const InformerContext& context, const InformerOptions& options) {
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
  spec.transform = options.transform_name;
  spec.shard = options.shard_selector;
  if (options.transform && options.transform_name.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a transform needs a transform_name that changes when the transform does");
  }
  return spec;
}

std::string NoteName(const std::string& name, CollectionId collection) {
  return "enqueuer/" + std::to_string(collection) + "/" + name;
}

}  // namespace

SharedInformer::SharedInformer(const InformerContext& context, InformerOptions options)
    : context_(context), options_(std::move(options)) {}

Result<std::unique_ptr<SharedInformer>> SharedInformer::Open(const InformerContext& context,
                                                             InformerOptions options) {
  LARDER_ASSIGN_OR_RETURN(const CollectionSpec spec, MakeSpec(context, options));
  std::unique_ptr<SharedInformer> informer(new SharedInformer(context, std::move(options)));
  const InformerOptions& kept = informer->options_;
  LARDER_ASSIGN_OR_RETURN(informer->indexer_,
                          Indexer::Open(context.store, context.hot, spec, kept.indexes));
  CollectionSyncOptions sync;
  sync.durability = kept.durability;
  sync.transform = kept.transform;
  sync.clock = kept.clock;
  informer->sync_ = std::make_unique<CollectionSync>(
      informer->indexer_.get(), static_cast<ChangeSink*>(informer.get()), std::move(sync));
  ReflectorOptions reflector = kept.reflector;
  reflector.resource = kept.resource;
  reflector.ns = kept.ns;
  reflector.label_selector = spec.label_selector;
  reflector.field_selector = spec.field_selector;
  reflector.shard_selector = kept.shard_selector;
  reflector.metadata_only = kept.metadata_only;
  reflector.clock = kept.clock;
  LARDER_ASSIGN_OR_RETURN(
      informer->reflector_,
      Reflector::Create(std::move(reflector), context.transport, informer->sync_.get()));
  return informer;
}

SharedInformer::~SharedInformer() { Stop(); }

Result<SharedInformer::Registration> SharedInformer::AddEventHandler(
    std::shared_ptr<EventHandler> handler, HandlerOptions options) {
  if (options.resync_period.count() == 0) options.resync_period = options_.resync_period;
  Registration listener;
  {
    // Under the write lock: what is stored now and what is staged from now on are all there is.
    const auto writer = indexer_->BeginWrite();
    std::lock_guard lock(mutex_);
    std::string name = options.durable_name;
    if (name.empty()) {
      name = "~" + std::to_string(++handler_count_);  // no durable name begins so
    } else if (name[0] == '~') {
      return MakeError(ErrorCode::kInvalidArgument, "a durable name must not begin with '~': {}",
                       name);
    }
    for (const Registration& other : listeners_) {
      if (other->name() == name) {
        return MakeError(ErrorCode::kAlreadyExists, "there is a handler named {} already", name);
      }
    }
    listener = std::make_shared<Listener>(indexer_.get(), std::move(handler), std::move(options),
                                          name, options_.clock);
    LARDER_RETURN_IF_ERROR(listener->Open(sync_->cursor().Complete()));
    listeners_.push_back(listener);
  }
  listener->Start();
  return listener;
}

Result<void> SharedInformer::RemoveEventHandler(const Registration& registration) {
  {
    const auto writer = indexer_->BeginWrite();
    std::lock_guard lock(mutex_);
    const auto it = std::find(listeners_.begin(), listeners_.end(), registration);
    if (it == listeners_.end()) return MakeError(ErrorCode::kNotFound, "no such handler");
    listeners_.erase(it);
  }
  registration->Stop();
  return {};
}

Result<void> SharedInformer::AddEnqueuer(WorkQueue* queue, EnqueuerOptions options,
                                         EnqueueFunction function) {
  auto enqueuer = std::make_shared<Enqueuer>();
  enqueuer->queue = queue;
  enqueuer->options = std::move(options);
  enqueuer->function = std::move(function);
  {
    const auto writer = indexer_->BeginWrite();
    LARDER_ASSIGN_OR_RETURN(
        const auto note,
        context_.store->GetNote(NoteName(enqueuer->options.name, indexer_->collection().id)));
    enqueuer->initial_due = !note || *note != std::to_string(enqueuer->options.revision);
    std::lock_guard lock(mutex_);
    enqueuers_.push_back(enqueuer);
  }
  if (enqueuer->initial_due) return EnqueueAll(*enqueuer);
  return {};
}

// A new name: every object that is stored, once. Changes that are committed meanwhile, and the rest
// of a first list, are enqueued by their own commits; an item that comes twice is one item.
Result<void> SharedInformer::EnqueueAll(Enqueuer& enqueuer) {
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(indexer_->ForEach({}, [&](const ObjectPtr& object) {
    enqueuer.function(
        {ChangeType::kAdded, nullptr, object, true, false}, [&](std::string_view item, int32_t) {
          auto added = enqueuer.queue->AddWithPriority(item, enqueuer.options.initial_priority);
          if (!added) outcome = added;
        });
    return outcome.has_value();
  }));
  LARDER_RETURN_IF_ERROR(outcome);
  // The items first: a crash between the two only repeats them.
  LARDER_RETURN_IF_ERROR(enqueuer.queue->Flush());
  if (!sync_->cursor().Complete()) return {};
  return RememberEnqueuer(enqueuer);
}

Result<void> SharedInformer::RememberEnqueuer(Enqueuer& enqueuer) {
  Transaction transaction = context_.store->Begin();
  transaction.PutNote(NoteName(enqueuer.options.name, indexer_->collection().id),
                      std::to_string(enqueuer.options.revision));
  LARDER_RETURN_IF_ERROR(context_.store->Commit(std::move(transaction), Durability::kRelaxed));
  std::lock_guard lock(mutex_);
  enqueuer.initial_due = false;
  return {};
}

Result<void> SharedInformer::Stage(Indexer::Writer& writer, const ObjectChange& change) {
  std::lock_guard lock(mutex_);
  for (const auto& enqueuer : enqueuers_) {
    enqueuer->function(change, [&](std::string_view item, int32_t priority) {
      enqueuer->queue->Stage(writer.transaction(), item,
                             change.in_initial_list ? enqueuer->options.initial_priority : priority,
                             &enqueuer->staged);
    });
  }
  for (const Registration& listener : listeners_) {
    LARDER_RETURN_IF_ERROR(listener->Stage(writer, change));
  }
  return {};
}

void SharedInformer::Publish(bool committed) {
  std::lock_guard lock(mutex_);
  for (const auto& enqueuer : enqueuers_) {
    WorkQueue::Staged staged = std::exchange(enqueuer->staged, {});
    if (committed) enqueuer->queue->Committed(std::move(staged));
  }
  for (const Registration& listener : listeners_) listener->Publish(committed);
}

void SharedInformer::Synced() {
  std::vector<std::shared_ptr<Enqueuer>> due;
  {
    std::lock_guard lock(mutex_);
    if (!listed_) {
      listed_ = true;
      // Handlers that were there while the first list came in; those added to a complete collection
      // know already.
      for (const Registration& listener : listeners_) listener->ListComplete();
    }
    for (const auto& enqueuer : enqueuers_) {
      if (enqueuer->initial_due) due.push_back(enqueuer);
    }
    changed_.notify_all();
  }
  // Every object of the first list was enqueued within its own commit: the names are known from now
  // on.
  for (const auto& enqueuer : due) {
    if (auto outcome = RememberEnqueuer(*enqueuer); !outcome) {
      spdlog::warn("{}: {}; everything is enqueued again after a restart", enqueuer->options.name,
                   outcome.error().ToString());
    }
  }
}

void SharedInformer::Start() {
  std::lock_guard lock(mutex_);
  if (std::exchange(started_, true)) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void SharedInformer::Run(const std::stop_token& stop) {
  const Reflector::Outcome outcome = reflector_->Run(stop);
  if (outcome == Reflector::Outcome::kStopped) return;
  std::function<void()> handler;
  {
    std::lock_guard lock(mutex_);
    handler = another_cluster_;
  }
  spdlog::error("{}: the server is not the cluster that this store was filled from",
                indexer_->collection().spec.ToString());
  if (handler) handler();
}

void SharedInformer::Stop() {
  if (stopped_.exchange(true)) return;
  if (sync_) sync_->Stop();
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  std::vector<Registration> listeners;
  {
    std::lock_guard lock(mutex_);
    listeners = listeners_;
    changed_.notify_all();
  }
  for (const Registration& listener : listeners) listener->Stop();
}

void SharedInformer::SetAnotherClusterHandler(std::function<void()> handler) {
  std::lock_guard lock(mutex_);
  another_cluster_ = std::move(handler);
}

bool SharedInformer::HasSynced() const {
  return sync_->cursor().Complete() && reflector_->Status().synced;
}

Result<void> SharedInformer::WaitForSync(Clock::Steady deadline,
                                         const std::stop_token& stop) const {
  // The reflector has no condition to wait on for "watch opened"; a look every few milliseconds is
  // cheap and only happens at start.
  while (!HasSynced()) {
    if (options_.clock->Now() >= deadline) {
      const auto status = reflector_->Status();
      return MakeError(ErrorCode::kTimeout, "{} is not synced: {}{}",
                       indexer_->collection().spec.ToString(), ToString(status.state),
                       status.error ? ", " + status.error->ToString() : std::string());
    }
    if (stopped_ || !options_.clock->SleepFor(std::chrono::milliseconds(2), stop)) {
      return MakeError(ErrorCode::kCancelled, "stopped before the first sync");
    }
  }
  return {};
}

std::chrono::milliseconds SharedInformer::CursorAge() const {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      options_.clock->WallNow().time_since_epoch());
  return now - std::chrono::milliseconds(sync_->cursor().updated_ms);
}

InformerStatus SharedInformer::Status() const {
  InformerStatus status;
  status.synced = HasSynced();
  status.cursor = sync_->cursor();
  status.reflector = reflector_->Status();
  status.sync = sync_->Stats();
  std::lock_guard lock(mutex_);
  for (const Registration& listener : listeners_) {
    status.handlers.emplace_back(listener->name(), listener->Stats());
  }
  return status;
}

}  // namespace larder
