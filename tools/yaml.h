// JSON as YAML, the way kubectl writes it: keys sorted, lists not indented, text blocks for several
// lines, quotes only where a plain word would read as something else.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace larder::tools {

// The document, with a line end. `indent` spaces go in front of every line.
std::string ToYaml(const nlohmann::json& value, size_t indent = 0);

}  // namespace larder::tools
