// Accept headers: in which shape and encoding a client wants its answer.
//
// JSON for everything; protobuf for PartialObjectMetadata only, because only metadata has a shape
// that is the same for all kinds. A client that accepts several gets the first one that can be
// served, as from the real server.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/api_status.h"

namespace larder::apiserver {

// One clause of an Accept header, best first.
struct AcceptClause {
  std::string type;  // "application/json"
  std::map<std::string, std::string> parameters;
};
std::vector<AcceptClause> ParseAccept(std::string_view header);

enum class Answer { kObject, kList, kWatch };

struct MediaType {
  bool partial = false;   // metadata only
  bool protobuf = false;  // only together with partial

  // What the response's Content-Type says.
  std::string ContentType(Answer answer) const;
};

// Fails with 406.
ApiResult<MediaType> Negotiate(std::string_view accept, Answer answer);

// True where the client asks for aggregated discovery (v2) before plain JSON.
bool WantsAggregatedDiscovery(std::string_view accept);

}  // namespace larder::apiserver
