// The patch types of the API: JSON patch, JSON merge patch, strategic merge patch.
//
// JSON patch is RFC 6902, merge patch RFC 7396. Strategic merge is what the real server does for
// maps; lists merge by key where field_set.h knows the key (containers by name, conditions by type,
// ...), `finalizers` as a set, all other lists are replaced. The directives `$patch: delete`,
// `$patch: replace`, `$retainKeys` (ignored), `$setElementOrder` (ignored) and
// `$deleteFromPrimitiveList` are understood.
//
//   ApiResult<Json> patched = ApplyPatch(PatchType::kMerge, live, body);
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apiserver/api_status.h"
#include "schema/object.h"

namespace larder::apiserver {

enum class PatchType { kJson, kMerge, kStrategic, kApply };

// By Content-Type; nullopt: not a patch.
std::optional<PatchType> PatchTypeOf(std::string_view content_type);

// Not for kApply (managed_fields.h). `patch` is the parsed body.
ApiResult<Json> ApplyPatch(PatchType type, const Json& live, const Json& patch);

// Merges like a strategic patch without directives: what server-side apply does to the live object.
void MergeInto(Json& live, const Json& patch, std::string_view field, bool merge_lists);

}  // namespace larder::apiserver
