// metadata.managedFields: who last set which field, and server-side apply on top of it.
//
// The simple, honest form: a manager owns the leaves it wrote; a write of another manager takes
// them over; an apply that would change a leaf of another manager is a conflict unless forced; a
// leaf that a manager applied before and leaves out now goes away if nobody else owns it. Not done:
// schema-aware defaulting, and the rules for atomic maps.
#pragma once

#include <string>

#include "apiserver/api_status.h"
#include "schema/object.h"

namespace larder::apiserver {

struct FieldManager {
  std::string name;
  std::string api_version;
  std::string subresource;  // "status" or empty
  std::string time;         // RFC 3339, what an entry gets
};

// Records in `updated` that `manager` made it from `before` (null: created) by a create, update or
// patch.
void TrackUpdate(const Json* before, Json& updated, const FieldManager& manager, bool merge_lists);

// The live object (null: none yet) with `applied` merged in. Fails with 409 and a cause for each
// field that another manager owns, unless `force`.
ApiResult<Json> ServerSideApply(const Json* live, const Json& applied, const FieldManager& manager,
                                bool force, bool merge_lists);

}  // namespace larder::apiserver
