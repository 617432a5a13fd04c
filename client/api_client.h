// Create, read, update and delete objects of any kind: what a controller does to the cluster.
//
// Each call is one request (ListAll and ListPages: one for each page) and blocks the caller until
// its answer. Objects go in as Json and come out as the immutable ObjectPtr that the server now
// has. Reads go to the server, not to the cache.
//
// Thread-safe. Errors: those of base/error.h by the server's answer, each distinct (kConflict,
// kNotFound, kAlreadyExists, kForbidden, kInvalid, ...), with the server's Status in
// Error::status_json; kInvalidArgument for a name that cannot be in a URL; kProtocol for an answer
// that is no object. Nothing is retried here (see client/retry.h).
//
//   ApiClient client(*transport);
//   Result<ObjectPtr> pod = client.Get(pods, {"default", "web-1"});
//   client.Delete(pods, {"default", "web-1"}, {.uid = std::string((*pod)->uid())});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "client/transport.h"
#include "schema/object.h"
#include "schema/resource.h"

namespace larder {

struct GetOptions {
  std::string subresource{};       // "status", "scale"
  std::string resource_version{};  // "0": from the server's cache
};

struct ListOptions {
  std::string ns{};  // empty: all namespaces
  std::string label_selector{};
  std::string field_selector{};
  int64_t limit = 0;  // 0: all in one answer
  std::string continue_token{};
  std::string resource_version{};
  std::string resource_version_match{};
  size_t max_response_bytes = size_t{256} << 20;
};

struct ListPage {
  std::vector<ObjectPtr> items;
  std::string resource_version;
  std::string continue_token;  // empty: the last page
  std::optional<int64_t> remaining_item_count;
};

struct WriteOptions {
  std::string subresource{};
  std::string field_manager{};
  std::string field_validation{};  // "Strict", "Warn", "Ignore"
  bool dry_run = false;
};

enum class PatchType {
  kJsonMerge,  // RFC 7386
  kStrategic,  // Kubernetes's own; built-in kinds only
  kJsonPatch,  // RFC 6902: the patch is a list of operations
  kApply,      // server-side apply: needs a field manager
};

struct PatchOptions {
  std::string subresource{};
  std::string field_manager{};
  bool force = false;  // kApply: take over fields that others own
  bool dry_run = false;
};

enum class Propagation { kServerDefault, kBackground, kForeground, kOrphan };

struct DeleteOptions {
  // Preconditions: kConflict where the object is not this one, or changed since.
  std::string uid{};
  std::string resource_version{};
  Propagation propagation = Propagation::kServerDefault;
  std::optional<int64_t> grace_period_seconds{};
  bool dry_run = false;
};

class ApiClient {
 public:
  // `transport` must outlive the client.
  explicit ApiClient(HttpTransport& transport) : transport_(transport) {}

  Result<ObjectPtr> Get(const Resource& resource, const ObjectKey& key,
                        const GetOptions& options = {}, const std::stop_token& stop = {});
  Result<ListPage> List(const Resource& resource, const ListOptions& options = {},
                        const std::stop_token& stop = {});
  // One page after the other, of options.limit objects each, until `each` returns an error. kGone
  // when the continue token expires in between; kProtocol when the server sends one twice in a row,
  // which would never end.
  Result<void> ListPages(const Resource& resource, ListOptions options,
                         const std::function<Result<void>(ListPage)>& each,
                         const std::stop_token& stop = {});
  // All pages, 500 at a time unless `limit` says otherwise. When the continue token expires in
  // between it begins again, once, without a limit.
  Result<ListPage> ListAll(const Resource& resource, ListOptions options = {},
                           const std::stop_token& stop = {});

  // The namespace and the name are the object's own; the kind and apiVersion are filled in where
  // missing, here and in Update and Apply. Where the answer has no name of its own (evictions,
  // bindings, reviews) it bears the one that was sent, or the resource's.
  Result<ObjectPtr> Create(const Resource& resource, const Json& object,
                           const WriteOptions& options = {}, const std::stop_token& stop = {});
  // With metadata.resourceVersion in it kConflict where somebody else wrote in between.
  Result<ObjectPtr> Update(const Resource& resource, const Json& object,
                           const WriteOptions& options = {}, const std::stop_token& stop = {});
  Result<ObjectPtr> UpdateStatus(const Resource& resource, const Json& object,
                                 WriteOptions options = {}, const std::stop_token& stop = {});
  Result<ObjectPtr> Patch(const Resource& resource, const ObjectKey& key, PatchType type,
                          const Json& patch, const PatchOptions& options = {},
                          const std::stop_token& stop = {});
  // Server-side apply of a whole intent; the key is the object's own.
  Result<ObjectPtr> Apply(const Resource& resource, const Json& object,
                          const std::string& field_manager, bool force = false,
                          const std::stop_token& stop = {});

  // The scale subresource: an autoscaling/v1 Scale.
  Result<ObjectPtr> GetScale(const Resource& resource, const ObjectKey& key,
                             const std::stop_token& stop = {});
  Result<ObjectPtr> SetScale(const Resource& resource, const ObjectKey& key, int64_t replicas,
                             const std::stop_token& stop = {});

  // Returns when the server accepted it; finalizers may keep the object for longer.
  Result<void> Delete(const Resource& resource, const ObjectKey& key,
                      const DeleteOptions& options = {}, const std::stop_token& stop = {});
  // Everything that the list options select.
  Result<void> DeleteCollection(const Resource& resource, const ListOptions& which,
                                const DeleteOptions& options = {},
                                const std::stop_token& stop = {});

 private:
  Result<ObjectPtr> Send(const Resource& resource, const Request& request,
                         const std::stop_token& stop);
  Result<ObjectPtr> Write(const char* method, const Resource& resource, const Json& object,
                          const WriteOptions& options, const std::stop_token& stop);

  HttpTransport& transport_;
};

// Takes a list's answer apart. The items keep their bytes; kinds come from the list's own kind.
Result<ListPage> ParseListPage(std::string body, const Resource& resource);

// The cluster's identity: the UID of its namespace kube-system. kForbidden and kNotFound say what
// is needed.
Result<std::string> ClusterUid(HttpTransport& transport, const std::stop_token& stop = {});

}  // namespace larder
