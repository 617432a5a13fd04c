// What a manager is made of when it runs: informers, queues, and controllers on them.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "controller/manager_impl.h"
#include "controller/owner.h"
#include "informer/informer_config.h"
#include "queue/queue_config.h"

namespace larder {
namespace {

using std::chrono::milliseconds;

// Of waiting for indexes: how soon a stop is noticed, and how many pieces pass before the log says
// what is waited for.
constexpr milliseconds kIndexPiece{100};
constexpr int kIndexPiecesBeforeLog = 100;

// "services (owner, node)"
std::string NotBuilt(const Indexer& indexer) {
  std::string names;
  for (const Indexer::BuildProgress& one : indexer.Progress()) {
    if (one.ready) continue;
    names += (names.empty() ? "" : ", ") + one.index;
    if (one.error) names += ": " + one.error->message;
  }
  return indexer.collection().spec.ToString() + " (" + names + ")";
}

std::string RoleName(SourceRole role) {
  switch (role) {
    case SourceRole::kFor:
      return "for";
    case SourceRole::kOwns:
      return "owns";
    case SourceRole::kWatches:
      break;
  }
  return "watches";
}

// A source is known by what it is, so that changing the order of calls changes nothing.
std::string SourceName(const std::string& controller, SourceRole role, const Resource& resource) {
  return fmt::format("{}/{}/{}", controller, RoleName(role), resource.ToString());
}

// Whichever controller's. Another enqueuer of the same informer is whoever's added it.
bool IsSourceName(const std::string& name, const Resource& resource) {
  const auto roles = {SourceRole::kFor, SourceRole::kOwns, SourceRole::kWatches};
  return std::any_of(roles.begin(), roles.end(), [&](SourceRole role) {
    return name.find(SourceName({}, role, resource)) != std::string::npos;
  });
}

tl::unexpected<Error> Named(const Controller::Definition& definition, Error error) {
  error.message = "controller " + definition.name + ": " + error.message;
  return tl::unexpected(std::move(error));
}

}  // namespace

Result<void> Manager::Impl::MakeControllers(const std::stop_token& stop) {
  InformerContext context;
  context.store = store.get();
  context.hot = hot.get();
  context.transport = transport.get();
  context.cluster_uid = cluster_uid;
  context.registry = &registry;
  FactoryOptions defaults;
  InformerConfig scope;
  scope.ns = config.ns;
  defaults.namespaces = scope.Namespaces();
  defaults.tweak = options.tweak;
  defaults.clock = clock;
  {
    MutexLock lock(mutex);
    factory = std::make_unique<SharedInformerFactory>(context, defaults);
  }
  resyncer = std::make_unique<internal::Resyncer>(store.get(), clock);
  early_resyncer = std::make_unique<internal::Resyncer>(store.get(), clock);
  LARDER_RETURN_IF_ERROR(OpenWatches(stop));
  std::vector<Controller::Definition> wanted;
  {
    MutexLock lock(mutex);
    wanted = definitions;
  }
  for (const Controller::Definition& definition : wanted) {
    Result<Prepared> made = MakeController(definition, stop);
    if (!made) return Named(definition, std::move(made).error());
    prepared.push_back(*std::move(made));
  }
  // Predicates and mappings may read what another controller watches.
  LARDER_RETURN_IF_ERROR(WaitForIndexes(stop));
  return AttachSources(/*mapped=*/false);
}

Result<void> Manager::Impl::AttachSources(bool mapped) {
  for (const Prepared& one : prepared) {
    for (const Opened& opened : one.sources) {
      if ((opened.source->role == SourceRole::kWatches) != mapped) continue;
      if (auto attached = Attach(one, opened); !attached) {
        return Named(one.controller->definition(), std::move(attached).error());
      }
    }
  }
  return {};
}

void Manager::Impl::ForgetFormerSources() {
  for (SharedInformer* informer : all_informers) {
    for (const std::string& name : informer->AbsentEnqueuers()) {
      if (!IsSourceName(name, informer->options().resource)) continue;
      // What is kept costs room and nothing else: no reason not to work.
      if (auto forgotten = informer->ForgetEnqueuer(name); !forgotten) {
        spdlog::warn("changes are still kept for the source {}, which is gone: {}", name,
                     forgotten.error().ToString());
        continue;
      }
      spdlog::info("the source {} is gone: changes are not kept for it any more", name);
    }
  }
}

Result<void> Manager::Impl::WaitForIndexes(const std::stop_token& stop) {
  int piece = 0;
  for (const SharedInformer* informer : all_informers) {
    const Indexer& indexer = informer->GetIndexer();
    while (!indexer.WaitUntilReady(kIndexPiece)) {
      if (stop.stop_requested()) {
        return MakeError(ErrorCode::kCancelled, "stopped before the indexes were built");
      }
      std::string what = NotBuilt(indexer);
      if (++piece == kIndexPiecesBeforeLog) spdlog::info("indexes are being built: {}", what);
      MutexLock lock(mutex);
      not_built = std::move(what);
    }
  }
  MutexLock lock(mutex);
  not_built.clear();
  return {};
}

Result<void> Manager::Impl::OpenWatches(const std::stop_token& stop) {
  std::vector<Source> wanted;
  {
    MutexLock lock(mutex);
    wanted = watches;
  }
  for (const Source& source : wanted) {
    LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(source.resource, stop));
    LARDER_RETURN_IF_ERROR(OpenInformers(source, resource));
  }
  return {};
}

