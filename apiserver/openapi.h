// As much of OpenAPI v3 as kubectl needs to apply: that every kind can be patched, and that the
// server validates. There are no schemas.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apiserver/resource_info.h"

namespace larder::apiserver {

// /openapi/v3, /openapi/v3/api/v1, /openapi/v3/apis/GROUP/VERSION; nullopt: no such document.
std::optional<std::string> OpenApiJson(const ResourceRegistry& registry, std::string_view path);

}  // namespace larder::apiserver
