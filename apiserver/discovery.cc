#include "apiserver/discovery.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace larder::apiserver {
namespace {

const Json kVerbs = {"create", "delete", "deletecollection", "get",
                     "list",   "patch",  "update",           "watch"};
const Json kSubresourceVerbs = {"get", "patch", "update"};

Json VerbsOf(const ResourceInfo& info) { return info.verbs.empty() ? kVerbs : Json(info.verbs); }

using ByVersion = std::vector<std::pair<std::string, std::vector<ResourceInfoPtr>>>;

// Groups in order of appearance, each with its versions; the preferred version of a group comes
// first.
std::vector<std::pair<std::string, ByVersion>> Groups(const ResourceRegistry& registry) {
  std::vector<std::pair<std::string, ByVersion>> out;
  for (const ResourceInfoPtr& info : registry.All()) {
    auto group = std::find_if(out.begin(), out.end(), [&](const auto& candidate) {
      return candidate.first == info->resource.group;
    });
    if (group == out.end()) group = out.insert(out.end(), {info->resource.group, {}});
    ByVersion& versions = group->second;
    auto version = std::find_if(versions.begin(), versions.end(), [&](const auto& candidate) {
      return candidate.first == info->resource.version;
    });
    if (version == versions.end()) {
      version = versions.insert(info->preferred ? versions.begin() : versions.end(),
                                {info->resource.version, {}});
    }
    version->second.push_back(info);
  }
  return out;
}

Json GroupVersion(const std::string& group, const std::string& version) {
  return {{"groupVersion", group + "/" + version}, {"version", version}};
}

Json GroupJson(const std::string& group, const ByVersion& versions) {
  Json out = {{"name", group}, {"versions", Json::array()}};
  for (const auto& [version, infos] : versions) {
    out["versions"].push_back(GroupVersion(group, version));
  }
  out["preferredVersion"] = GroupVersion(group, versions.front().first);
  return out;
}

void AppendResource(const ResourceInfo& info, Json& resources) {
  Json entry = {{"name", info.resource.resource},
                {"singularName", info.singular},
                {"namespaced", info.resource.namespaced},
                {"kind", info.resource.kind},
                {"verbs", VerbsOf(info)}};
  if (!info.short_names.empty()) entry["shortNames"] = info.short_names;
  if (!info.categories.empty()) entry["categories"] = info.categories;
  resources.push_back(std::move(entry));
  if (info.scale) {
    resources.push_back({{"name", info.resource.resource + "/scale"},
                         {"singularName", ""},
                         {"namespaced", info.resource.namespaced},
                         {"group", "autoscaling"},
                         {"version", "v1"},
                         {"kind", "Scale"},
                         {"verbs", kSubresourceVerbs}});
  }
  if (info.status) {
    resources.push_back({{"name", info.resource.resource + "/status"},
                         {"singularName", ""},
                         {"namespaced", info.resource.namespaced},
                         {"kind", info.resource.kind},
                         {"verbs", kSubresourceVerbs}});
  }
}

Json AggregatedResource(const ResourceInfo& info) {
  const Json kind = {{"group", info.resource.group},
                     {"version", info.resource.version},
                     {"kind", info.resource.kind}};
  Json out = {{"resource", info.resource.resource},
              {"responseKind", kind},
              {"scope", info.resource.namespaced ? "Namespaced" : "Cluster"},
              {"singularResource", info.singular},
              {"verbs", VerbsOf(info)}};
  if (!info.short_names.empty()) out["shortNames"] = info.short_names;
  if (!info.categories.empty()) out["categories"] = info.categories;
  if (info.scale) {
    out["subresources"].push_back(
        {{"subresource", "scale"},
         {"responseKind", {{"group", "autoscaling"}, {"version", "v1"}, {"kind", "Scale"}}},
         {"verbs", kSubresourceVerbs}});
  }
  if (info.status) {
    out["subresources"].push_back(
        {{"subresource", "status"}, {"responseKind", kind}, {"verbs", kSubresourceVerbs}});
  }
  return out;
}

std::optional<std::string> ResourceListJson(const ResourceRegistry& registry,
                                            std::string_view group, std::string_view version) {
  Json resources = Json::array();
  std::string group_version;
  for (const ResourceInfoPtr& info : registry.All()) {
    if (info->resource.group != group || info->resource.version != version) continue;
    group_version = info->resource.ApiVersion();
    AppendResource(*info, resources);
  }
  if (resources.empty()) return std::nullopt;
  const Json out = {{"kind", "APIResourceList"},
                    {"apiVersion", "v1"},
                    {"groupVersion", group_version},
                    {"resources", std::move(resources)}};
  return out.dump();
}

}  // namespace

std::optional<std::string> DiscoveryJson(const ResourceRegistry& registry, std::string_view path) {
  if (path == "/api") {
    return R"({"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]})";
  }
  if (path == "/api/v1") return ResourceListJson(registry, "", "v1");
  if (path == "/apis") {
    Json out = {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", Json::array()}};
    for (const auto& [group, versions] : Groups(registry)) {
      if (!group.empty()) out["groups"].push_back(GroupJson(group, versions));
    }
    return out.dump();
  }
  if (!path.starts_with("/apis/")) return std::nullopt;
  const std::string_view rest = path.substr(6);
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    return ResourceListJson(registry, rest.substr(0, slash), rest.substr(slash + 1));
  }
  for (const auto& [group, versions] : Groups(registry)) {
    if (group.empty() || group != rest) continue;
    Json out = {{"kind", "APIGroup"}, {"apiVersion", "v1"}};
    out.update(GroupJson(group, versions));
    return out.dump();
  }
  return std::nullopt;
}

std::string AggregatedDiscoveryJson(const ResourceRegistry& registry, bool core) {
  Json out = {{"kind", "APIGroupDiscoveryList"},
              {"apiVersion", "apidiscovery.k8s.io/v2"},
              {"metadata", Json::object()},
              {"items", Json::array()}};
  for (const auto& [group, versions] : Groups(registry)) {
    if (group.empty() != core) continue;
    Json item = {{"metadata", {{"name", group}}}, {"versions", Json::array()}};
    if (core) item["metadata"] = Json::object();
    for (const auto& [version, infos] : versions) {
      Json resources = Json::array();
      for (const ResourceInfoPtr& info : infos) resources.push_back(AggregatedResource(*info));
      item["versions"].push_back(
          {{"version", version}, {"resources", std::move(resources)}, {"freshness", "Current"}});
    }
    out["items"].push_back(std::move(item));
  }
  return out.dump();
}

std::string VersionJson() {
  const Json out = {{"major", "1"},
                    {"minor", "36"},
                    {"gitVersion", "v1.36.0+larder-simulator"},
                    {"platform", "linux/amd64"}};
  return out.dump();
}

}  // namespace larder::apiserver
