#include "indexer/index_definition.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace larder {
namespace {

constexpr std::string_view kField = "field:";
constexpr std::string_view kLabel = "label:";
constexpr std::string_view kFunction = "func:";

}  // namespace

Result<IndexDefinition> IndexDefinition::ByField(std::string name, std::string_view path) {
  LARDER_ASSIGN_OR_RETURN(FieldPath parsed, FieldPath::Parse(path));
  IndexDefinition out;
  out.name_ = std::move(name);
  out.path_ = path;
  out.definition_ = std::string(kField) + out.path_;
  out.field_path_ = std::move(parsed);
  return out;
}

IndexDefinition IndexDefinition::ByLabel(std::string label, std::string name) {
  IndexDefinition out;
  out.name_ = name.empty() ? label : std::move(name);
  out.label_ = label;
  out.definition_ = std::string(kLabel) + label;
  out.function_ = [label = std::move(label)](const Object& object) {
    std::vector<std::string> values;
    if (const auto value = object.Label(label)) values.emplace_back(*value);
    return values;
  };
  return out;
}

IndexDefinition IndexDefinition::ByFunction(std::string name, int version, IndexFunction function) {
  IndexDefinition out;
  out.definition_ = std::string(kFunction) + name + "@" + std::to_string(version);
  out.name_ = std::move(name);
  out.function_ = std::move(function);
  out.exceptions_ = std::make_shared<std::atomic<uint64_t>>(0);
  return out;
}

Result<IndexDefinition> IndexDefinition::FromStored(std::string name, std::string_view definition) {
  if (definition.substr(0, kField.size()) == kField) {
    return ByField(std::move(name), definition.substr(kField.size()));
  }
  if (definition.substr(0, kLabel.size()) == kLabel) {
    return ByLabel(std::string(definition.substr(kLabel.size())), std::move(name));
  }
  if (definition.substr(0, kFunction.size()) == kFunction) {
    IndexDefinition out;
    out.name_ = std::move(name);
    out.definition_ = definition;
    return out;
  }
  return MakeError(ErrorCode::kCorruption, "index {} has the unknown definition \"{}\"", name,
                   definition);
}

std::vector<std::string> IndexDefinition::Values(const Object& object) const {
  std::vector<std::string> values;
  if (field_path_) {
    values = field_path_->Values(object);
  } else if (function_) {
    values = Call(object);
  }
  SortUnique(values);
  return values;
}

// A user's function: what it throws must not end the commit that it runs in.
std::vector<std::string> IndexDefinition::Call(const Object& object) const {
  try {
    return function_(object);
  } catch (const std::exception& error) {
    spdlog::error("index {} threw on {}: {}", name_, object.key().ToString(), error.what());
  } catch (...) {
    spdlog::error("index {} threw on {}", name_, object.key().ToString());
  }
  if (exceptions_) ++*exceptions_;
  return {};
}

void SortUnique(std::vector<std::string>& values) {
  if (values.size() < 2) return;
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace larder
