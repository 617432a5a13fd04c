#include "informer/factory.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace larder {
namespace {

bool Refused(const ReflectorStatus& reflector) {
  return reflector.error && (reflector.error->code == ErrorCode::kUnauthorized ||
                             reflector.error->code == ErrorCode::kForbidden);
}

std::string Missing(const InformerStatus& status, bool started) {
  if (status.synced) return {};
  if (!started) return "not started";
  std::string text(ToString(status.reflector.state));
  if (status.sync.error) return text + ", " + status.sync.error->ToString();
  // Between two attempts the current error is empty; the last one still says why.
  const auto& error = status.reflector.error ? status.reflector.error : status.reflector.last_error;
  if (error) text += ", " + error->ToString();
  return text;
}

// Can what `narrow` asks for be told apart among the objects that `wide` stores?
Result<bool> Covers(const CollectionSpec& wide, const CollectionSpec& narrow) {
  if (!(wide.resource == narrow.resource) || wide.projection != narrow.projection ||
      wide.transform != narrow.transform || wide.shard != narrow.shard) {
    return false;
  }
  if (!wide.ns.empty() && wide.ns != narrow.ns) return false;
  // A transform may have removed what a selector looks at.
  if (!wide.transform.empty() && (wide.label_selector != narrow.label_selector ||
                                  wide.field_selector != narrow.field_selector)) {
    return false;
  }
  LARDER_ASSIGN_OR_RETURN(const auto wide_labels, LabelSelector::Parse(wide.label_selector));
  LARDER_ASSIGN_OR_RETURN(const auto narrow_labels, LabelSelector::Parse(narrow.label_selector));
  LARDER_ASSIGN_OR_RETURN(const auto wide_fields, FieldSelector::Parse(wide.field_selector));
  LARDER_ASSIGN_OR_RETURN(const auto narrow_fields, FieldSelector::Parse(narrow.field_selector));
  if (!Implies(narrow_labels, wide_labels) || !Implies(narrow_fields, wide_fields)) return false;
  // Where only metadata is stored, only that can be looked at.
  return wide.projection.empty() ||
         std::all_of(narrow_fields.requirements().begin(), narrow_fields.requirements().end(),
                     [](const auto& one) { return one.path.text().rfind("metadata.", 0) == 0; });
}

bool IsAsDurable(const SharedInformer& informer, const InformerOptions& options) {
  return options.durability != Durability::kSync ||
         informer.options().durability == Durability::kSync;
}

// More than there are cores is no sooner done; and two segments of a list that are not committed
// yet, with what the network holds of it, are some ten megabytes.
size_t ListsAtOnce(const FactoryOptions& options, const Store& store) {
  constexpr size_t kPerList = size_t{32} << 20;  // of the memory limit
  if (options.max_lists_at_once > 0) return options.max_lists_at_once;
  return std::min<size_t>(std::thread::hardware_concurrency(),
                          std::max<size_t>(store.options().memory_limit / kPerList, 1));
}

}  // namespace

SharedInformerFactory::SharedInformerFactory(InformerContext context, FactoryOptions options)
    : context_(std::move(context)),
      options_(std::move(options)),
      list_gate_(ListsAtOnce(options_, *context_.store)) {
  context_.list_gate = &list_gate_;
}

SharedInformerFactory::~SharedInformerFactory() { Shutdown(); }

Result<void> SharedInformerFactory::ApplyDefaults(InformerOptions& options) const {
  if (options.label_selector.empty()) options.label_selector = options_.label_selector;
  if (options.field_selector.empty()) options.field_selector = options_.field_selector;
  if (options.resync_period.count() == 0) options.resync_period = options_.resync_period;
  if (options.resource.namespaced && options.ns.empty()) {
    if (options_.namespaces.size() > 1) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} in {} namespaces is as many streams: name one, or "
                       "use ForNamespaces",
                       options.resource.ToString(), options_.namespaces.size());
    }
    if (!options_.namespaces.empty()) options.ns = options_.namespaces.front();
  }
  options.clock = options_.clock;
  if (options_.tweak) options_.tweak(options);
  return {};
}

