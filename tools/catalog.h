// What a store holds, by the names that people use for it.
//
//   LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(*store));
//   LARDER_ASSIGN_OR_RETURN(auto found, catalog.Resolve("po,deploy"));   // in this order
//   ForEachObject(*store, found[0], query, [](const ObjectPtr& pod) { ... return true; });
//
// A resource may be stored as several collections (two namespaces, two selectors). One that holds
// everything is preferred, the newest of several; otherwise all of them count, and an object that
// is in two is shown once, in its newest version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "indexer/lister.h"
#include "storage/store.h"

namespace larder::tools {

struct StoredResource {
  Resource resource;
  std::vector<CollectionInfo> collections;
  ObjectPtr crd;  // of a custom kind, where the store has it

  // "pod", "deployment.apps": what kubectl puts in front of names.
  std::string NamePrefix() const;
  bool Complete() const;
  // Is anything of it stored without the rest of the object?
  bool Partial() const;
  // The same with only the collections that can hold objects of a namespace; empty: of any.
  StoredResource Within(std::string_view ns) const;
};

class Catalog {
 public:
  static Result<Catalog> Read(Store& store);

  // "pods", "po", "deploy,sts", "widgets", "all". kNotFound says what there is instead.
  Result<std::vector<StoredResource>> Resolve(std::string_view names) const;
  // For an owner reference. kNotFound: this kind is not stored.
  Result<StoredResource> ForKind(std::string_view api_version, std::string_view kind) const;
  const std::vector<CollectionInfo>& collections() const { return collections_; }
  // One entry for each resource, by name.
  std::vector<StoredResource> Resources() const;

 private:
  Result<StoredResource> ResolveOne(std::string_view name) const;
  StoredResource Gather(const Resource& resource) const;
  std::string Known() const;
  bool IsCustomName(const CollectionInfo& info, std::string_view name) const;
  ObjectPtr CrdOf(const Resource& resource) const;

  std::vector<CollectionInfo> collections_;
  std::vector<ObjectPtr> crds_;
};

// Does a collection hold all of its resource, as the server sends it but for a transform?
bool IsWhole(const CollectionSpec& spec);
// Two that hold the same, filled side by side, take turns in being the newest. A filled one moves
// about every minute, with a bookmark at least: the older one is left behind when it has not for
// much longer. Then who follows it goes on with the other.
bool IsLeftBehind(int64_t older_ms, int64_t newer_ms);

// Everything that the query selects, in key order.
Result<void> ForEachObject(Store& store, const StoredResource& resource, const Query& query,
                           const Store::ObjectVisitor& visit);
// The same by pages, which end at the query's limit or at its max_bytes.
Result<QueryPage> ListObjects(Store& store, const StoredResource& resource, const Query& query);
// kNotFound, as kubectl says it.
Result<ObjectPtr> GetObject(const Store& store, const StoredResource& resource,
                            const ObjectKey& key);

// The collection whose copy of an object is shown; 0: none has one.
Result<CollectionId> FindCopy(const Store& store, const StoredResource& resource,
                              const ObjectKey& key);

// What the store cannot know of the objects that a query asks for, as a sentence; empty: nothing.
std::string NotCovered(const StoredResource& resource, const Query& query);

// "pods" and then names, or "pod/web-0 deploy/web": what get, describe and tree take.
struct NamedObject {
  std::string resource;
  std::string name;  // empty: all
};
Result<std::vector<NamedObject>> ParseNames(const std::vector<std::string>& words);

}  // namespace larder::tools
