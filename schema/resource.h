// Names of resources: what is watched, and how it is spelled in a URL and on a command line.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace larder {

// group/version/resource plus what discovery says of it. Core resources have an empty group.
struct Resource {
  std::string group;     // "apps"
  std::string version;   // "v1"
  std::string resource;  // "deployments", the plural in the URL
  std::string kind;      // "Deployment"; may be empty where nobody asked discovery yet
  bool namespaced = true;

  // "v1" or "apps/v1".
  std::string ApiVersion() const { return group.empty() ? version : group + "/" + version; }
  // "pods" or "deployments.apps": how people and file names spell it.
  std::string ToString() const { return group.empty() ? resource : resource + "." + group; }
  // "/api/v1/namespaces/x/pods", "/apis/apps/v1/deployments"; `ns` empty means all namespaces.
  std::string Path(std::string_view ns = {}, std::string_view name = {}) const;

  friend bool operator==(const Resource&, const Resource&) = default;
};

// The common built-in kinds, by plural, singular, kind or short name ("pods", "pod", "po",
// "deploy", "deployments.apps"); anything else as "plural.version.group"
// ("widgets.v1.example.com"). What it does not know is kNotFound and the message says how to spell
// it in full.
Result<Resource> LookupResource(std::string_view text);

}  // namespace larder
