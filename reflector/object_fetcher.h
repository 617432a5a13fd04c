// Fetches many single objects, several at a time, and hands them over on the calling thread.
//
// For a relist that found only a few objects changed. `fetch` runs on up to `parallel` threads of
// its own, which exist only during the call; `deliver` runs on the caller's thread, so a slow
// target holds the fetching back. The first error ends it all and is returned.
//
//   LARDER_RETURN_IF_ERROR(FetchObjects(keys, 8, fetch, deliver, stop));
#pragma once

#include <functional>
#include <stop_token>
#include <vector>

#include "base/error.h"
#include "schema/object.h"

namespace larder {

// A null object: it is gone. Called from several threads at once.
using FetchFunction = std::function<Result<ObjectPtr>(const ObjectKey&, const std::stop_token&)>;
using DeliverFunction = std::function<Result<void>(ObjectPtr)>;

Result<void> FetchObjects(const std::vector<ObjectKey>& keys, size_t parallel,
                          const FetchFunction& fetch, const DeliverFunction& deliver,
                          const std::stop_token& stop);

}  // namespace larder
