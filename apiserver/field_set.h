// Sets of field paths, as managedFields keeps them (fieldsType FieldsV1).
//
// A path is a list of steps: f:name for a field, k:{"name":"a"} for an element of a list that is
// merged by key, v:"x" for a value of a list that is a set. Only leaves are kept: scalars, lists
// that are replaced as a whole, and empty objects. Which lists merge, and by which key, is what the
// built-in kinds declare for the lists in MergeKeys; every other list is replaced as a whole, and
// so are all lists of custom resources.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "schema/object.h"

namespace larder::apiserver {

using FieldPathSteps = std::vector<std::string>;
using FieldSet = std::set<FieldPathSteps>;

// The fields that identify an element of the list `field` ("containers": name), or nothing where
// the list is replaced as a whole. `element` is one of the elements: a port is known by other
// fields in a pod than in a service.
std::vector<std::string> MergeKeys(std::string_view field, const Json& element);

// The step that names an element of the list: k:{"name":"a"}; empty where it has no such key.
std::string ElementStep(std::string_view field, const Json& element);

// The leaves of an object, without what the server itself owns (kind, apiVersion, metadata.name,
// ...). Pointers into `object`.
std::map<FieldPathSteps, const Json*> LeavesOf(const Json& object, bool merge_lists);

Json FieldSetToJson(const FieldSet& fields);
FieldSet FieldSetFromJson(const Json& fields_v1);

// ".spec.containers[name="a"].image", as conflicts print it.
std::string ToString(const FieldPathSteps& path);

// Takes the leaves out of the object, and parents that become empty by it.
void RemoveLeaves(Json& object, const FieldSet& paths);

}  // namespace larder::apiserver
