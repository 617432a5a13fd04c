// Writes into the journal which single objects a relist fetched, and in which version.
//
// Those are newer than the list that they belong to, and the only rows of a store that may be newer
// than its cursor: with this the oracle knows which ones may be.
#pragma once

#include <memory>
#include <string>

#include "client/transport.h"
#include "tests/crash/journal.h"

namespace larder::crash {

// `journal` must outlive the transport.
std::unique_ptr<HttpTransport> WitnessFetches(std::unique_ptr<HttpTransport> transport,
                                              Journal* journal, std::string cluster);

}  // namespace larder::crash
