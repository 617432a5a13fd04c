#include "testing/yaml_to_json.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <string>

namespace larder::testing {
namespace {

template <typename Number>
bool ReadNumber(const std::string& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// A plain scalar has the type that it looks like; a quoted one ("!") is text.
Json Scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (text == "true" || text == "false") return text == "true";
  if (text == "null" || text == "~") return nullptr;
  int64_t integer = 0;
  if (ReadNumber(text, integer)) return integer;
  double number = 0;
  if (ReadNumber(text, number)) return number;
  return text;
}

Json Convert(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Map: {
      Json object = Json::object();
      for (const auto& entry : node) object[entry.first.Scalar()] = Convert(entry.second);
      return object;
    }
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const auto& entry : node) list.push_back(Convert(entry));
      return list;
    }
    case YAML::NodeType::Scalar:
      return Scalar(node);
    default:
      return nullptr;
  }
}

}  // namespace

Result<std::vector<Json>> YamlToJson(std::string_view yaml) {
  std::vector<Json> documents;
  try {
    for (const YAML::Node& node : YAML::LoadAll(std::string(yaml))) {
      if (node.IsMap()) documents.push_back(Convert(node));
    }
  } catch (const YAML::Exception& error) {
    return MakeError(ErrorCode::kInvalidArgument, "this is no YAML: {}", error.what());
  }
  return documents;
}

}  // namespace larder::testing
