// A controller's view of the cluster: reads come from the store, writes go to the server.
//
// Get, Find and List read what the manager watches from the store, without a request; anything else
// (another resource, a namespace that nobody watches) is asked of the server. Where several
// informers watch parts of one resource, a read sees all of them. What is watched and was not
// listed completely yet is kNotReady, never half. The store is a little behind the server: after a
// write, a read may still show the state before it (WaitForCache waits for one's own write); a
// write with the resourceVersion that was read fails with kConflict where somebody was faster.
// Objects are named by resource ("pods", "deployments.apps", "widgets.v1.example.com") or a
// Resource.
//
// Reads are of whole objects. Where a resource is watched as metadata only
// (SourceOptions::metadata_only), MetadataOf(resource) reads that metadata from the store; a whole
// object is asked of the server, unless a controller reconciles the resource, or owns it, as
// metadata: there a whole read is kInvalidArgument, because it would be a request for each
// reconcile (live() makes it all the same). An Update that has nothing but metadata, of a resource
// that is watched so, is kInvalidArgument, because it would wipe the rest: Patch or Apply write
// what they name.
//
// Writes of a manager with leader election fail with kCancelled as soon as its lease is not
// certainly held any more, without being sent; also those that waited for their turn meanwhile.
//
// Thread-safe. Errors: those of ApiClient and Discovery; kNotFound from the store is as the
// server's. A 404 by which the server, or a proxy, does not mean the object is kUnavailable in Get,
// Find, Patch and Delete.
//
//   LARDER_ASSIGN_OR_RETURN(ObjectPtr pod, client.Get("pods", {"default", "web-1"}));
//   LARDER_ASSIGN_OR_RETURN(auto nodes, client.List("nodes", {.labels =
//   *LabelSelector::Parse("a")})); LARDER_RETURN_IF_ERROR(client.Apply("configmaps", intent,
//   "my-controller"));
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "client/api_client.h"
#include "client/discovery.h"
#include "controller/watched_resource.h"
#include "indexer/lister.h"
#include "informer/shared_informer.h"

namespace larder {

// A resource by name or as found before.
class ResourceName {
 public:
  ResourceName(const char* name) : name_(name) {}                      // NOLINT: meant to convert
  ResourceName(std::string name) : name_(std::move(name)) {}           // NOLINT
  ResourceName(std::string_view name) : name_(name) {}                 // NOLINT
  ResourceName(Resource resource) : resource_(std::move(resource)) {}  // NOLINT

  const std::string& name() const { return name_; }
  // Set when it was given as a Resource with its kind.
  const Resource& resource() const { return resource_; }
  // Of its objects the metadata is enough (MetadataOf).
  bool metadata_only() const { return metadata_only_; }
  std::string ToString() const { return name_.empty() ? resource_.ToString() : name_; }

 private:
  friend ResourceName MetadataOf(ResourceName name);

  std::string name_;
  Resource resource_;
  bool metadata_only_ = false;
};

// For reads that need no more than metadata: client.Find(MetadataOf("pods"), key). What they find
// may have more, where that is watched, or the server was asked.
inline ResourceName MetadataOf(ResourceName name) {
  name.metadata_only_ = true;
  return name;
}

class CachedClient {
 public:
  // `transport` must outlive the client. `may_write` is asked before each write, and again at the
  // last moment before it is sent, on another thread (Request::may_send); null: always.
  explicit CachedClient(HttpTransport& transport, std::function<Result<void>()> may_write = nullptr,
                        Clock* clock = RealClock());

  // The built-in table, then the server's discovery; what was found is kept.
  Result<Resource> Resolve(const ResourceName& name, const std::stop_token& stop = {});
  // The resource of a kind as an object names it: ("apps/v1", "Deployment").
  Result<Resource> ForKind(std::string_view api_version, std::string_view kind,
                           const std::stop_token& stop = {}) {
    return discovery_.ForKind(api_version, kind, stop);
  }

