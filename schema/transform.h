// What is done to an object before it is stored: parts left out, or whatever a function does.
//
// Controllers read a few fields of large objects; managedFields alone are often half of a pod. What
// is cut here never reaches the disk, the memory or a handler. A transform has a name that says
// what it does, and the name is part of the collection's fingerprint: another transform is another
// collection, listed anew, never a mixture of the two.
//
// Lossless in what it keeps: values are copied as the server wrote them, byte for byte. Immutable;
// any number of threads may use one.
//
//   InformerOptions options{.resource = *LookupResource("pods")};
//   options.transform = StripManagedFields();
//   options.transform = *KeepPaths({"spec.nodeName", "status.phase"});
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "schema/object.h"
#include "schema/path_tree.h"

namespace larder {

// What is cut out of an object.
struct PathCut {
  PathMode mode;
  std::shared_ptr<const PathTree> tree;
};

struct Transform {
  // Must change whenever what `apply` does changes. Empty: no transform.
  std::string name{};
  // Must keep name, namespace, uid and resourceVersion, and for finalizers these and
  // deletionTimestamp.
  std::function<Result<ObjectPtr>(const ObjectPtr&)> apply{};
  // `apply`, where it does nothing but these, one after the other: then an object that comes as
  // protobuf is made without what they take away (wire_projection.h), which is less work than none.
  // Empty for any other function.
  std::vector<PathCut> cuts{};

  explicit operator bool() const { return static_cast<bool>(apply); }
};

// Without metadata.managedFields.
Transform StripManagedFields();
// Without these fields (schema/field_path.h; `[*]` or nothing for every element of a list).
// kInvalidArgument for a path that is none, that picks one element of a list, or that would take
// away what an object is known by, its finalizers or its deletionTimestamp.
Result<Transform> DropPaths(const std::vector<std::string>& paths);
// Only these fields, beside apiVersion, kind and metadata (that without managedFields).
Result<Transform> KeepPaths(const std::vector<std::string>& paths);
// One after the other.
Transform Chain(std::vector<Transform> transforms);

}  // namespace larder
