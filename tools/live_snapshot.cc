#include "tools/live_snapshot.h"

#include "storage/owner_request.h"

namespace larder::tools {

Result<SnapshotInfo> SnapshotLiveOrNot(const StoreArguments& arguments, const std::string& name,
                                       const StopOnSignal& stop) {
  // An owner looks for requests every second; writing out its memory may take longer.
  constexpr std::chrono::seconds kPatience{30};
  const auto store = Store::Open(arguments.Options());
  if (store) return CreateSnapshot(**store, name);
  if (store.error().code == ErrorCode::kLocked) {
    return AskOwnerForSnapshot(arguments.path, name, stop, kPatience);
  }
  return tl::unexpected(ExplainStoreError(store.error(), arguments, "making a snapshot"));
}

}  // namespace larder::tools
