// The order of `larder get --sort-by`, which is kubectl's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "schema/object.h"

namespace larder::tools {

// By the first value at a path; objects without one first, the rest in the order that they had.
// Numbers and quantities ("500m", "2Gi") go by what they are worth where all are such, everything
// else by NaturallyBefore. False: none has such a field. kInvalidArgument: it is no path.
Result<bool> SortObjects(const std::string& path, std::vector<ObjectPtr>& objects);

// Digits count as numbers: "web-2" before "web-10"; of equal ones that with fewer zeros in front.
bool NaturallyBefore(std::string_view a, std::string_view b);

}  // namespace larder::tools
