// A list made by all cores: objects are read, selected and rendered on several threads, and come
// out in key order.
//
// Unpacking an object and laying out its row cost more than finding it, so a scan is cut into
// ranges of keys. What is held is bounded: few ranges are ahead of the one that is being printed. A
// query that an index answers, or that has a limit, is read on one thread.
#pragma once

#include <functional>

#include "tools/catalog.h"
#include "tools/printer.h"

namespace larder::tools {

// `sink` is called on the caller's thread; false ends the list.
Result<void> ForEachRendered(Store& store, const StoredResource& resource, const Query& query,
                             const Printer& printer, const std::function<bool(Rendered)>& sink);

}  // namespace larder::tools
