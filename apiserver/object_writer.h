// What a write means: the rules between a request and the stored object.
//
// Keeps metadata as the real server does (uid, creationTimestamp, generation, managedFields),
// separates status from the rest, checks versions and preconditions, honours finalizers, empties a
// namespace that is deleted, serves a CRD's resource. What it does not do: defaulting, validation
// of specs, garbage collection by owner references, quotas.
//
// Thread-safe: it works by read, change and conditional write, and tries again after a lost race;
// a request that named a version is then refused.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <string>

#include "apiserver/api_status.h"
#include "apiserver/managed_fields.h"
#include "apiserver/patch.h"
#include "apiserver/resource_info.h"
#include "apiserver/state.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace larder::apiserver {

struct WriteOptions {
  std::string manager = "larder-simulator";
  std::string subresource;  // "", "status" or "scale"
  bool dry_run = false;
  bool force = false;  // server-side apply takes fields over
  // From the C++ API: status is taken as given, and so are uid and creationTimestamp on creation.
  bool trusted = false;
};

struct DeleteOptions {
  std::string uid;               // precondition
  std::string resource_version;  // precondition
  bool dry_run = false;
};

struct Written {
  StoredPtr object;
  bool created = false;
};

struct Deleted {
  StoredPtr object;   // its last state
  bool gone = false;  // false: finalizers hold it, it only got a deletionTimestamp
};

class ObjectWriter {
 public:
  ObjectWriter(State& state, ResourceRegistry& registry, Clock& clock, uint64_t seed);

  ApiResult<Written> Create(const ResourceInfo& info, const std::string& ns, Json object,
                            const WriteOptions& options);
  ApiResult<Written> Update(const ResourceInfo& info, const std::string& ns,
                            const std::string& name, Json object, const WriteOptions& options);
  ApiResult<Written> Patch(const ResourceInfo& info, const std::string& ns, const std::string& name,
                           PatchType type, const Json& patch, const WriteOptions& options);
  ApiResult<Deleted> Delete(const ResourceInfo& info, const std::string& ns,
                            const std::string& name, const DeleteOptions& options);

  // An object as JSON, without kind and apiVersion.
  static Json Read(const StoredObject& object);
  static std::string KeyOf(const std::string& ns, std::string_view name);
  std::string NewUid();
  std::string Now() const;

 private:
  // Makes the new state of an object from the present one (null: it is not there).
  using Change = std::function<ApiResult<Json>(const Json* current)>;

  ApiResult<Written> Mutate(const ResourceInfo& info, const std::string& ns,
                            const std::string& name, const WriteOptions& options, bool may_create,
                            bool tracked, const Change& change);
  ApiResult<void> CheckMetadata(const ResourceInfo& info, const std::string& ns,
                                Json& object) const;
  ApiResult<void> CheckVersion(const ResourceInfo& info, const StoredObject& current,
                               const std::string& name, const Json& updated) const;
  void PrepareNew(const ResourceInfo& info, Json& object, const WriteOptions& options);
  void PrepareUpdate(const ResourceInfo& info, const Json& current, Json& updated,
                     const WriteOptions& options) const;
  static ApiResult<Json> ScaleChange(const Json& current, const Json& scale);
  ApiResult<Deleted> DeleteNamespace(const ResourceInfo& info, const StoredPtr& current);
  bool FinishNamespace(const std::string& ns);
  void DeleteContents(const std::string& ns);
  // What other parts of a cluster do when they see the change: CRDs get served, namespaces emptied.
  ApiResult<void> AfterWrite(const ResourceInfo& info, const StoredPtr& object, bool created);
  void AfterRemove(const ResourceInfo& info, const StoredObject& object);
  FieldManager ManagerOf(const ResourceInfo& info, const WriteOptions& options) const;
  std::string RandomSuffix();

  State& state_;
  ResourceRegistry& registry_;
  Clock& clock_;
  Mutex random_mutex_;
  std::mt19937_64 random_ LARDER_GUARDED_BY(random_mutex_);
};

// The /scale view of an object: kind Scale of autoscaling/v1.
std::string ScaleJson(const StoredObject& object);

}  // namespace larder::apiserver
