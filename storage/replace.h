// Puts another database in the place of a store's, for restore and repair. Internal to storage/.
//
// The new one is made complete in a directory within the store's (Incoming), then the old files are
// taken away, then the new ones are moved into place, CURRENT last. A process that dies in between
// leaves a directory without CURRENT, which no Open takes for a store, and a mark that says how far
// it came; doing the same again goes on from there.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "storage/options.h"

namespace larder {

// Where a new database is made: "<store>/incoming".
std::string IncomingPath(const std::string& store_path);

// Puts a file's bytes, or a directory's names, on the disk.
Result<void> SyncPath(const std::string& path);

// Holds the store's lock meanwhile; kLocked where a process owns it. `make` fills the incoming
// directory, which is empty and private; where what it made does not open, the old store is left as
// it was. An earlier call that had begun to take the old store away is finished first; where that
// was for the same `what`, this is all. The old files go to `keep_old` (a directory within the
// store's) or, where that is empty, away; files that are no store's stay, and a directory with
// nothing else is refused.
Result<void> ReplaceStore(const StoreOptions& options, const std::string& what,
                          const std::function<Result<void>(const std::string& incoming)>& make,
                          const std::string& keep_old = {});

// Only goes on with what an earlier call left; true where that was for the same `what`, so that
// nothing is left to do. For callers that look into the old store before they replace it: what lies
// there may be half of the new one.
Result<bool> FinishReplacing(const StoreOptions& options, const std::string& what,
                             const std::string& keep_old = {});

}  // namespace larder
