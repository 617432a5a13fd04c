#include "apiserver/openapi.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace larder::apiserver {
namespace {

constexpr std::string_view kRoot = "/openapi/v3";

std::string PathOf(const Resource& resource) {
  return (resource.group.empty() ? "api/" : "apis/") + resource.ApiVersion();
}

// Without fieldValidation kubectl would want schemas, to validate by itself.
Json PatchOf(const Resource& resource) {
  const Json validation = {
      {"name", "fieldValidation"}, {"in", "query"}, {"schema", {{"type", "string"}}}};
  return {{"operationId", "patch" + resource.kind},
          {"x-kubernetes-action", "patch"},
          {"x-kubernetes-group-version-kind",
           {{"group", resource.group}, {"kind", resource.kind}, {"version", resource.version}}},
          {"parameters", Json::array({validation})},
          {"responses", Json::object()}};
}

}  // namespace

std::optional<std::string> OpenApiJson(const ResourceRegistry& registry, std::string_view path) {
  if (!path.starts_with(kRoot)) return std::nullopt;
  path.remove_prefix(kRoot.size());
  Json groups = Json::object(), paths = Json::object();
  for (const ResourceInfoPtr& info : registry.All()) {
    const Resource& resource = info->resource;
    const std::string group = PathOf(resource);
    groups[group] = {{"serverRelativeURL", std::string(kRoot) + "/" + group}};
    if (path != "/" + group) continue;
    const std::string place = resource.namespaced ? "/namespaces/{namespace}/" : "/";
    paths[fmt::format("/{}{}{}/{{name}}", group, place, resource.resource)] = {
        {"patch", PatchOf(resource)}};
  }
  if (path.empty()) return Json{{"paths", std::move(groups)}}.dump();
  if (paths.empty()) return std::nullopt;
  const Json document = {{"openapi", "3.0.0"},
                         {"info", {{"title", "larder's simulator"}, {"version", "v1"}}},
                         {"paths", std::move(paths)},
                         {"components", {{"schemas", Json::object()}}}};
  return document.dump();
}

}  // namespace larder::apiserver
