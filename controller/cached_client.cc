#include "controller/cached_client.h"

#include "controller/owner.h"
#include "schema/json_text.h"

namespace larder {
namespace {

std::string NameToResolve(const ResourceName& name) {
  if (!name.name().empty()) return name.name();
  const Resource& resource = name.resource();
  return resource.resource + "." + resource.version + "." + resource.group;
}

}  // namespace

Result<Response> CachedClient::GuardedTransport::Do(const Request& request,
                                                    const std::stop_token& stop) {
  if (!may_send_) return transport_.Do(request, stop);
  // Before it waits for its turn, and once more when it goes out.
  LARDER_RETURN_IF_ERROR(may_send_());
  Request guarded = request;
  guarded.may_send = may_send_;
  return transport_.Do(guarded, stop);
}

CachedClient::CachedClient(HttpTransport& transport, std::function<Result<void>()> may_write,
                           Clock* clock)
    : live_(transport),
      discovery_(transport, {.clock = clock}),
      guarded_(transport, std::move(may_write)),
      writer_(guarded_) {}

Result<Resource> CachedClient::Resolve(const ResourceName& name, const std::stop_token& stop) {
  if (!name.resource().resource.empty() && !name.resource().kind.empty()) return name.resource();
  const std::string text = NameToResolve(name);
  {
    ReaderLock lock(mutex_);
    if (const auto found = resolved_.find(text); found != resolved_.end()) return found->second;
  }
  Result<Resource> resource = LookupResource(text);
  // Only the server knows kind and scope of what is not built in.
  if (!resource || resource->kind.empty()) resource = discovery_.Resolve(text, stop);
  if (!resource) return resource;
  WriterLock lock(mutex_);
  return resolved_.emplace(text, *resource).first->second;
}

Error CachedClient::Checked(Error error, const ResourceName& name, const ObjectKey& key) {
  if (error.code != ErrorCode::kNotFound) return error;
  const bool gone =
      SaysNotFound(error, key.name) || (!key.ns.empty() && SaysNotFound(error, key.ns));
  if (gone) return error;
  error.code = ErrorCode::kUnavailable;
  error.message =
      fmt::format("the server does not know {} now: {}", name.ToString(), error.message);
  // What was resolved may be served otherwise when it is back.
  WriterLock lock(mutex_);
  resolved_.erase(NameToResolve(name));
  return error;
}

CachedClient::WatchedPtr CachedClient::Watched(const Resource& resource,
                                               std::string_view ns) const {
  WatchedPtr watched;
  {
    ReaderLock lock(mutex_);
    const auto found = watched_.find(resource.Path());
    if (found != watched_.end()) watched = found->second;
  }
  return watched && watched->Serves(ns) ? watched : nullptr;
}

Result<void> CachedClient::AddInformer(SharedInformer* informer, bool reconciled) {
  WriterLock lock(mutex_);
  WatchedPtr& watched = watched_[informer->options().resource.Path()];
  LARDER_ASSIGN_OR_RETURN(watched,
                          internal::WatchedResource::With(watched.get(), informer, reconciled));
  return {};
}

void CachedClient::RemoveInformers() {
  WriterLock lock(mutex_);
  watched_.clear();
}

Result<void> CachedClient::MayAskServer(const internal::WatchedResource& watched,
                                        const Resource& resource, std::string_view ns) const {
  if (!watched.HasMetadataOnly(ns, /*reconciled=*/true)) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} is reconciled as metadata only, so a read of whole objects would be a "
                   "request for each reconcile: read MetadataOf(\"{}\"), watch it in full, too, or "
                   "ask live()",
                   resource.ToString(), resource.ToString());
}

Result<void> CachedClient::CheckUpdate(const Resource& resource, const Json& object) const {
  const auto metadata = object.find("metadata");
  if (metadata == object.end()) return {};
  for (const auto& member : object.items()) {
    if (member.key() != "apiVersion" && member.key() != "kind" && member.key() != "metadata") {
      return {};
    }
  }
  const std::string ns = TextAt(*metadata, "namespace");
  const WatchedPtr watched = Watched(resource, ns);
  if (!watched || !watched->HasMetadataOnly(ns)) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "an update of {} with nothing but metadata, of which nothing else is watched, "
                   "would wipe the rest: Patch or Apply what is to change",
                   ObjectKey{ns, TextAt(*metadata, "name")}.ToString());
}

Result<ObjectPtr> CachedClient::Read(const ResourceName& name, const Resource& resource,
                                     const ObjectKey& key, const std::stop_token& stop) {
  if (const WatchedPtr watched = Watched(resource, key.ns)) {
    LARDER_ASSIGN_OR_RETURN(std::optional<ObjectPtr> object,
                            watched->Get(key, !name.metadata_only()));
    if (object) return *std::move(object);
    LARDER_RETURN_IF_ERROR(MayAskServer(*watched, resource, key.ns));
  }
  return live_.Get(resource, key, {}, stop).map_error([&](Error error) {
    return Checked(std::move(error), name, key);
  });
}

Result<ObjectPtr> CachedClient::Get(const ResourceName& name, const ObjectKey& key,
                                    const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  return Read(name, resource, key, stop);
}

