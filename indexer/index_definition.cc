#include "indexer/index_definition.h"

#include <algorithm>

namespace larder {

Result<IndexDefinition> IndexDefinition::ByField(std::string name, std::string_view path) {
  LARDER_ASSIGN_OR_RETURN(FieldPath parsed, FieldPath::Parse(path));
  IndexDefinition out;
  out.name_ = std::move(name);
  out.path_ = path;
  out.definition_ = "field:" + out.path_;
  out.function_ = [parsed = std::move(parsed)](const Object& object) {
    return parsed.Values(object);
  };
  return out;
}

IndexDefinition IndexDefinition::ByLabel(std::string label, std::string name) {
  IndexDefinition out;
  out.name_ = name.empty() ? label : std::move(name);
  out.label_ = label;
  out.definition_ = "label:" + label;
  out.function_ = [label = std::move(label)](const Object& object) {
    std::vector<std::string> values;
    if (const auto value = object.Label(label)) values.emplace_back(*value);
    return values;
  };
  return out;
}

IndexDefinition IndexDefinition::ByFunction(std::string name, int version, IndexFunction function) {
  IndexDefinition out;
  out.definition_ = "func:" + name + "@" + std::to_string(version);
  out.name_ = std::move(name);
  out.function_ = std::move(function);
  return out;
}

std::vector<std::string> IndexDefinition::Values(const Object& object) const {
  std::vector<std::string> values = function_(object);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace larder
