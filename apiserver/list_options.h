// The query of a LIST, a WATCH or a DELETE of a collection, parsed and validated as the real server
// does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "apiserver/api_status.h"
#include "apiserver/resource_info.h"
#include "apiserver/shard_selector.h"
#include "apiserver/state.h"
#include "schema/selector.h"

namespace larder::apiserver {

using QueryParameters = std::multimap<std::string, std::string>;

// A resourceVersion that is no number. A list wraps it in a 400.
ApiStatus MalformedVersionStatus(const std::string& text);

// "" where the parameter is not there.
std::string Parameter(const QueryParameters& query, const std::string& name);
// Go's reading of a flag: absent, "0" and "false" are false, anything else (also an empty value) is
// true.
bool FlagParameter(const QueryParameters& query, const std::string& name);

// Which objects: label selector, field selector, shard. Immutable after Parse.
class ObjectFilter {
 public:
  static ApiResult<ObjectFilter> Parse(const QueryParameters& query, const ResourceInfo& info);

  // True where every object matches.
  bool Empty() const { return labels_.Empty() && fields_.Empty() && !shard_; }
  bool Matches(const StoredObject& object, const StoredBody::Rendered& rendered) const;
  // The same, where nobody rendered it yet.
  bool Matches(const StoredObject& object) const;
  const std::optional<ShardSelector>& shard() const { return shard_; }

 private:
  LabelSelector labels_;
  FieldSelector fields_;
  std::optional<ShardSelector> shard_;
};

enum class VersionMatch { kUnset, kExact, kNotOlderThan };

struct ListOptions {
  bool watch = false;
  bool bookmarks = false;
  std::optional<bool> send_initial_events;
  std::string resource_version;     // as given: "", "0" or digits
  std::optional<uint64_t> version;  // its number where it is neither "" nor "0"
  VersionMatch match = VersionMatch::kUnset;
  size_t limit = 0;  // 0: none
  std::string continue_token;
  std::optional<int64_t> timeout_seconds;
  ObjectFilter filter;

  static ApiResult<ListOptions> Parse(const QueryParameters& query, const ResourceInfo& info);
};

// Where a paged list goes on. Opaque to clients.
struct ContinueToken {
  int64_t version = 0;  // -1: at the latest, an inconsistent remainder
  std::string start;    // the first key of the next page
  std::optional<int64_t> remaining;

  std::string Encode() const;
  static ApiResult<ContinueToken> Decode(const std::string& text);
};

}  // namespace larder::apiserver
