// What a server refuses in any object, whatever its kind: names, labels, and fields of the metadata
// that a patch may not touch. The kinds' own schemas are not checked.
//
//   if (auto valid = ValidateNew(info, name); !valid) return tl::unexpected(valid.error());
#pragma once

#include <string>

#include "apiserver/api_status.h"
#include "apiserver/resource_info.h"
#include "schema/object.h"

namespace larder::apiserver {

// The name of an object that is about to be created.
ApiResult<void> ValidateNew(const ResourceInfo& info, const std::string& name);
ApiResult<void> ValidateLabels(const ResourceInfo& info, const std::string& name,
                               const Json& metadata);
// The type in the body: a custom resource must name it, others may.
ApiResult<void> ValidateType(const ResourceInfo& info, const Json& object);
// A patched object keeps its name and its uid.
ApiResult<void> ValidatePatched(const ResourceInfo& info, const std::string& name,
                                const Json& before, const Json& after);
// The intent of a server-side apply.
ApiResult<void> ValidateApplied(const ResourceInfo& info, const std::string& name,
                                const Json& applied);

}  // namespace larder::apiserver
