// One page of a list: which objects, at which version, and how it goes on.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include "apiserver/api_status.h"
#include "apiserver/list_options.h"
#include "apiserver/metadata_proto.h"
#include "apiserver/state.h"

namespace larder::apiserver {

struct ListPage {
  ListMetaFields meta;
  std::vector<StoredPtr> objects;
};

// Follows the rules of resourceVersion and resourceVersionMatch: at the present, at least as new as
// a version (waiting up to `patience` for it, then 504), or exactly at one (410 where the window
// does not reach back). All pages of a list show the version of its first page. `ns` empty: all
// namespaces.
ApiResult<ListPage> ReadPage(State& state, const Table& table, const std::string& ns,
                             const ListOptions& options, std::chrono::milliseconds patience,
                             const std::stop_token& stop);

}  // namespace larder::apiserver
