// Asks the process that owns a store for a snapshot, through a file in DIR/tuning as the other
// requests of storage/mailbox.h are made. Only who may write into the store's directory can ask.
//
//   snapshot         the name that is asked for; the owner takes it away when it is done
//   snapshot.error   why there is none
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "base/error.h"
#include "storage/maintenance.h"

namespace larder {

// Waits for it. kTimeout where the owner does not answer, kCancelled where `stop` came first; then
// the request is taken back.
Result<SnapshotInfo> AskOwnerForSnapshot(const std::string& store_path, const std::string& name,
                                         const std::stop_token& stop,
                                         std::chrono::milliseconds patience);

}  // namespace larder