// One stream has one transform: what one of its users does not find in the store, no other can.
Result<void> SharedInformerFactory::CheckTransform(const CollectionSpec& spec) const {
  for (const auto& entry : entries_) {
    CollectionSpec same = entry->spec;
    same.transform = spec.transform;
    if (entry->spec.transform == spec.transform || same.Fingerprint() != spec.Fingerprint()) {
      continue;
    }
    const auto named = [](const std::string& name) {
      return name.empty() ? std::string("none") : "\"" + name + "\"";
    };
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is shared: asked for with the transform {}, but it has {} already",
                     spec.ToString(), named(spec.transform), named(entry->spec.transform));
  }
  return {};
}

Result<void> SharedInformerFactory::Join(SharedInformer& informer, const InformerOptions& options) {
  if (!IsAsDurable(informer, options)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is shared: asked for with durability sync, but its "
                     "commits are relaxed",
                     informer.GetIndexer().collection().spec.ToString());
  }
  return informer.EnsureIndexers(options.indexes);
}

Result<SharedInformer*> SharedInformerFactory::ForResource(InformerOptions options) {
  LARDER_RETURN_IF_ERROR(ApplyDefaults(options));
  LARDER_ASSIGN_OR_RETURN(CollectionSpec spec, SpecOf(context_, options));
  MutexLock lock(mutex_);
  if (shut_down_) {
    return MakeError(ErrorCode::kCancelled, "the factory is shut down: no informer for {}",
                     spec.ToString());
  }
  const std::string fingerprint = spec.Fingerprint();
  for (const auto& entry : entries_) {
    if (entry->spec.Fingerprint() != fingerprint) continue;
    LARDER_RETURN_IF_ERROR(Join(*entry->informer, options));
    return entry->informer.get();
  }
  LARDER_RETURN_IF_ERROR(CheckTransform(spec));
  auto entry = std::make_unique<Entry>();
  entry->spec = std::move(spec);
  LARDER_ASSIGN_OR_RETURN(entry->informer, SharedInformer::Open(context_, std::move(options)));
  entries_.push_back(std::move(entry));
  return entries_.back()->informer.get();
}

Result<std::vector<SharedInformer*>> SharedInformerFactory::ForNamespaces(
    const InformerOptions& options, std::vector<std::string> namespaces) {
  if (namespaces.empty() && !options.ns.empty()) namespaces = {options.ns};
  if (namespaces.empty()) namespaces = options_.namespaces;
  // Of a resource without namespaces there is one stream, and of all namespaces, too.
  if (namespaces.empty() || !options.resource.namespaced) namespaces = {std::string()};
  std::sort(namespaces.begin(), namespaces.end());
  namespaces.erase(std::unique(namespaces.begin(), namespaces.end()), namespaces.end());
  std::vector<SharedInformer*> informers;
  for (const std::string& ns : namespaces) {
    InformerOptions one = options;
    one.ns = ns;
    LARDER_ASSIGN_OR_RETURN(SharedInformer * informer, ForResource(std::move(one)));
    informers.push_back(informer);
  }
  return informers;
}

Result<std::unique_ptr<ScopedInformer>> SharedInformerFactory::Scoped(
    const InformerOptions& options, std::vector<std::string> namespaces) {
  LARDER_ASSIGN_OR_RETURN(const std::vector<SharedInformer*> informers,
                          ForNamespaces(options, std::move(namespaces)));
  std::vector<ScopedInformer::Part> parts;
  parts.reserve(informers.size());
  for (SharedInformer* informer : informers) parts.push_back({informer, {}});
  return std::make_unique<ScopedInformer>(std::move(parts));
}

