// A text field of a JSON object; empty where there is none, or where the shape is another.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "schema/object.h"

namespace larder {

inline std::string TextAt(const Json& object, const char* name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace larder
