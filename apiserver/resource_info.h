// What the simulated server knows about each resource it serves, built in or from a CRD.
//
// ResourceRegistry is thread-safe. A ResourceInfo never changes; a CRD that is written again gets
// new ones.
//
//   std::shared_ptr<const ResourceInfo> pods = registry.Find("", "v1", "pods");
//   registry.SetCustom(crd_json);     // from then on its versions are found too
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "schema/object.h"
#include "schema/resource.h"
#include "schema/selectable_fields.h"

namespace larder::apiserver {

struct ResourceInfo {
  Resource resource;
  std::string list_kind;
  std::string singular;
  std::vector<std::string> short_names;
  std::vector<std::string> categories;
  bool status = false;                  // has the subresource /status
  bool scale = false;                   // has the subresource /scale
  bool generation = false;              // metadata.generation counts changes of the spec
  bool custom = false;                  // comes from a CustomResourceDefinition
  bool create_on_update = false;        // PUT creates what is not there
  bool unconditional_update = true;     // PUT may leave resourceVersion out
  bool returns_deleted = false;         // DELETE answers with the object, not with a Status
  bool preferred = true;                // the version that discovery prefers
  std::vector<SelectableField> fields;  // besides metadata.name and metadata.namespace
  std::vector<std::string> verbs;       // that discovery names; empty: all

  // {"kind":"Pod","apiVersion":"v1", : what goes in front of a stored body.
  std::string TypePrefix() const;
};

using ResourceInfoPtr = std::shared_ptr<const ResourceInfo>;

class ResourceRegistry {
 public:
  // Filled with the built-in kinds.
  ResourceRegistry();
  // Filled with these instead.
  explicit ResourceRegistry(std::vector<ResourceInfoPtr> resources);

  ResourceInfoPtr Find(std::string_view group, std::string_view version,
                       std::string_view resource) const;
  // By "pods", "deployments.apps" or "widgets.example.com", in the preferred version; null:
  // unknown.
  ResourceInfoPtr FindByName(std::string_view name) const;
  std::vector<ResourceInfoPtr> All() const;

  // Serves what a CustomResourceDefinition declares, replacing what it declared before. Returns the
  // preferred version's entry. Fails with kInvalidArgument, naming the field.
  Result<ResourceInfoPtr> SetCustom(const Json& crd);
  // "widgets.example.com", the CRD's name.
  void RemoveCustom(std::string_view name);

 private:
  mutable Mutex mutex_;
  std::vector<ResourceInfoPtr> resources_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder::apiserver
