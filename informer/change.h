// One change of one object, as it was committed.
#pragma once

#include "schema/object.h"

namespace larder {

enum class ChangeType { kAdded, kUpdated, kDeleted };

struct ObjectChange {
  ChangeType type = ChangeType::kAdded;
  // The version before: for updates. For deletes the last known state.
  ObjectPtr old;
  // The version now: for adds and updates.
  ObjectPtr object;
  // Part of the first list, not of something that happened just now.
  bool in_initial_list = false;
  // The delete was not seen but inferred: the object was gone when the collection was listed again.
  // `old` is what was known last (client-go's DeletedFinalStateUnknown, also across restarts).
  bool inferred = false;

  // The newest state there is.
  const ObjectPtr& current() const { return object ? object : old; }
};

}  // namespace larder