Result<ObjectPtr> CachedClient::Find(const ResourceName& name, const ObjectKey& key,
                                     const std::stop_token& stop) {
  // A resource that the server does not have is an error, and no object that is not there.
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  Result<ObjectPtr> object = Read(name, resource, key, stop);
  if (!object && object.error().code == ErrorCode::kNotFound) return ObjectPtr();
  return object;
}

Result<std::vector<ObjectPtr>> CachedClient::List(const ResourceName& name, const Query& query,
                                                  const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  if (const WatchedPtr watched = Watched(resource, query.ns)) {
    LARDER_ASSIGN_OR_RETURN(std::optional<std::vector<ObjectPtr>> objects,
                            watched->List(query, !name.metadata_only()));
    if (objects) return *std::move(objects);
    LARDER_RETURN_IF_ERROR(MayAskServer(*watched, resource, query.ns));
  }
  if (query.index) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is not watched in full, so it has no index {}: watch it with this index",
                     resource.ToString(), query.index->first);
  }
  ListOptions options;
  options.ns = query.ns;
  options.label_selector = query.labels.ToString();
  options.field_selector = query.fields.ToString();
  LARDER_ASSIGN_OR_RETURN(ListPage page, live_.ListAll(resource, options, stop));
  return std::move(page.items);
}

Result<std::vector<ObjectPtr>> CachedClient::ListOwned(const ResourceName& name,
                                                       const Object& owner,
                                                       const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  Query query;
  query.ns = std::string(owner.ns());
  const bool indexed = Watched(resource, query.ns) && !owner.uid().empty();
  if (indexed) query.index = {kOwnerIndex, std::string(owner.uid())};
  Result<std::vector<ObjectPtr>> objects = List(name, query, stop);
  // The index is declared by Owns(), and not ready while it is being built: then all are looked at.
  if (!objects && indexed) {
    query.index.reset();
    objects = List(name, query, stop);
  }
  if (!objects) return objects;
  std::erase_if(*objects, [&](const ObjectPtr& object) { return !IsControlledBy(*object, owner); });
  return objects;
}

Result<ObjectPtr> CachedClient::Create(const ResourceName& name, const Json& object,
                                       const WriteOptions& options, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  return writer_.Create(resource, object, options, stop);
}

Result<ObjectPtr> CachedClient::Update(const ResourceName& name, const Json& object,
                                       const WriteOptions& options, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  LARDER_RETURN_IF_ERROR(CheckUpdate(resource, object));
  return writer_.Update(resource, object, options, stop);
}

Result<ObjectPtr> CachedClient::UpdateStatus(const ResourceName& name, const Json& object,
                                             const WriteOptions& options,
                                             const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  LARDER_RETURN_IF_ERROR(CheckUpdate(resource, object));
  return writer_.UpdateStatus(resource, object, options, stop);
}

Result<ObjectPtr> CachedClient::Patch(const ResourceName& name, const ObjectKey& key,
                                      PatchType type, const Json& patch,
                                      const PatchOptions& options, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  return writer_.Patch(resource, key, type, patch, options, stop).map_error([&](Error error) {
    return Checked(std::move(error), name, key);
  });
}

namespace {

// What an apply needs beside the intent: the type, and no version (it would be a precondition).
Result<ObjectKey> CompleteIntent(const Resource& resource, Json& intent) {
  if (!intent.is_object()) {
    return MakeError(ErrorCode::kInvalidArgument, "an intent to apply is an object");
  }
  intent["apiVersion"] = resource.ApiVersion();
  intent["kind"] = resource.kind;
  const auto metadata = intent.find("metadata");
  if (metadata == intent.end() || TextAt(*metadata, "name").empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "an intent to apply needs metadata.name");
  }
  metadata->erase("managedFields");
  metadata->erase("resourceVersion");
  return ObjectKey{TextAt(*metadata, "namespace"), TextAt(*metadata, "name")};
}

}  // namespace

Result<ObjectPtr> CachedClient::Apply(const ResourceName& name, Json intent,
                                      const std::string& field_manager, bool force,
                                      const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  LARDER_RETURN_IF_ERROR(CompleteIntent(resource, intent));
  return writer_.Apply(resource, intent, field_manager, force, stop);
}

Result<ObjectPtr> CachedClient::ApplyStatus(const ResourceName& name, Json intent,
                                            const std::string& field_manager, bool force,
                                            const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  LARDER_ASSIGN_OR_RETURN(const ObjectKey key, CompleteIntent(resource, intent));
  PatchOptions options;
  options.subresource = "status";
  options.field_manager = field_manager;
  options.force = force;
  return writer_.Patch(resource, key, PatchType::kApply, intent, options, stop);
}

Result<void> CachedClient::Delete(const ResourceName& name, const ObjectKey& key,
                                  const DeleteOptions& options, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  Result<void> deleted = writer_.Delete(resource, key, options, stop).map_error([&](Error error) {
    return Checked(std::move(error), name, key);
  });
  if (!deleted && deleted.error().code == ErrorCode::kNotFound) return {};
  return deleted;
}

Result<void> CachedClient::WaitForCache(const ResourceName& name, const Object& written,
                                        Clock::Steady deadline, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, Resolve(name, stop));
  const WatchedPtr watched = Watched(resource, written.ns());
  SharedInformer* const informer = watched ? watched->Showing(written) : nullptr;
  if (!informer) return {};
  return informer->WaitUntil(written.resource_version(), deadline, stop);
}

}  // namespace larder
