// A snapshot of a store, made here or, where another process has the store open, by that one.
#pragma once

#include <string>

#include "storage/maintenance.h"
#include "tools/command.h"
#include "tools/store_access.h"

namespace larder::tools {

Result<SnapshotInfo> SnapshotLiveOrNot(const StoreArguments& arguments, const std::string& name,
                                       const StopOnSignal& stop);

}  // namespace larder::tools
