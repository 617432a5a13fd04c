// How another process asks the owner of a store to do something, and waits for what it says: a file
// in DIR/tuning, beside those of storage/mailbox.h, which the owner looks at every sync_interval.
// One request at a time. Only who may write into the store's directory can ask.
//
//   request          what is asked; the owner takes it away when it is done
//   request.*.answer what it says, or why it could not
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

#include "base/error.h"
#include "storage/maintenance.h"

namespace larder {

using OwnerAnswer = std::function<Result<std::string>(const std::string& text)>;

// The owner's side: what is asked under this name is answered so, on a thread of the store that has
// other work to do. Snapshots are answered by the store itself.
void AnswerRequests(Store& store, const std::string& name, OwnerAnswer answer);
// Waits for an answer that is being made.
void StopAnswering(Store& store, const std::string& name);

// The other side. kTimeout where the owner says nothing, kCancelled where `stop` came first: then
// the request is taken back. kNotFound where the owner knows nothing of this name.
Result<std::string> AskOwner(const std::string& store_path, const std::string& name,
                             const std::string& text, const std::stop_token& stop,
                             std::chrono::milliseconds patience);
Result<SnapshotInfo> AskOwnerForSnapshot(const std::string& store_path, const std::string& name,
                                         const std::stop_token& stop,
                                         std::chrono::milliseconds patience);

}  // namespace larder
