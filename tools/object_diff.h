// Two states of one object, field by field.
#pragma once

#include <string>
#include <vector>

#include "schema/object.h"

namespace larder::tools {

// Where kubectl apply keeps a copy of what was applied, a Secret's values included.
inline constexpr const char* kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

struct FieldChange {
  std::string path;    // "spec.containers[0].image"
  std::string before;  // JSON; empty: not there
  std::string now;
};
// In document order. managedFields are left out: they say who, not what. Of a Secret's values only
// that they differ is told.
std::vector<FieldChange> CompareObjects(const Object& before, const Object& now);

}  // namespace larder::tools
