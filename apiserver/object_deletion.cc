// The deleting half of ObjectWriter, and what follows a write elsewhere in a cluster.
#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/object_writer.h"

namespace larder::apiserver {

ApiResult<Deleted> ObjectWriter::Delete(const ResourceInfo& info, const std::string& ns,
                                        const std::string& name, const DeleteOptions& options) {
  const TablePtr table = state_.FindTable(info.resource.ToString());
  if (!table) return tl::unexpected(NoSuchPathStatus());
  const std::string key = KeyOf(ns, name);
  while (true) {
    const StoredPtr current = state_.Get(*table, key);
    if (!current) return tl::unexpected(NotFoundStatus(info, name));
    if (!options.uid.empty() && options.uid != current->identity->uid) {
      return tl::unexpected(PreconditionStatus(
          info, name,
          fmt::format("the UID in the precondition ({}) does not match the UID in record ({}). The "
                      "object might have been deleted and then recreated",
                      options.uid, current->identity->uid)));
    }
    if (!options.resource_version.empty() &&
        options.resource_version != std::to_string(current->version)) {
      return tl::unexpected(PreconditionStatus(
          info, name,
          fmt::format("the ResourceVersion in the precondition ({}) does not match the "
                      "ResourceVersion in record ({}). The object might have been modified",
                      options.resource_version, current->version)));
    }
    if (options.dry_run) return Deleted{current, true};
    if (info.resource.resource == "namespaces") return DeleteNamespace(info, current);
    if (info.resource.resource == "customresourcedefinitions") {
      // Its objects go first, so that watchers see them go.
      if (const TablePtr custom = state_.FindTable(name)) {
        for (const StoredPtr& object : state_.WatchNow(*custom, "").objects) {
          state_.Remove(*custom, object->identity->key, object->version, nullptr, nullptr);
        }
      }
    }
    Json object = Read(*current);
    const Json finalizers = object["metadata"].value("finalizers", Json::array());
    StoredPtr stored;
    if (finalizers.empty()) {
      const auto outcome = state_.Remove(*table, key, current->version, nullptr, &stored);
      if (outcome == State::Outcome::kNoTable) return tl::unexpected(NoSuchPathStatus());
      if (outcome != State::Outcome::kDone) continue;
      AfterRemove(info, *stored);
      return Deleted{stored, true};
    }
    if (object["metadata"].contains("deletionTimestamp")) return Deleted{current, false};
    object["metadata"]["deletionTimestamp"] = Now();
    object["metadata"]["deletionGracePeriodSeconds"] = 0;
    if (info.generation) {
      object["metadata"]["generation"] = object["metadata"].value("generation", int64_t{0}) + 1;
    }
    const auto outcome = state_.Put(*table, key, current->identity->uid, current->version,
                                    PrepareBody(object), &stored);
    if (outcome == State::Outcome::kNoTable) return tl::unexpected(NoSuchPathStatus());
    if (outcome == State::Outcome::kDone) return Deleted{stored, false};
  }
}

ApiResult<Deleted> ObjectWriter::DeleteNamespace(const ResourceInfo& info,
                                                 const StoredPtr& current) {
  const std::string name = current->identity->key;
  if (name == "default" || name == "kube-system" || name == "kube-public") {
    return tl::unexpected(ForbiddenStatus(info, name, "this namespace may not be deleted"));
  }
  state_.SetTerminating(name);
  const TablePtr table = state_.FindTable("namespaces");
  StoredPtr marked = current;
  while (marked) {
    Json object = Read(*marked);
    if (object["metadata"].contains("deletionTimestamp")) break;
    object["metadata"]["deletionTimestamp"] = Now();
    object["status"]["phase"] = "Terminating";
    if (state_.Put(*table, name, marked->identity->uid, marked->version, PrepareBody(object),
                   &marked) == State::Outcome::kDone) {
      break;
    }
    marked = state_.Get(*table, name);
  }
  if (!marked) return tl::unexpected(NotFoundStatus(info, name));
  DeleteContents(name);
  const bool gone = FinishNamespace(name);
  return Deleted{marked, gone};
}

void ObjectWriter::DeleteContents(const std::string& ns) {
  for (const ResourceInfoPtr& info : registry_.All()) {
    if (!info->resource.namespaced || !info->preferred) continue;
    const TablePtr table = state_.FindTable(info->resource.ToString());
    if (!table) continue;
    for (const StoredPtr& object : state_.WatchNow(*table, ns + "/").objects) {
      // Gone meanwhile is as good.
      (void)Delete(*info, ns, std::string(object->Name()), {});
    }
  }
}

bool ObjectWriter::FinishNamespace(const std::string& ns) {
  for (const TablePtr& table : state_.Tables()) {
    if (table->namespaced() && state_.HasPrefix(*table, ns + "/")) return false;
  }
  const TablePtr table = state_.FindTable("namespaces");
  while (const StoredPtr current = state_.Get(*table, ns)) {
    Json object = Read(*current);
    object["spec"].erase("finalizers");
    const PreparedBody body = PrepareBody(object);
    if (state_.Remove(*table, ns, current->version, &body, nullptr) == State::Outcome::kDone) break;
  }
  return true;
}

ApiResult<void> ObjectWriter::AfterWrite(const ResourceInfo& info, const StoredPtr& object,
                                         bool created) {
  if (info.resource.resource != "customresourcedefinitions") return {};
  const TablePtr table = state_.FindTable(info.resource.ToString());
  Json crd = Read(*object);
  const std::string name = object->identity->key;
  Result<ResourceInfoPtr> served = registry_.SetCustom(crd);
  if (!served) {
    state_.Remove(*table, name, object->version, nullptr, nullptr);
    return tl::unexpected(
        InvalidStatus(info.resource.group, info.resource.kind, name,
                      {{"FieldValueInvalid", "spec", "Invalid value: " + served.error().message}}));
  }
  state_.AddTable((*served)->resource.ToString(), (*served)->TypePrefix(),
                  (*served)->resource.namespaced);
  if (!created) return {};
  // What the CRD controller writes once the resource is served.
  Json status = {{"acceptedNames", crd["spec"]["names"]},
                 {"storedVersions", Json::array({(*served)->resource.version})},
                 {"conditions", Json::array()}};
  for (const char* type : {"NamesAccepted", "Established"}) {
    status["conditions"].push_back({{"type", type},
                                    {"status", "True"},
                                    {"lastTransitionTime", Now()},
                                    {"reason", "Accepted"},
                                    {"message", "served by the simulator"}});
  }
  crd["status"] = std::move(status);
  state_.Put(*table, name, object->identity->uid, object->version, PrepareBody(crd), nullptr);
  return {};
}

void ObjectWriter::AfterRemove(const ResourceInfo& info, const StoredObject& object) {
  if (info.resource.resource == "customresourcedefinitions") {
    registry_.RemoveCustom(object.identity->key);
    state_.RemoveTable(object.identity->key);
    return;
  }
  const std::string ns(object.Namespace());
  if (ns.empty()) return;
  // The last object that finalizers held back in a namespace that is being deleted takes it along.
  const TablePtr namespaces = state_.FindTable("namespaces");
  const StoredPtr current = state_.Get(*namespaces, ns);
  if (current && state_.IsTerminating(ns)) FinishNamespace(ns);
}

}  // namespace larder::apiserver
