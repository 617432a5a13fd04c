// What an API server serves, as its discovery documents say: both the aggregated form and the older
// one.
//
// Pure functions from JSON text; kProtocol on anything else than the document that was asked for,
// and on one that is nested deeper than ParseJson reads.
// Unknown fields and single entries that make no sense are skipped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "schema/resource.h"

namespace larder {

struct ApiResource {
  Resource resource;
  std::string singular;  // "deployment"; may be empty
  std::vector<std::string> short_names;
  std::vector<std::string> verbs;
  std::vector<std::string> categories;
  std::vector<std::string> subresources;  // "status", "scale"
  bool preferred = false;                 // of the group's preferred version

  bool HasVerb(std::string_view verb) const;
};

// "kind" of a document; empty where it is not a JSON object.
std::string DocumentKind(std::string_view json);

struct GroupVersion {
  std::string group;
  std::string version;
  bool preferred = false;

  std::string ToString() const { return group.empty() ? version : group + "/" + version; }
};

// What a server has, as far as it can say.
struct Discovered {
  std::vector<ApiResource> resources;
  // Those whose own server does not answer (an aggregated one that is down). What they have now is
  // not known; resources that they had before may be among `resources`.
  std::vector<GroupVersion> unanswered;
};

// APIGroupDiscoveryList, v2 or v2beta1: everything in one document. The first version of a group is
// the preferred one.
Result<Discovered> ParseAggregatedDiscovery(std::string_view json);

// APIVersions (of /api) or APIGroupList (of /apis): which APIResourceLists to ask for.
Result<std::vector<GroupVersion>> ParseGroupVersions(std::string_view json);

// APIResourceList, of /api/v1 or /apis/apps/v1.
Result<std::vector<ApiResource>> ParseResourceList(std::string_view json, const GroupVersion& of);

}  // namespace larder
