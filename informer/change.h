// One change of one object, as it was committed.
#pragma once

#include <functional>
#include <optional>

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
  // For deletes: the version that was stored, where `old` is a later one that
  // came with the delete.
  ObjectPtr stored{};

  // The newest state there is.
  const ObjectPtr& current() const { return object ? object : old; }
  // What it costs in memory, with the objects it brings.
  size_t ByteSize() const {
    return (old ? old->ByteSize() : 0) + (object ? object->ByteSize() : 0) + sizeof(*this);
  }
};

// What somebody hears of a change who sees only objects for which `holds` is
// true: one that comes to hold is added, one that ceases to is deleted, with
// the last state in which it held. nullopt: nothing. Exact only when it sees
// every change, before they are merged, or one from what he knew to what is there now.
std::optional<ObjectChange> Narrow(const ObjectChange& change,
                                   const std::function<bool(const Object&)>& holds);

}  // namespace larder
