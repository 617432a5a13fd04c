// Two states of one object, field by field.
#pragma once

#include <string>
#include <string_view>
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
// that they differ is told: `resource` ("deployments.apps") says whether they are Secrets, because
// one of which only metadata is stored has another kind.
std::vector<FieldChange> CompareObjects(std::string_view resource, const Object& before,
                                        const Object& now);

}  // namespace larder::tools
