// Where a Reflector puts what it hears: the seam between the network and the store.
//
// The reflector calls from its one thread, in this order: Start, then lists and events as they
// come. A call may block: that is the back-pressure, it stops the reading and TCP holds the server
// back. An error from any call means that nothing of it was taken; the reflector stops the stream,
// leaves the cursor where it is, backs off and begins again with Start.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/object.h"
#include "schema/witness.h"

namespace larder {

enum class EventType { kAdded, kModified, kDeleted };

class Target {
 public:
  struct Position {
    // Watch from here; empty: nothing was ever synced.
    std::string resource_version;
    // A list was under way when the process ended: list again before watching.
    bool list_unfinished = false;
    // UID of namespace kube-system that the stored objects came from; empty: not known yet.
    std::string cluster_uid;
    // The newest change up to the version, where it is known.
    std::optional<Witness> witness{};
  };

  virtual ~Target() = default;

  virtual Result<Position> Start() = 0;

  // The server lost its newest state: what is stored may be from a time that it does not know, and
  // no version of it proves anything before the next EndList. Returns when neither a crash nor a
  // power loss can take that back; a list follows.
  virtual Result<void> Rewound() { return {}; }
  // A list begins; until EndList nothing is complete. `why` is for log and metrics: "first"
  // (nothing was stored), "unfinished" (the process ended in the middle of a list), "gone" (the
  // version expired), "rewound" (the server lost its newest state: equal versions prove nothing),
  // "too large" and "refused" (the server does not know the version or cannot read it).
  virtual Result<void> BeginList(std::string_view why) = 0;
  // One object of the list. Equal uid and resourceVersion: only marked as seen.
  virtual Result<void> ListItem(ObjectPtr object) = 0;
  // The same, when only the metadata was fetched: true when the stored one is equal (now marked as
  // seen), false when the object must be fetched and given to ListItem.
  virtual Result<bool> ListItemUnchanged(const ObjectKey& key, std::string_view uid,
                                         std::string_view resource_version) = 0;
  // Is what is stored under this key of a higher version? Asked of objects that were read as they
  // are now: a server that shows an older one lost its newest state.
  virtual Result<bool> StoredIsNewer(const ObjectKey& key, std::string_view resource_version) {
    static_cast<void>(key), static_cast<void>(resource_version);
    return false;
  }
  // Is anything stored that the list did not name, and that is newer than the list? Asked before
  // EndList: such a list comes from a server that is behind another one, or that lost its newest
  // state, and says nothing about what it cannot know.
  virtual Result<bool> UnseenIsNewer(std::string_view resource_version) {
    static_cast<void>(resource_version);
    return false;
  }
  // The list is complete as of `resource_version`: what was not seen is gone. Returns when that is
  // committed.
  virtual Result<void> EndList(std::string_view resource_version) = 0;

  // A watch event. The cursor moves to the object's resourceVersion in the event's own commit.
  virtual Result<void> Event(EventType type, ObjectPtr object) = 0;
  // A bookmark: the cursor moves, nothing else changes.
  virtual Result<void> Bookmark(std::string_view resource_version) = 0;

  // Status().synced is true: a list is complete, or the server accepted the watch.
  virtual void InSync() {}
};

}  // namespace larder
