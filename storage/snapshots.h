// What makes a snapshot inside the process that owns the store. Internal to storage/.
#pragma once

#include <string>

#include "storage/maintenance.h"

namespace larder {

// kInvalidArgument for a name that is none, kAlreadyExists for one that is taken.
Result<void> CheckSnapshotIsNew(const std::string& store_path, const std::string& name);
Result<SnapshotInfo> MakeSnapshot(Store::Impl& impl, const std::string& name);

// Of the owner's syncer: makes the snapshot that storage/snapshot_request.h asks for, if one is
// asked for.
void AnswerSnapshotRequest(Store::Impl& impl);

}  // namespace larder
