#include "apiserver/resource_info.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace larder::apiserver {
namespace {

// The traits of a built-in kind, one letter each, to keep the table readable:
// s status, c scale, g generation, u create on update, v an update needs a version, d returns the
// deleted object.
ResourceInfoPtr BuiltIn(std::string group, std::string resource, std::string kind, bool namespaced,
                        std::string_view traits, std::vector<std::string> short_names,
                        bool in_all = false) {
  auto info = std::make_shared<ResourceInfo>();
  info->singular = kind;
  for (char& c : info->singular) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  info->list_kind = kind + "List";
  info->resource = {std::move(group), "v1", std::move(resource), std::move(kind), namespaced};
  info->short_names = std::move(short_names);
  if (in_all) info->categories = {"all"};
  info->status = traits.find('s') != std::string_view::npos;
  info->scale = traits.find('c') != std::string_view::npos;
  info->generation = traits.find('g') != std::string_view::npos;
  info->unconditional_update = traits.find('v') == std::string_view::npos;
  info->create_on_update = traits.find('u') != std::string_view::npos;
  info->returns_deleted = traits.find('d') != std::string_view::npos;
  info->fields = SelectableFields(info->resource);
  return info;
}

std::vector<ResourceInfoPtr> BuiltIns() {
  return {
      BuiltIn("", "configmaps", "ConfigMap", true, "", {"cm"}),
      BuiltIn("", "endpoints", "Endpoints", true, "u", {"ep"}),
      BuiltIn("", "events", "Event", true, "u", {"ev"}),
      BuiltIn("", "namespaces", "Namespace", false, "s", {"ns"}),
      BuiltIn("", "nodes", "Node", false, "s", {"no"}),
      BuiltIn("", "persistentvolumeclaims", "PersistentVolumeClaim", true, "sd", {"pvc"}),
      BuiltIn("", "pods", "Pod", true, "sgd", {"po"}, true),
      BuiltIn("", "secrets", "Secret", true, "", {}),
      BuiltIn("", "serviceaccounts", "ServiceAccount", true, "d", {"sa"}),
      BuiltIn("", "services", "Service", true, "s", {"svc"}, true),
      BuiltIn("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition",
              false, "sg", {"crd", "crds"}),
      BuiltIn("apps", "daemonsets", "DaemonSet", true, "sg", {"ds"}, true),
      BuiltIn("apps", "deployments", "Deployment", true, "scg", {"deploy"}, true),
      BuiltIn("apps", "replicasets", "ReplicaSet", true, "scg", {"rs"}, true),
      BuiltIn("apps", "statefulsets", "StatefulSet", true, "scg", {"sts"}, true),
      BuiltIn("batch", "cronjobs", "CronJob", true, "sg", {"cj"}, true),
      BuiltIn("batch", "jobs", "Job", true, "sg", {}, true),
      BuiltIn("coordination.k8s.io", "leases", "Lease", true, "uv", {}),
  };
}

std::string StringAt(const Json& json, const std::string& key, const std::string& fallback = "") {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : fallback;
}

std::vector<std::string> StringsAt(const Json& json, const std::string& key) {
  std::vector<std::string> out;
  if (const auto found = json.find(key); found != json.end() && found->is_array()) {
    for (const Json& item : *found) {
      if (item.is_string()) out.push_back(item.get<std::string>());
    }
  }
  return out;
}

// A path of a CRD's selectableFields starts with a dot, a field selector's does not.
std::vector<SelectableField> CustomFields(const Json& version) {
  std::vector<SelectableField> out;
  for (const Json& field : version.value("selectableFields", Json::array())) {
    std::string path = StringAt(field, "jsonPath");
    if (!path.empty() && path.front() == '.') path.erase(0, 1);
    if (!path.empty()) out.push_back({std::move(path)});
  }
  return out;
}

}  // namespace

std::string ResourceInfo::TypePrefix() const {
  return fmt::format(R"({{"kind":"{}","apiVersion":"{}",)", resource.kind, resource.ApiVersion());
}

ResourceRegistry::ResourceRegistry() : resources_(BuiltIns()) {}

ResourceRegistry::ResourceRegistry(std::vector<ResourceInfoPtr> resources)
    : resources_(std::move(resources)) {}

ResourceInfoPtr ResourceRegistry::Find(std::string_view group, std::string_view version,
                                       std::string_view resource) const {
  MutexLock lock(mutex_);
  for (const ResourceInfoPtr& info : resources_) {
    if (info->resource.group == group && info->resource.version == version &&
        info->resource.resource == resource) {
      return info;
    }
  }
  return nullptr;
}

ResourceInfoPtr ResourceRegistry::FindByName(std::string_view name) const {
  MutexLock lock(mutex_);
  for (const ResourceInfoPtr& info : resources_) {
    if (info->preferred && info->resource.ToString() == name) return info;
  }
  return nullptr;
}

std::vector<ResourceInfoPtr> ResourceRegistry::All() const {
  MutexLock lock(mutex_);
  return resources_;
}

Result<ResourceInfoPtr> ResourceRegistry::SetCustom(const Json& crd) {
  const Json spec = crd.value("spec", Json::object());
  const Json names = spec.value("names", Json::object());
  const std::string group = StringAt(spec, "group");
  const std::string plural = StringAt(names, "plural");
  const std::string kind = StringAt(names, "kind");
  if (group.empty() || plural.empty() || kind.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a CustomResourceDefinition needs spec.group, spec.names.plural and "
                     "spec.names.kind");
  }
  std::vector<ResourceInfoPtr> added;
  for (const Json& version : spec.value("versions", Json::array())) {
    if (!version.value("served", false)) continue;
    auto info = std::make_shared<ResourceInfo>();
    info->resource = {group, StringAt(version, "name"), plural, kind,
                      StringAt(spec, "scope") != "Cluster"};
    info->list_kind = StringAt(names, "listKind", kind + "List");
    info->singular = StringAt(names, "singular", plural);
    info->short_names = StringsAt(names, "shortNames");
    info->categories = StringsAt(names, "categories");
    const Json subresources = version.value("subresources", Json::object());
    info->status = subresources.contains("status");
    info->scale = subresources.contains("scale");
    info->generation = true;
    info->custom = true;
    info->unconditional_update = false;
    info->preferred = version.value("storage", false);
    info->fields = CustomFields(version);
    added.push_back(std::move(info));
  }
  ResourceInfoPtr preferred;
  for (const ResourceInfoPtr& info : added) {
    if (info->preferred) preferred = info;
  }
  if (!preferred) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "spec.versions needs one version that is served and stored");
  }
  RemoveCustom(plural + "." + group);
  MutexLock lock(mutex_);
  resources_.insert(resources_.end(), added.begin(), added.end());
  return preferred;
}

void ResourceRegistry::RemoveCustom(std::string_view name) {
  MutexLock lock(mutex_);
  std::erase_if(resources_, [&](const ResourceInfoPtr& info) {
    return info->custom && info->resource.ToString() == name;
  });
}

}  // namespace larder::apiserver
