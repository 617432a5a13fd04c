#include "controller/finalizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace larder {
namespace {

Json& List(Json& object) {
  Json& finalizers = object["metadata"]["finalizers"];
  if (!finalizers.is_array()) finalizers = Json::array();
  return finalizers;
}

}  // namespace

bool HasFinalizer(const Object& object, std::string_view finalizer) {
  const auto all = object.Finalizers();
  return std::find(all.begin(), all.end(), finalizer) != all.end();
}

bool AddFinalizer(Json& object, std::string_view finalizer) {
  Json& list = List(object);
  if (std::find(list.begin(), list.end(), finalizer) != list.end()) return false;
  list.push_back(std::string(finalizer));
  return true;
}

bool RemoveFinalizer(Json& object, std::string_view finalizer) {
  Json& list = List(object);
  const auto found = std::find(list.begin(), list.end(), finalizer);
  if (found == list.end()) return false;
  list.erase(found);
  return true;
}

Result<Finalizing> HandleFinalizer(ReconcileContext& context, const ResourceName& resource,
                                   ObjectPtr& object, std::string_view finalizer,
                                   const std::function<Result<void>()>& cleanup) {
  const bool present = HasFinalizer(*object, finalizer);
  const bool deleted = object->deletion_timestamp() != 0;
  if (deleted && !present) return Finalizing::kDeleted;
  if (!deleted && present) return Finalizing::kLive;
  if (deleted) LARDER_RETURN_IF_ERROR(cleanup());
  // Nothing but the list, and only of the version that was read: what is stored may be less than
  // the object, by a transform or because only metadata is watched.
  Json patch;
  patch["metadata"]["resourceVersion"] = std::string(object->resource_version());
  patch["metadata"]["finalizers"] = object->Finalizers();
  if (deleted) {
    RemoveFinalizer(patch, finalizer);
  } else {
    AddFinalizer(patch, finalizer);
  }
  Result<ObjectPtr> written = context.client().Patch(resource, object->key(), PatchType::kJsonMerge,
                                                     patch, {}, context.stop());
  if (!written) {
    // The store was behind: it went meanwhile, by our own hand or another's.
    if (deleted && written.error().code == ErrorCode::kNotFound) return Finalizing::kDeleted;
    return tl::unexpected(std::move(written).error());
  }
  object = *std::move(written);
  return deleted ? Finalizing::kDeleted : Finalizing::kLive;
}

}  // namespace larder