Result<SharedInformer*> SharedInformerFactory::FindWider(const InformerOptions& options) const {
  LARDER_ASSIGN_OR_RETURN(const CollectionSpec narrow, SpecOf(context_, options));
  for (const Entry* entry : Entries()) {
    LARDER_ASSIGN_OR_RETURN(const bool covers, Covers(entry->spec, narrow));
    if (covers && IsAsDurable(*entry->informer, options)) return entry->informer.get();
  }
  return static_cast<SharedInformer*>(nullptr);
}

void SharedInformerFactory::Start() {
  MutexLock lock(mutex_);
  if (shut_down_) return;
  for (const auto& entry : entries_) {
    if (std::exchange(entry->started, true)) continue;
    entry->informer->Start();
  }
}

std::vector<const SharedInformerFactory::Entry*> SharedInformerFactory::Entries() const {
  MutexLock lock(mutex_);
  std::vector<const Entry*> entries;
  for (const auto& entry : entries_) entries.push_back(entry.get());
  return entries;
}

Result<void> SharedInformerFactory::WaitForCacheSync(Clock::Steady deadline,
                                                     const std::stop_token& stop) const {
  for (const Entry* entry : Entries()) {
    const auto synced = entry->informer->WaitForSync(deadline, stop);
    if (!synced) return tl::unexpected(NotSynced(synced.error().code));
  }
  return {};
}

Error SharedInformerFactory::NotSynced(ErrorCode code) const {
  const std::vector<FactoryInformerStatus> all = Status();
  std::string names;
  size_t missing = 0;
  for (const FactoryInformerStatus& one : all) {
    if (one.missing.empty()) continue;
    ++missing;
    names += (names.empty() ? "" : "; ") + one.collection + " (" + one.missing + ")";
  }
  return MakeError(code, "{}{} of {} informers are not synced: {}",
                   context_.cluster_name.empty() ? "" : context_.cluster_name + ": ", missing,
                   all.size(), names)
      .value();
}

std::vector<std::string> SharedInformerFactory::Shutdown() {
  {
    MutexLock lock(mutex_);
    shut_down_ = true;
  }
  const std::vector<const Entry*> entries = Entries();
  // A connection may need a second to end: all at once, so that many do not add up.
  for (const Entry* entry : entries) entry->informer->RequestStop();
  // All handlers are told before any is waited for: one that hangs must not take the grace of the
  // others.
  std::vector<std::vector<SharedInformer::Registration>> handlers;
  handlers.reserve(entries.size());
  for (const Entry* entry : entries) handlers.push_back(entry->informer->EndStream());
  const Clock::Steady now = options_.clock->Now();
  std::vector<std::string> left;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto deadline = now + entries[i]->informer->options().handler_grace;
    for (const std::string& handler : SharedInformer::EndHandlers(handlers[i], deadline)) {
      left.push_back(handler + " of " + entries[i]->spec.ToString());
    }
  }
  return left;
}

std::vector<FactoryInformerStatus> SharedInformerFactory::Status() const {
  std::vector<FactoryInformerStatus> all;
  for (const Entry* entry : Entries()) {
    FactoryInformerStatus one;
    one.collection = entry->spec.ToString();
    one.fingerprint = entry->spec.Fingerprint();
    one.started = entry->informer->IsStarted();
    one.status = entry->informer->Status();
    one.missing = Missing(one.status, one.started);
    one.refused = Refused(one.status.reflector);
    all.push_back(std::move(one));
  }
  return all;
}

Result<void> SharedInformerFactory::Ready() const {
  std::string problems;
  for (const FactoryInformerStatus& one : Status()) {
    if (one.missing.empty() && !one.refused) continue;
    problems +=
        fmt::format("{}{}: {}", problems.empty() ? "" : "; ", one.collection,
                    one.missing.empty() ? one.status.reflector.error->ToString() : one.missing);
  }
  if (problems.empty()) return {};
  return MakeError(ErrorCode::kNotReady, "{}", problems);
}

}  // namespace larder
