// The discovery documents: which groups, versions and resources there are, plain and aggregated
// (v2).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apiserver/resource_info.h"

namespace larder::apiserver {

// /api, /apis, /api/v1, /apis/GROUP, /apis/GROUP/VERSION; nullopt: no such document.
std::optional<std::string> DiscoveryJson(const ResourceRegistry& registry, std::string_view path);

// /api (core) or /apis (the rest) as APIGroupDiscoveryList.
std::string AggregatedDiscoveryJson(const ResourceRegistry& registry, bool core);
constexpr const char* kAggregatedContentType =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

// /version.
std::string VersionJson();

}  // namespace larder::apiserver
