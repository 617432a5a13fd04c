// As much of OpenAPI as kubectl asks for: which kinds there are, and for custom kinds their schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/serve/resource_book.h"

namespace larder::tools {

// /openapi/v2, /openapi/v3, /openapi/v3/api/v1, /openapi/v3/apis/GROUP/VERSION; nullopt: no such
// document.
std::optional<std::string> OpenApiDocument(const ResourceBook& book, std::string_view path);

}  // namespace larder::tools
