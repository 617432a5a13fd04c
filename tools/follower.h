// A store seen moving: the changes that its owner commits, found without its help.
//
// Two readers of the same store take turns: one stands still where the last changes were reported,
// the other catches up with the owner, and what differs between them is what happened. So every
// change has its state before, deletes too, and nothing is held in memory. Changes of one key
// within a turn are merged.
//
//   LARDER_ASSIGN_OR_RETURN(auto follower, StoreFollower::Open(arguments));
//   follower->Read([&](Store& store) { ... });          // the state that was reported last
//   follower->Advance([&](const CollectionInfo& info, std::vector<FollowedChange> changes) {...});
//
// Read may be called from any thread; Advance by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "storage/store.h"
#include "tools/store_access.h"

namespace larder::tools {

struct FollowedChange {
  ObjectPtr before;     // null: added
  ObjectPtr now;        // null: deleted
  std::string version;  // of the change: the object's, or for a delete the collection's
};

class StoreFollower {
 public:
  static Result<std::unique_ptr<StoreFollower>> Open(const StoreArguments& arguments);

  // Calls `read` with the store as it was at the last Advance; it stands still meanwhile.
  template <typename Reader>
  auto Read(const Reader& read) {
    ReaderLock turn(turn_mutex_);
    Side& side = sides_[current_];
    ReaderLock lock(side.mutex);
    turn.unlock();
    return read(*side.store);
  }

  // Moves on to what the owner has committed by now, and reports each collection that changed, in
  // order of version. Returns whether anything did.
  using Sink = std::function<void(const CollectionInfo&, std::vector<FollowedChange>)>;
  Result<bool> Advance(const Sink& sink);

 private:
  struct Side {
    std::unique_ptr<Store> store;
    SharedMutex mutex;  // shared: somebody reads
  };
  StoreFollower() = default;

  Side sides_[2];
  size_t current_ LARDER_GUARDED_BY(turn_mutex_) = 0;
  SharedMutex turn_mutex_;
};

// What differs between a collection in one store and the same or another in a second: by uid and
// version, then by state. In key order.
struct KeyDifference {
  ObjectKey key;
  bool before = false;  // is in the first
  bool now = false;     // is in the second
};
Result<std::vector<KeyDifference>> CompareHeads(const Store& first, CollectionId in_first,
                                                const Store& second, CollectionId in_second);

}  // namespace larder::tools
