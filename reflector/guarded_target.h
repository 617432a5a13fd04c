// A Target that remembers whether it was the one that failed.
//
// A failed commit and a failed request need different answers: after the first the reflector must
// begin again with Start, after the second it must not. Forwards every call. Not thread-safe.
#pragma once

#include <string_view>
#include <utility>

#include "reflector/target.h"

namespace larder {

class GuardedTarget final : public Target {
 public:
  explicit GuardedTarget(Target* target) : target_(*target) {}

  // True once after a failed call.
  bool TakeFailed() { return std::exchange(failed_, false); }

  Result<Position> Start() override { return Note(target_.Start()); }
  Result<void> Rewound() override { return Note(target_.Rewound()); }
  Result<void> BeginList(std::string_view why) override { return Note(target_.BeginList(why)); }
  Result<void> ListItem(ObjectPtr object) override {
    return Note(target_.ListItem(std::move(object)));
  }
  Result<bool> ListItemUnchanged(const ObjectKey& key, std::string_view uid,
                                 std::string_view resource_version) override {
    return Note(target_.ListItemUnchanged(key, uid, resource_version));
  }
  Result<bool> StoredIsNewer(const ObjectKey& key, std::string_view resource_version) override {
    return Note(target_.StoredIsNewer(key, resource_version));
  }
  Result<bool> UnseenIsNewer(std::string_view resource_version) override {
    return Note(target_.UnseenIsNewer(resource_version));
  }
  Result<void> EndList(std::string_view resource_version) override {
    return Note(target_.EndList(resource_version));
  }
  Result<void> Event(EventType type, ObjectPtr object) override {
    return Note(target_.Event(type, std::move(object)));
  }
  Result<void> Bookmark(std::string_view resource_version) override {
    return Note(target_.Bookmark(resource_version));
  }
  void InSync() override { target_.InSync(); }

 private:
  template <typename T>
  Result<T> Note(Result<T> result) {
    if (!result) failed_ = true;
    return result;
  }

  Target& target_;
  bool failed_ = false;
};

}  // namespace larder
