// What makes a snapshot inside the process that owns the store. Internal to storage/.
#pragma once

#include <string>

#include "storage/maintenance.h"

namespace larder {

// Removes what a process that was killed has left: half a snapshot, half a restore or repair. Only
// for the store's owner, once it is open.
void SweepLeftovers(const std::string& store_path);

// kInvalidArgument for a name that is none, kAlreadyExists for one that is taken.
Result<void> CheckSnapshotIsNew(const std::string& store_path, const std::string& name);
Result<SnapshotInfo> MakeSnapshot(Store::Impl& impl, const std::string& name);

}  // namespace larder
