// The fields that kube-apiserver lets a field selector name, kind by kind, where the name alone
// does not say what is compared: an absent bool is "false" there and an absent number "0", and some
// names are no paths within the object.
//
//   for (const SelectableField& field : SelectableFields(resource)) ...
#pragma once

#include <string>
#include <vector>

#include "schema/resource.h"

namespace larder {

struct SelectableField {
  std::string name{};    // as a selector spells it
  std::string absent{};  // what it compares as in an object without it
  // Where it stands in the object, the first of these that is not empty; none: where its name says.
  std::vector<std::string> paths{};
};

// Of a built-in kind in any version, besides metadata.name and metadata.namespace; empty for
// others.
const std::vector<SelectableField>& SelectableFields(const Resource& resource);

}  // namespace larder
