// Writes into the journal which single objects a relist fetched, and in which version, and that a
// list was asked for.
//
// The objects are newer than the list that they belong to, and the only rows of a store that may be
// newer than its cursor: with this the oracle knows which ones may be.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/transport.h"
#include "tests/crash/journal.h"

namespace larder::crash {

// `journal` must outlive the transport.
// The process is killed when the answer number `kill_at` is there, in the middle of its relist; 0:
// it is not.
std::unique_ptr<HttpTransport> WitnessFetches(std::unique_ptr<HttpTransport> transport,
                                              Journal* journal, std::string cluster,
                                              uint64_t kill_at);

}  // namespace larder::crash
