// Two states of one object, field by field.
#pragma once

#include <string>
#include <vector>

#include "schema/object.h"

namespace larder::tools {

struct FieldChange {
  std::string path;    // "spec.containers[0].image"
  std::string before;  // JSON; empty: not there
  std::string now;
};
// In document order. managedFields are left out: they say who, not what.
std::vector<FieldChange> CompareObjects(const Object& before, const Object& now);

}  // namespace larder::tools
