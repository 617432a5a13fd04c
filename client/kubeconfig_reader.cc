#include "client/kubeconfig_reader.h"

#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "schema/object.h"

namespace larder {
namespace {

constexpr int kMaxExtensionDepth = 32;
constexpr size_t kMaxExtensionNodes = 10'000;

bool IsAbsent(const YAML::Node& node) { return !node.IsDefined() || node.IsNull(); }

// YAML's plain scalars become what JSON would read them as. `nodes` bounds what aliases can
// multiply.
Json ToJson(const YAML::Node& node, int depth, size_t& nodes) {
  if (depth > kMaxExtensionDepth || ++nodes > kMaxExtensionNodes || IsAbsent(node)) return nullptr;
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& entry : node) {
      object[entry.first.as<std::string>()] = ToJson(entry.second, depth + 1, nodes);
    }
    return object;
  }
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const auto& entry : node) list.push_back(ToJson(entry, depth + 1, nodes));
    return list;
  }
  std::string text = node.Scalar();
  const bool quoted = node.Tag() == "!";
  if (!quoted) {
    Json plain = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (plain.is_number() || plain.is_boolean()) return plain;
  }
  return text;
}

// clusters, users, contexts: a list of {name: ..., <inner>: {...}}.
Result<std::map<std::string, FieldReader>> ReadEntries(const YAML::Node& root,
                                                       const std::string& file, const char* section,
                                                       const char* inner) {
  std::map<std::string, FieldReader> entries;
  const YAML::Node list = root[section];
  if (IsAbsent(list)) return entries;
  if (!list.IsSequence()) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: {} must be a list", file, section);
  }
  for (const auto& item : list) {
    if (!item.IsMap() || !item["name"] || !item["name"].IsScalar()) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: an entry of {} has no name", file,
                       section);
    }
    const auto name = item["name"].as<std::string>();
    const std::string where = fmt::format("{}[{}].{}", section, name, inner);
    YAML::Node content = item[inner];
    if (IsAbsent(content)) content = YAML::Node(YAML::NodeType::Map);
    if (!content.IsMap()) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: {} must be a mapping", file, where);
    }
    if (!entries.emplace(name, FieldReader(content, file, where)).second) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: {} has the name '{}' twice", file, section,
                       name);
    }
  }
  return entries;
}

}  // namespace

YAML::Node FieldReader::Get(const char* field) const {
  // A const lookup, because operator[] on a mutable node would add the field.
  const YAML::Node& node = node_;
  return node.IsMap() ? node[field] : YAML::Node(YAML::NodeType::Undefined);
}

bool FieldReader::Has(const char* field) const { return !IsAbsent(Get(field)); }

void FieldReader::Fail(const char* field, std::string_view what) {
  if (status_) {
    status_ = MakeError(ErrorCode::kInvalidArgument, "{}: {}.{} {}", file_, where_, field, what);
  }
}

std::string FieldReader::Text(const char* field) {
  const YAML::Node node = Get(field);
  if (IsAbsent(node)) return {};
  if (!node.IsScalar()) {
    Fail(field, "must be text");
    return {};
  }
  return node.Scalar();
}

std::string FieldReader::Data(const char* field) {
  const std::string text = Text(field);
  Result<std::string> bytes = DecodeBase64(text);
  if (!bytes) {
    Fail(field, "is not valid base64");
    return {};
  }
  return *bytes;
}

std::string FieldReader::Path(const char* field) { return ResolvePath(Text(field)); }

std::string FieldReader::ResolvePath(const std::string& path) const {
  if (path.empty() || path.front() == '/') return path;
  return (std::filesystem::path(file_).parent_path() / path).string();
}

bool FieldReader::Bool(const char* field) {
  const YAML::Node node = Get(field);
  if (IsAbsent(node)) return false;
  bool value = false;
  if (!node.IsScalar() || !YAML::convert<bool>::decode(node, value)) {
    Fail(field, "must be true or false");
  }
  return value;
}

std::vector<std::string> FieldReader::Texts(const char* field) {
  std::vector<std::string> result;
  const YAML::Node node = Get(field);
  if (IsAbsent(node)) return result;
  if (!node.IsSequence()) Fail(field, "must be a list");
  for (const auto& item : node) {
    if (item.IsScalar()) {
      result.push_back(item.Scalar());
    } else {
      Fail(field, "must be a list of texts");
    }
  }
  return result;
}

std::vector<std::pair<std::string, std::string>> FieldReader::NamedValues(const char* field) {
  std::vector<std::pair<std::string, std::string>> result;
  const YAML::Node node = Get(field);
  if (IsAbsent(node)) return result;
  if (!node.IsSequence()) Fail(field, "must be a list");
  for (const auto& item : node) {
    const bool named = item.IsMap() && item["name"] && item["name"].IsScalar();
    if (!named || (item["value"] && !item["value"].IsScalar())) {
      Fail(field, "must be a list of names and values");
      continue;
    }
    result.emplace_back(item["name"].Scalar(), item["value"] ? item["value"].Scalar() : "");
  }
  return result;
}

std::map<std::string, std::vector<std::string>> FieldReader::TextLists(const char* field) {
  std::map<std::string, std::vector<std::string>> result;
  const YAML::Node node = Get(field);
  if (IsAbsent(node)) return result;
  if (!node.IsMap()) {
    Fail(field, "must be a mapping");
    return result;
  }
  for (const auto& entry : node) {
    if (!entry.first.IsScalar() || !entry.second.IsSequence()) {
      Fail(field, "must be a mapping of lists");
      continue;
    }
    for (const auto& value : entry.second) {
      if (value.IsScalar()) result[entry.first.Scalar()].push_back(value.Scalar());
    }
  }
  return result;
}

std::string FieldReader::ExtensionJson(std::string_view name) {
  const YAML::Node list = Get("extensions");
  if (IsAbsent(list) || !list.IsSequence()) return {};
  for (const auto& item : list) {
    if (!item.IsMap() || !item["name"] || item["name"].Scalar() != name) continue;
    size_t nodes = 0;
    return ToJson(item["extension"], 0, nodes).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return {};
}

FieldReader FieldReader::Child(const char* field) {
  YAML::Node node = Get(field);
  if (!IsAbsent(node) && !node.IsMap()) Fail(field, "must be a mapping");
  return FieldReader(node, file_, where_ + "." + field);
}

Result<KubeconfigDocument> ReadKubeconfigDocument(const KubeconfigFile& file) {
  try {
    const YAML::Node root = YAML::Load(file.text);
    KubeconfigDocument document;
    if (IsAbsent(root)) return document;
    if (!root.IsMap()) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: not a kubeconfig: no mapping", file.path);
    }
    LARDER_ASSIGN_OR_RETURN(document.clusters, ReadEntries(root, file.path, "clusters", "cluster"));
    LARDER_ASSIGN_OR_RETURN(document.users, ReadEntries(root, file.path, "users", "user"));
    LARDER_ASSIGN_OR_RETURN(document.contexts, ReadEntries(root, file.path, "contexts", "context"));
    FieldReader top(root, file.path, "");
    document.current_context = top.Text("current-context");
    LARDER_RETURN_IF_ERROR(top.status());
    return document;
  } catch (const YAML::Exception& e) {
    // Not e.what(): it may quote the line, and the line may be a token.
    return MakeError(ErrorCode::kInvalidArgument, "{}: not valid YAML near line {}", file.path,
                     e.mark.line + 1);
  }
}

}  // namespace larder
