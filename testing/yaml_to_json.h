// Kubernetes YAML as JSON documents, for tests that create objects from manifests. What has no
// quotes is read as kubectl does, by YAML 1.1: 0400 is 256, yes is true; .nan and .inf are refused.
//
//   LARDER_ASSIGN_OR_RETURN(std::vector<Json> objects, YamlToJson(text));
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "schema/object.h"

namespace larder::testing {

// Every document that is not empty. kInvalidArgument says where the YAML is wrong.
Result<std::vector<Json>> YamlToJson(std::string_view yaml);

}  // namespace larder::testing
