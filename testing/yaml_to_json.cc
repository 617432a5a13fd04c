#include "testing/yaml_to_json.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <optional>
#include <regex>
#include <string>

namespace larder::testing {
namespace {

template <typename Number, typename... Format>
bool ReadNumber(std::string_view text, Number& value, Format... format) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, format...);
  return error == std::errc() && end == text.data() + text.size();
}

// By its prefix: 0x1f, 0b11, 0o17, and 017 as in YAML 1.1.
std::optional<Json> ReadInteger(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
    text.remove_prefix(letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1);
  }
  uint64_t magnitude = 0;
  if (!ReadNumber(text, magnitude, base)) return std::nullopt;
  if (!negative) return magnitude;
  if (magnitude > uint64_t{1} << 63) return std::nullopt;
  return static_cast<int64_t>(~magnitude + 1);
}

// A plain scalar has the type that it looks like in YAML 1.1; a quoted one ("!") is text.
Json Scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  static const std::regex kTrue("[yY]|yes|Yes|YES|true|True|TRUE|on|On|ON");
  static const std::regex kFalse("[nN]|no|No|NO|false|False|FALSE|off|Off|OFF");
  static const std::regex kNull("~|null|Null|NULL");
  static const std::regex kNotFinite(R"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))");
  static const std::regex kNumber(R"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)");
  if (std::regex_match(text, kTrue)) return true;
  if (std::regex_match(text, kFalse)) return false;
  if (std::regex_match(text, kNull)) return nullptr;
  if (std::regex_match(text, kNotFinite)) {
    throw YAML::Exception(node.Mark(), "JSON has no number " + text);
  }
  std::string digits = text;
  std::erase(digits, '_');
  if (const auto integer = ReadInteger(digits)) return *integer;
  double number = 0;
  if (!std::regex_match(digits, kNumber) ||
      !ReadNumber(std::string_view(digits).substr(digits[0] == '+'), number)) {
    return text;
  }
  return number;
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