Result<std::vector<SharedInformer*>> Manager::Impl::OpenInformers(const Source& source,
                                                                  const Resource& resource) {
  InformerOptions informer;
  informer.resource = resource;
  informer.ns = source.options.ns;
  informer.label_selector = source.options.label_selector;
  informer.field_selector = source.options.field_selector;
  informer.metadata_only = source.options.metadata_only || source.resource.metadata_only();
  informer.indexes = source.options.indexes;
  informer.transform = source.options.transform;
  if (source.role == SourceRole::kFor) {
    if (informer.label_selector.empty()) informer.label_selector = config.label_selector;
    if (informer.field_selector.empty()) informer.field_selector = config.field_selector;
  }
  if (source.role == SourceRole::kOwns) informer.indexes.push_back(OwnerIndex());
  LARDER_ASSIGN_OR_RETURN(std::vector<SharedInformer*> opened, Factory()->ForNamespaces(informer));
  for (SharedInformer* one : opened) {
    one->SetAnotherClusterHandler([this] {
      Fail({ErrorCode::kInternal,
            "the server is not the cluster that this store was filled from; a restart begins a new "
            "collection",
            {},
            {}});
    });
    LARDER_RETURN_IF_ERROR(client->AddInformer(one, source.role != SourceRole::kWatches));
    all_informers.push_back(one);
  }
  return opened;
}

WorkQueueOptions Manager::Impl::QueueOptions(const Controller::Definition& definition) {
  WorkQueueConfig queue;
  queue.name = definition.name;
  queue.max_retries = config.max_retries;
  if (definition.options.max_retries) {
    queue.max_retries =
        *definition.options.max_retries == 0 ? std::nullopt : definition.options.max_retries;
  }
  queue.rate_limit.base_delay = config.base_delay;
  queue.rate_limit.max_delay = config.max_delay;
  queue.rate_limit.qps = config.qps_limit;
  queue.rate_limit.burst = config.burst;
  queue.durability = definition.options.durability;
  WorkQueueOptions made = MakeWorkQueueOptions(queue, store.get(), clock);
  if (definition.options.rate_limiter) made.rate_limiter = definition.options.rate_limiter();
  made.metrics = &registry;
  return made;
}

// What a standby queues was mostly done by the leader: after a takeover it comes behind what
// changes then.
EnqueueFunction Manager::Impl::BehindWhileNotLeading(EnqueueFunction function, int32_t priority) {
  return [this, function = std::move(function), priority](const ObjectChange& change,
                                                          const Enqueue& enqueue) {
    if (elector->IsLeader()) return function(change, enqueue);
    function(change, [&](std::string_view item, int32_t) { enqueue(item, priority); });
  };
}

