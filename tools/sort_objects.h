// The order of `larder get --sort-by`, which is kubectl's.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "schema/object.h"

namespace larder::tools {

// By the first value at a path; objects without one first, the rest in the order that they had.
// Numbers and quantities ("500m", "2Gi") go by what they are worth where all are such, texts by
// their bytes ("web-10" before "web-2", as in kubectl 1.32). False: none has such a field.
// kInvalidArgument: it is no path.
Result<bool> SortObjects(const std::string& path, std::vector<ObjectPtr>& objects);

}  // namespace larder::tools
