// A list made by all cores: objects are unpacked, selected and rendered on several threads, and
// come out in key order.
//
// Unpacking an object and laying out its row cost ten times what finding it costs, so one thread
// reads and the others do the rest, a batch of rows at a time. What is held is bounded: few batches
// are ahead of the one that is being printed. A query that an index answers, or that has a limit,
// is read on one thread.
#pragma once

#include <functional>

#include "tools/catalog.h"
#include "tools/printer.h"

namespace larder::tools {

// `sink` is called on the caller's thread; false ends the list.
Result<void> ForEachRendered(Store& store, const StoredResource& resource, const Query& query,
                             const Printer& printer, const std::function<bool(Rendered)>& sink);

}  // namespace larder::tools
