// Owner references: who an object belongs to, so that the cluster removes it with its owner and the
// owner's controller hears of it.
//
//   Json intent = ...;
//   LARDER_RETURN_IF_ERROR(SetControllerReference(intent, *pod));
//   LARDER_RETURN_IF_ERROR(context.client().Apply("remediations.v1.example.com", intent, "me"));
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "indexer/index_definition.h"
#include "schema/object.h"

namespace larder {

// Makes `owner` the one controller of `object`. kAlreadyExists where another is; kInvalidArgument
// where the owner is namespaced and the object is not in its namespace, or the owner has no uid.
Result<void> SetControllerReference(Json& object, const Object& owner);
// One of possibly several owners, without being its controller.
Result<void> AddOwnerReference(Json& object, const Object& owner);

// The owner that has `controller: true`.
std::optional<OwnerReference> ControllerOf(const Object& object);
bool IsControlledBy(const Object& object, const Object& owner);

// The index by controller uid that Owns() declares, for CachedClient::ListOwned.
inline constexpr const char* kOwnerIndex = "larder-controller-uid";
IndexDefinition OwnerIndex();

}  // namespace larder
