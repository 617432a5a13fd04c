// A store seen moving: the changes that its owner commits, found without its help.
//
// Two readers of the same store take turns: one stands still where the last changes were reported,
// the other catches up with the owner, and what differs between them is what happened. So every
// change has its state before, deletes too, and nothing is held in memory. Changes of one key
// within a turn are merged.
//
// A list is a break: it writes objects in no order of version, and its collection's cursor does not
// move before its end. So changes are told from the end of one list to the beginning of the next.
// And so is an older store that was put in the place of this one (a snapshot or a backup): its
// cursors go back.
//
//   LARDER_ASSIGN_OR_RETURN(auto follower, StoreFollower::Open(arguments));
//   follower->Read([&](Store& store) { ... });          // the state that was reported last
//   follower->Advance({}, [&](FollowedTurn turn) { ... });
//
// Read may be called from any thread; Advance by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
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

  size_t ByteSize() const;
};

// What became of one collection.
struct FollowedTurn {
  CollectionInfo collection;  // as it is now
  // It is being listed, or was since the last turn, or is new, or gone, or went back, or cannot be
  // read, or there were more changes than may be held: what happened is not told one by one.
  bool broken = false;
  // In order of version. Deletes come first among equals: who got an object of some version got
  // all that was deleted up to it.
  std::vector<FollowedChange> changes{};
  // Its owner dropped it: `collection` is as it was.
  bool gone = false;
  // Why it cannot be read: encrypted without a key here, or damaged. The others are told as ever.
  std::optional<Error> problem{};
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

  struct Limits {
    // Of one collection's changes in a turn.
    size_t changes = 4096;
    size_t bytes = size_t{64} << 20;
    // Tell also what a break changed, and more than the limits, in several turns of which each is
    // within them.
    bool compare_breaks = false;
    // Of these resources only (Resource::ToString); empty: of all.
    std::vector<std::string> resources{};
  };
  // Moves on to what the owner has committed by now, and reports each collection that changed.
  // Returns whether anything did.
  using Sink = std::function<void(FollowedTurn)>;
  Result<bool> Advance(const Limits& limits, const Sink& sink);

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