  // Reads.
  Result<ObjectPtr> Get(const ResourceName& name, const ObjectKey& key,
                        const std::stop_token& stop = {});
  // The same, but an object that is not there is null and no error.
  Result<ObjectPtr> Find(const ResourceName& name, const ObjectKey& key,
                         const std::stop_token& stop = {});
  Result<std::vector<ObjectPtr>> List(const ResourceName& name, const Query& query = {},
                                      const std::stop_token& stop = {});
  // Those whose controller is `owner`.
  Result<std::vector<ObjectPtr>> ListOwned(const ResourceName& name, const Object& owner,
                                           const std::stop_token& stop = {});

  // Writes, as ApiClient's.
  Result<ObjectPtr> Create(const ResourceName& name, const Json& object,
                           const WriteOptions& options = {}, const std::stop_token& stop = {});
  Result<ObjectPtr> Update(const ResourceName& name, const Json& object,
                           const WriteOptions& options = {}, const std::stop_token& stop = {});
  Result<ObjectPtr> UpdateStatus(const ResourceName& name, const Json& object,
                                 const WriteOptions& options = {},
                                 const std::stop_token& stop = {});
  Result<ObjectPtr> Patch(const ResourceName& name, const ObjectKey& key, PatchType type,
                          const Json& patch, const PatchOptions& options = {},
                          const std::stop_token& stop = {});
  // Server-side apply of what this controller wants; kind and apiVersion are filled in.
  Result<ObjectPtr> Apply(const ResourceName& name, Json intent, const std::string& field_manager,
                          bool force = true, const std::stop_token& stop = {});
  // The same for the status subresource.
  Result<ObjectPtr> ApplyStatus(const ResourceName& name, Json intent,
                                const std::string& field_manager, bool force = true,
                                const std::stop_token& stop = {});
  // An object that is gone already is no error.
  Result<void> Delete(const ResourceName& name, const ObjectKey& key,
                      const DeleteOptions& options = {}, const std::stop_token& stop = {});

  // Waits until the store shows `written` or a later state of the collection. Nothing to do where
  // the resource is not watched.
  Result<void> WaitForCache(const ResourceName& name, const Object& written, Clock::Steady deadline,
                            const std::stop_token& stop = {});

  // Straight to the server, reads too. Not guarded by the lease.
  ApiClient& live() { return live_; }
  // Serves reads of what it watches from now on, beside others of its resource. `reconciled`: for a
  // source of For or Owns. For the manager.
  Result<void> AddInformer(SharedInformer* informer, bool reconciled);
  void RemoveInformers();

 private:
  using WatchedPtr = std::shared_ptr<const internal::WatchedResource>;

  // For writes: asks before each whether it may go out.
  class GuardedTransport final : public HttpTransport {
   public:
    GuardedTransport(HttpTransport& transport, std::function<Result<void>()> may_send)
        : transport_(transport), may_send_(std::move(may_send)) {}
    Result<Response> Do(const Request& request, const std::stop_token& stop) override;
    Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                             const std::stop_token& stop) override {
      return transport_.Open(request, stop);
    }

   private:
    HttpTransport& transport_;
    const std::function<Result<void>()> may_send_;
  };

  // Null: nothing of this namespace is watched.
  WatchedPtr Watched(const Resource& resource, std::string_view ns) const;
  Result<ObjectPtr> Read(const ResourceName& name, const Resource& resource, const ObjectKey& key,
                         const std::stop_token& stop);
  // kInvalidArgument: whole objects of this namespace are not asked of the server for a read.
  Result<void> MayAskServer(const internal::WatchedResource& watched, const Resource& resource,
                            std::string_view ns) const;
  // kInvalidArgument: the update would wipe what is not watched.
  Result<void> CheckUpdate(const Resource& resource, const Json& object) const;
  // A 404 that is not about the object (or its namespace) is no answer about it: the resource's
  // definition is gone for a moment, or a proxy answered. kUnavailable, then.
  Error Checked(Error error, const ResourceName& name, const ObjectKey& key);

  ApiClient live_;
  Discovery discovery_;
  GuardedTransport guarded_;
  ApiClient writer_;

  mutable SharedMutex mutex_;
  std::unordered_map<std::string, Resource> resolved_ LARDER_GUARDED_BY(mutex_);  // by name
  // By Resource::Path().
  std::unordered_map<std::string, WatchedPtr> watched_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
