#include "informer/change.h"

namespace larder {

std::optional<ObjectChange> Narrow(const ObjectChange& change,
                                   const std::function<bool(const Object&)>& holds) {
  switch (change.type) {
    case ChangeType::kAdded:
      if (!holds(*change.object)) return std::nullopt;
      return change;
    case ChangeType::kUpdated: {
      const bool before = holds(*change.old);
      const bool now = holds(*change.object);
      if (before && now) return change;
      if (now) {
        return ObjectChange{ChangeType::kAdded, nullptr, change.object, change.in_initial_list,
                            false};
      }
      if (before) return ObjectChange{ChangeType::kDeleted, change.old, nullptr, false, false};
      return std::nullopt;
    }
    case ChangeType::kDeleted: {
      // What was stored decides: only that was heard of. The state at the
      // deletion may hold no more.
      const ObjectPtr& known = change.stored ? change.stored : change.old;
      if (!holds(*known)) return std::nullopt;
      if (known == change.old || holds(*change.old)) return change;
      return ObjectChange{ChangeType::kDeleted, known, nullptr, false, change.inferred};
    }
  }
  return std::nullopt;
}

}  // namespace larder
