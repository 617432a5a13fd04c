#include "controller/owner.h"

#include <nlohmann/json.hpp>

namespace larder {
namespace {

Result<void> CheckOwner(const Json& object, const Object& owner) {
  if (owner.uid().empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} {} has no uid: only an object that the server has can own another",
                     owner.kind(), owner.key().ToString());
  }
  // As a server answers who asks it for metadata. It would take the reference, and its garbage
  // collector would find no such kind.
  if (owner.kind() == "PartialObjectMetadata") {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} was read as metadata only and does not know its kind, which an owner "
                     "reference names: watch it in full, or read it from the server",
                     owner.key().ToString());
  }
  const std::string ns = object.contains("metadata")
                             ? object.at("metadata").value("namespace", std::string())
                             : std::string();
  if (!owner.ns().empty() && owner.ns() != ns) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} {} cannot own an object in namespace \"{}\": an owner with a namespace "
                     "owns only there",
                     owner.kind(), owner.key().ToString(), ns);
  }
  return {};
}

Json& References(Json& object) {
  Json& references = object["metadata"]["ownerReferences"];
  if (!references.is_array()) references = Json::array();
  return references;
}

Json Reference(const Object& owner) {
  Json reference;
  reference["apiVersion"] = owner.api_version();
  reference["kind"] = owner.kind();
  reference["name"] = owner.name();
  reference["uid"] = owner.uid();
  return reference;
}

void Put(Json& references, Json reference) {
  for (Json& present : references) {
    if (present.value("uid", "") != reference.at("uid")) continue;
    present = std::move(reference);
    return;
  }
  references.push_back(std::move(reference));
}

}  // namespace

Result<void> SetControllerReference(Json& object, const Object& owner) {
  LARDER_RETURN_IF_ERROR(CheckOwner(object, owner));
  Json& references = References(object);
  for (const Json& present : references) {
    if (present.value("controller", false) && present.value("uid", "") != owner.uid()) {
      return MakeError(ErrorCode::kAlreadyExists, "it is controlled by {} {} already",
                       present.value("kind", ""), present.value("name", ""));
    }
  }
  Json reference = Reference(owner);
  reference["controller"] = true;
  reference["blockOwnerDeletion"] = true;
  Put(references, std::move(reference));
  return {};
}

Result<void> AddOwnerReference(Json& object, const Object& owner) {
  LARDER_RETURN_IF_ERROR(CheckOwner(object, owner));
  Put(References(object), Reference(owner));
  return {};
}

std::optional<OwnerReference> ControllerOf(const Object& object) {
  for (OwnerReference& owner : object.Owners()) {
    if (owner.controller) return std::move(owner);
  }
  return std::nullopt;
}

bool IsControlledBy(const Object& object, const Object& owner) {
  const auto controller = ControllerOf(object);
  return controller && controller->uid == owner.uid();
}

IndexDefinition OwnerIndex() {
  return IndexDefinition::ByFunction(kOwnerIndex, 1, [](const Object& object) {
    const auto controller = ControllerOf(object);
    return controller ? std::vector<std::string>{controller->uid} : std::vector<std::string>();
  });
}

}  // namespace larder
