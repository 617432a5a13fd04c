#include "tools/serve/representation.h"

#include <nlohmann/json.hpp>

#include "apiserver/media_type.h"
#include "tools/age.h"
#include "tools/json_view.h"

namespace larder::tools {
namespace {

std::string Quoted(std::string_view text) { return Json(std::string(text)).dump(); }

std::string ListMeta(std::string_view version, std::string_view continue_token) {
  std::string out = "{\"resourceVersion\":" + Quoted(version);
  if (!continue_token.empty()) out += ",\"continue\":" + Quoted(continue_token);
  return out + "}";
}

// The document with kind and apiVersion, which objects from a list may lack.
std::string Document(const Object& object, const Resource& resource) {
  if (object.json().find("\"kind\"") != std::string_view::npos && !object.kind().empty()) {
    return std::string(object.json());
  }
  std::string out = fmt::format(R"({{"kind":{},"apiVersion":{},)", Quoted(resource.kind),
                                Quoted(resource.ApiVersion()));
  out += object.json().substr(object.json().find('{') + 1);
  return out;
}

// The object with another version; everything else stays as it is, byte for byte.
ObjectPtr WithVersion(const Object& object, std::string_view version) {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  std::string_view token;
  const std::string_view json = object.json();
  const simdjson::padded_string_view padded(json.data(), json.size(),
                                            json.size() + Object::kJsonPadding);
  if (parser.iterate(padded).get(document) ||
      document["metadata"]["resourceVersion"].raw_json_token().get(token)) {
    return nullptr;
  }
  std::string out(json);
  // The token may have space behind it, which does no harm where it is.
  const size_t at = static_cast<size_t>(token.data() - json.data());
  out.replace(at, token.find('"', 1) + 1, Quoted(version));
  auto parsed = Object::Parse(out);
  return parsed ? *std::move(parsed) : nullptr;
}

}  // namespace

apiserver::ApiResult<Shape> ShapeOf(std::string_view accept) {
  const auto clauses = apiserver::ParseAccept(accept);
  if (clauses.empty()) return Shape::kObject;
  for (const apiserver::AcceptClause& clause : clauses) {
    const bool json =
        clause.type == "application/json" || clause.type == "application/*" || clause.type == "*/*";
    if (!json) continue;
    const auto as = clause.parameters.find("as");
    if (as == clause.parameters.end()) return Shape::kObject;
    const auto version = clause.parameters.find("v");
    if (version == clause.parameters.end() || version->second != "v1") continue;
    if (as->second == "Table") return Shape::kTable;
    if (as->second.starts_with("PartialObjectMetadata")) return Shape::kMetadata;
  }
  return tl::unexpected(apiserver::NotAcceptableStatus("application/json"));
}

Representation::Representation(const ServedResource& resource, Shape shape,
                               std::string include_object)
    : resource_(resource), shape_(shape), include_object_(std::move(include_object)) {}

std::string Representation::Metadata(const Object& object) const {
  const JsonDocument document(object);
  return R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":)" +
         document.root()["metadata"].Json() + "}";
}

std::string Representation::One(const Object& object) const {
  if (shape_ == Shape::kMetadata) return Metadata(object) + "\n";
  if (shape_ == Shape::kObject) return Document(object, resource_.info->resource) + "\n";
  std::string out = TableHead(object.resource_version(), "", true);
  AppendRow(object, out);
  return out + "]}\n";
}

std::string Representation::TableHead(std::string_view version, std::string_view continue_token,
                                      bool with_columns) const {
  Json columns = Json::array();
  if (with_columns) {
    for (const Column& column : resource_.columns.columns) {
      columns.push_back({{"name", column.name},
                         {"type", column.type},
                         {"format", column.format},
                         {"description", column.description},
                         {"priority", column.priority}});
    }
  }
  return fmt::format(
      R"({{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":{},"rows":[)",
      ListMeta(version, continue_token), with_columns ? columns.dump() : "null");
}

void Representation::AppendRow(const Object& object, std::string& out) const {
  out += "{\"cells\":[";
  bool first = true;
  for (const Cell& cell : resource_.columns.Row(object, NowSeconds())) {
    if (!first) out += ',';
    first = false;
    out += cell.number ? cell.text : Quoted(cell.text);
  }
  out += ']';
  if (include_object_ == "Object") {
    out += ",\"object\":" + Document(object, resource_.info->resource);
  } else if (include_object_ != "None") {
    out += ",\"object\":" + Metadata(object);
  }
  out += '}';
}

std::string Representation::ListHead(std::string_view version,
                                     std::string_view continue_token) const {
  if (shape_ == Shape::kTable) return TableHead(version, continue_token, true);
  const bool partial = shape_ == Shape::kMetadata;
  return fmt::format(R"({{"kind":{},"apiVersion":{},"metadata":{},"items":[)",
                     Quoted(partial ? "PartialObjectMetadataList" : resource_.info->list_kind),
                     Quoted(partial ? "meta.k8s.io/v1" : resource_.info->resource.ApiVersion()),
                     ListMeta(version, continue_token));
}

void Representation::AppendItem(const Object& object, std::string& out) const {
  if (shape_ == Shape::kTable) {
    AppendRow(object, out);
  } else if (shape_ == Shape::kMetadata) {
    out += Metadata(object);
  } else {
    out += Document(object, resource_.info->resource);
  }
}

std::string Representation::ListTail() const { return "]}\n"; }

std::string Representation::Event(std::string_view type, const Object& stored,
                                  std::string_view version, bool first) const {
  ObjectPtr moved;
  if (!version.empty() && version != stored.resource_version()) {
    moved = WithVersion(stored, version);
  }
  const Object& object = moved ? *moved : stored;
  std::string out = fmt::format(R"({{"type":"{}","object":)", type);
  if (shape_ == Shape::kTable) {
    out += TableHead(version, "", first);
    AppendRow(object, out);
    out += "]}";
  } else {
    AppendItem(object, out);
  }
  return out + "}\n";
}

std::string Representation::Bookmark(std::string_view version, bool initial_events_end) const {
  const Resource& resource = resource_.info->resource;
  std::string metadata = "{\"resourceVersion\":" + Quoted(version);
  if (initial_events_end) metadata += R"(,"annotations":{"k8s.io/initial-events-end":"true"})";
  metadata += '}';
  if (shape_ == Shape::kTable) {
    return fmt::format(
        R"({{"type":"BOOKMARK","object":{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},)"
        R"("columnDefinitions":null,"rows":[]}}}})"
        "\n",
        metadata);
  }
  const bool partial = shape_ == Shape::kMetadata;
  return fmt::format(
      "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":{},\"apiVersion\":{},\"metadata\":{}}}}}\n",
      Quoted(partial ? "PartialObjectMetadata" : resource.kind),
      Quoted(partial ? "meta.k8s.io/v1" : resource.ApiVersion()), metadata);
}

}  // namespace larder::tools
