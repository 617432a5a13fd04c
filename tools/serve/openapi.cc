#include "tools/serve/openapi.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "schema/parse_json.h"
#include "tools/json_view.h"

namespace larder::tools {
namespace {

constexpr std::string_view kRoot = "/openapi/v3";

std::string PathOf(const Resource& resource) {
  return resource.group.empty() ? "api/" + resource.version
                                : "apis/" + resource.group + "/" + resource.version;
}

// A CRD has its schema, unless only its metadata is stored; of built-in kinds a store knows only
// that they are objects.
Json SchemaOf(const ServedResource& served) {
  const Resource& resource = served.info->resource;
  Json schema = {{"type", "object"}};
  if (served.stored.crd) {
    const JsonDocument crd(*served.stored.crd);
    for (const JsonView& version : crd.root()["spec"]["versions"].Items()) {
      if (version["name"].Text() != resource.version) continue;
      std::optional<Json> described = ParseJson(version["schema"]["openAPIV3Schema"].Json());
      if (described && described->is_object()) schema = *std::move(described);
    }
  }
  if (!schema.contains("description")) {
    schema["description"] = resource.kind + ", as it is stored; its fields are not described here.";
  }
  schema["x-kubernetes-group-version-kind"] = {
      {{"group", resource.group}, {"kind", resource.kind}, {"version", resource.version}}};
  return schema;
}

Json GroupVersionDocument(const ResourceBook& book, std::string_view wanted) {
  Json out = {{"openapi", "3.0.0"},
              {"info", {{"title", "larder"}, {"version", "v1"}}},
              {"paths", Json::object()},
              {"components", {{"schemas", Json::object()}}}};
  for (const auto& [key, served] : book.resources()) {
    const Resource& resource = served.info->resource;
    if (PathOf(resource) != wanted) continue;
    const std::string name =
        fmt::format("{}.{}.{}", resource.group.empty() ? "io.k8s.api.core" : resource.group,
                    resource.version, resource.kind);
    out["components"]["schemas"][name] = SchemaOf(served);
    const Json kind = {
        {"group", resource.group}, {"kind", resource.kind}, {"version", resource.version}};
    out["paths"]["/" + PathOf(resource) + (resource.namespaced ? "/namespaces/{namespace}/" : "/") +
                 resource.resource + "/{name}"] = {{"get",
                                                    {{"operationId", "read" + resource.kind},
                                                     {"x-kubernetes-action", "get"},
                                                     {"x-kubernetes-group-version-kind", kind},
                                                     {"responses", Json::object()}}}};
  }
  return out;
}

}  // namespace

std::optional<std::string> OpenApiDocument(const ResourceBook& book, std::string_view path) {
  if (path == "/openapi/v2") {
    return R"({"swagger":"2.0","info":{"title":"larder","version":"v1"},"paths":{},"definitions":{}})";
  }
  if (path.substr(0, kRoot.size()) != kRoot) return std::nullopt;
  if (path.size() > kRoot.size() + 1) {
    return GroupVersionDocument(book, path.substr(kRoot.size() + 1)).dump();
  }
  Json paths = Json::object();
  for (const auto& [key, served] : book.resources()) {
    const std::string at = PathOf(served.info->resource);
    paths[at] = {{"serverRelativeURL", std::string(kRoot) + "/" + at}};
  }
  return Json{{"paths", std::move(paths)}}.dump();
}

}  // namespace larder::tools
