// Puts another database in the place of a store's, for restore and repair. Internal to storage/.
//
// The new one is made complete in a directory within the store's (Incoming), then its files are
// moved into place, CURRENT last. A process that dies in between leaves a directory without
// CURRENT, which no Open takes for a store; doing the same again finishes it.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "storage/options.h"

namespace larder {

// Where a new database is made: "<store>/incoming".
std::string IncomingPath(const std::string& store_path);

// Holds the store's lock meanwhile; kLocked where a process owns it. `make` fills the incoming
// directory, which is empty and private; it is not called when an earlier call for the same `what`
// had come that far. The old files go to `keep_old` (a directory within the store's) or, where that
// is empty, away; files that are no store's stay, and a directory with nothing else is refused.
Result<void> ReplaceStore(const StoreOptions& options, const std::string& what,
                          const std::function<Result<void>(const std::string& incoming)>& make,
                          const std::string& keep_old = {});

}  // namespace larder
