#include "client/discovery_documents.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "schema/json_text.h"
#include "schema/object.h"
#include "schema/parse_json.h"

namespace larder {
namespace {

Json ParseObject(std::string_view text) {
  std::optional<Json> document = ParseJson(text);
  return document && document->is_object() ? *std::move(document) : Json::object();
}

// Like TextAt: any JSON, and nothing where the shape is another.
const Json& Member(const Json& object, const char* name) {
  static const Json kNothing = nullptr;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(name);
  return found != object.end() ? *found : kNothing;
}

const Json& List(const Json& object, const char* name) {
  static const Json kEmpty = Json::array();
  const Json& found = Member(object, name);
  return found.is_array() ? found : kEmpty;
}

std::vector<std::string> Texts(const Json& object, const char* name) {
  std::vector<std::string> result;
  for (const Json& item : List(object, name)) {
    if (item.is_string()) result.push_back(item.get<std::string>());
  }
  return result;
}

ApiResource ReadAggregatedResource(const Json& entry, const std::string& group,
                                   const std::string& version, bool preferred) {
  ApiResource api;
  api.resource = {group, version, TextAt(entry, "resource"),
                  TextAt(Member(entry, "responseKind"), "kind"),
                  TextAt(entry, "scope") == "Namespaced"};
  api.singular = TextAt(entry, "singularResource");
  api.short_names = Texts(entry, "shortNames");
  api.verbs = Texts(entry, "verbs");
  api.categories = Texts(entry, "categories");
  for (const Json& sub : List(entry, "subresources")) {
    api.subresources.push_back(TextAt(sub, "subresource"));
  }
  api.preferred = preferred;
  return api;
}

}  // namespace

bool ApiResource::HasVerb(std::string_view verb) const {
  return std::find(verbs.begin(), verbs.end(), verb) != verbs.end();
}

std::string DocumentKind(std::string_view json) { return TextAt(ParseObject(json), "kind"); }

Result<Discovered> ParseAggregatedDiscovery(std::string_view json) {
  const Json document = ParseObject(json);
  if (TextAt(document, "kind") != "APIGroupDiscoveryList") {
    return MakeError(ErrorCode::kProtocol, "discovery: the answer is not an APIGroupDiscoveryList");
  }
  Discovered result;
  for (const Json& item : List(document, "items")) {
    const std::string group = TextAt(Member(item, "metadata"), "name");
    bool preferred = true;
    for (const Json& version : List(item, "versions")) {
      const std::string name = TextAt(version, "version");
      for (const Json& entry : List(version, "resources")) {
        ApiResource api = ReadAggregatedResource(entry, group, name, preferred);
        const bool named = !name.empty() && !api.resource.resource.empty();
        if (named) result.resources.push_back(std::move(api));
      }
      if (TextAt(version, "freshness") == "Stale") {
        result.unanswered.push_back({group, name, preferred});
      }
      preferred = false;
    }
  }
  return result;
}

Result<std::vector<GroupVersion>> ParseGroupVersions(std::string_view json) {
  const Json document = ParseObject(json);
  const std::string kind = TextAt(document, "kind");
  std::vector<GroupVersion> result;
  if (kind == "APIVersions") {
    for (const std::string& version : Texts(document, "versions")) {
      result.push_back({"", version, result.empty()});
    }
    return result;
  }
  if (kind != "APIGroupList") {
    return MakeError(ErrorCode::kProtocol, "discovery: the answer is not an APIGroupList");
  }
  for (const Json& group : List(document, "groups")) {
    const std::string preferred = TextAt(Member(group, "preferredVersion"), "version");
    for (const Json& version : List(group, "versions")) {
      const std::string name = TextAt(version, "version");
      if (!name.empty()) result.push_back({TextAt(group, "name"), name, name == preferred});
    }
  }
  return result;
}

Result<std::vector<ApiResource>> ParseResourceList(std::string_view json, const GroupVersion& of) {
  const Json document = ParseObject(json);
  if (TextAt(document, "kind") != "APIResourceList") {
    return MakeError(ErrorCode::kProtocol, "discovery: the answer is not an APIResourceList");
  }
  std::vector<ApiResource> result;
  std::map<std::string, size_t> places;  // in `result`, by name
  std::vector<std::pair<std::string, std::string>> subresources;
  for (const Json& entry : List(document, "resources")) {
    const std::string name = TextAt(entry, "name");
    if (name.empty()) continue;
    if (const size_t slash = name.find('/'); slash != std::string::npos) {
      subresources.emplace_back(name.substr(0, slash), name.substr(slash + 1));
      continue;
    }
    const Json& namespaced = Member(entry, "namespaced");
    ApiResource api;
    api.resource = {of.group, of.version, name, TextAt(entry, "kind"),
                    namespaced.is_boolean() && namespaced.get<bool>()};
    api.singular = TextAt(entry, "singularName");
    api.short_names = Texts(entry, "shortNames");
    api.verbs = Texts(entry, "verbs");
    api.categories = Texts(entry, "categories");
    api.preferred = of.preferred;
    places.emplace(name, result.size());
    result.push_back(std::move(api));
  }
  for (auto& [parent, sub] : subresources) {
    const auto place = places.find(parent);
    if (place != places.end()) result[place->second].subresources.push_back(std::move(sub));
  }
  return result;
}

}  // namespace larder
