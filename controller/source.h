// Where a controller's work comes from: which objects, which of their changes, and whose key each
// change puts into the queue.
//
// Mapping and predicates run inside the commit of the change, so that the queue item is stored if
// and only if the change is. They may read the store through the manager's client, and must not
// wait for the server. A mapping is called when all that the manager watches is in sync, but for
// what the server refuses; a predicate of For or Owns may read what is not listed yet (kNotReady).
// For an update the keys of the old and of the new state are queued; for a delete those of the last
// state and of the stored one, where that is older: what it led to was never queued otherwise.
//
//   builder.Watches("configmaps", [&](const Object& config) { return PodsIn(config.ns()); });
//   builder.Watches("events", OwnerOf("Pod"));
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "controller/cached_client.h"
#include "controller/predicate.h"
#include "informer/shared_informer.h"
#include "schema/object.h"
#include "schema/transform.h"

namespace larder {

// The keys to reconcile when this object changes.
using MapFunction = std::function<std::vector<ObjectKey>(const Object& object)>;

// The object itself.
MapFunction Itself();
// Its owners of this kind (and apiVersion, where given); `controller_only`: only the one that is
// its controller. Owners of a namespaced object are looked for in its namespace unless
// `owner_has_namespace` is false.
MapFunction OwnerOf(std::string kind, const std::string& api_version = {},
                    bool controller_only = true, bool owner_has_namespace = true);

struct SourceOptions {
  // All must hold.
  std::vector<Predicate> predicates{};
  // Narrower than the manager's configuration. Reads through the client see only these objects,
  // too, unless the resource is also watched without selectors.
  std::string ns{};
  std::string label_selector{};
  std::string field_selector{};
  // Only metadata is fetched and stored; MetadataOf(resource) reads it
  // (controller/cached_client.h).
  bool metadata_only = false;
  // For List() with Query::index, and for the planner.
  std::vector<IndexDefinition> indexes{};
  // Applied to each object before it is stored (schema/transform.h).
  Transform transform{};
  // Of keys that a change of this source queues; none: the controller's.
  std::optional<int32_t> priority{};
};

enum class SourceRole { kFor, kOwns, kWatches };

struct Source {
  SourceRole role = SourceRole::kFor;
  ResourceName resource;
  MapFunction map;
  SourceOptions options;
};

namespace internal {

// The enqueue function of a source: predicates, then mapping, then the keys without repetition.
EnqueueFunction MakeEnqueueFunction(std::string controller, MapFunction map,
                                    std::vector<Predicate> predicates, int32_t priority);

}  // namespace internal
}  // namespace larder