Result<Manager::Impl::Prepared> Manager::Impl::MakeController(Controller::Definition definition,
                                                              const std::stop_token& stop) {
  if (definition.options.max_concurrent_reconciles == 0) {
    definition.options.max_concurrent_reconciles = config.max_concurrent_reconciles;
  }
  LARDER_ASSIGN_OR_RETURN(auto queue, WorkQueue::Open(QueueOptions(definition)));
  Controller::Environment environment{client.get(),      events.get(),     &registry, clock,
                                      config.base_delay, config.max_delay, {}};
  if (elector && definition.options.needs_leader_election) {
    environment.leads = [this] { return elector->IsLeader(); };
  }
  Controller* controller = nullptr;
  {
    MutexLock lock(mutex);
    controllers.push_back(
        std::make_unique<Controller>(std::move(definition), std::move(queue), environment));
    controller = controllers.back().get();
  }
  const Controller::Definition& kept = controller->definition();
  health->AddReadyCheck("queue/" + kept.name, [controller]() -> Result<void> {
    const auto error = controller->queue().Status().error;
    return error ? tl::unexpected(*error) : Result<void>();
  });
  Prepared made;
  made.controller = controller;
  for (const Source& source : kept.sources) {
    Opened opened{&source, {}, {}};
    LARDER_ASSIGN_OR_RETURN(opened.resource, Resolve(source.resource, stop));
    LARDER_ASSIGN_OR_RETURN(opened.informers, OpenInformers(source, opened.resource));
    if (source.role == SourceRole::kFor) made.owner = opened.resource;
    LARDER_ASSIGN_OR_RETURN(const Store* const keeper, store->KeeperOf(opened.resource));
    made.forgetful = made.forgetful || keeper != store.get();
    made.sources.push_back(std::move(opened));
  }
  return made;
}

Result<void> Manager::Impl::Attach(const Prepared& to, const Opened& opened) {
  const auto& [source, resource, informers] = opened;
  Controller* const controller = to.controller;
  const Controller::Definition& kept = controller->definition();
  std::vector<Predicate> predicates = kept.predicates;
  predicates.insert(predicates.end(), source->options.predicates.begin(),
                    source->options.predicates.end());
  const MapFunction map =
      source->role == SourceRole::kOwns
          ? OwnerOf(to.owner.kind, to.owner.ApiVersion(), true, to.owner.namespaced)
          : source->map;
  const int32_t priority = source->options.priority.value_or(kept.options.priority);
  EnqueueFunction function = internal::MakeEnqueueFunction(kept.name, map, predicates, priority);
  if (elector && kept.options.needs_leader_election) {
    function = BehindWhileNotLeading(std::move(function),
                                     std::min(priority, kept.options.initial_priority));
  }
  spdlog::info("starting event source controller={} source={}:{}", kept.name,
               RoleName(source->role), resource.ToString());
  for (SharedInformer* informer : informers) {
    EnqueuerOptions enqueuer;
    enqueuer.name = SourceName(kept.name, source->role, resource);
    // Of several alike the first keeps that name.
    const int ordinal = ++alike[{informer, enqueuer.name}];
    if (ordinal > 1) enqueuer.name += fmt::format("/{}", ordinal);
    enqueuer.revision = kept.options.revision;
    enqueuer.initial_priority = kept.options.initial_priority;
    enqueuer.always_initial = to.forgetful && source->role == SourceRole::kFor;
    controller->WaitFor(informer);
    LARDER_RETURN_IF_ERROR(informer->AddEnqueuer(&controller->queue(), enqueuer, function));
  }
  if (source->role == SourceRole::kFor) {
    const auto& one = kept.options.needs_leader_election ? resyncer : early_resyncer;
    one->Add({controller, informers, predicates,
              kept.options.resync_period.value_or(config.resync_period)});
    if (resource.namespaced) controller->ServeNamespacesOf(informers);
  }
  return {};
}

}  // namespace larder
