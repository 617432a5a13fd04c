// A Target that mirrors a collection in memory and can be watched from the test's thread while a
// reflector fills it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "reflector/target.h"

namespace larder {

class MirrorTarget : public Target {
 public:
  // key -> (uid, resourceVersion)
  using Content = std::map<std::string, std::pair<std::string, std::string>>;

  explicit MirrorTarget(std::string cluster_uid = {}) {
    position_.cluster_uid = std::move(cluster_uid);
  }

  Content Objects() const;
  std::string Cursor() const;
  size_t Deletes() const;  // by events and by sweeps
  // Is it exactly this, with no list under way?
  bool Is(const Content& content) const;
  // Waits for real time; false when it did not come true, with no list under way, within `limit`.
  bool WaitFor(const std::function<bool(const Content&)>& reached,
               std::chrono::seconds limit = std::chrono::seconds(60)) const;
  bool WaitForCursor(std::chrono::seconds limit = std::chrono::seconds(60)) const;

  Result<Position> Start() override;
  Result<void> BeginList(std::string_view why) override;
  Result<void> ListItem(ObjectPtr object) override;
  Result<bool> ListItemUnchanged(const ObjectKey& key, std::string_view uid,
                                 std::string_view resource_version) override;
  Result<void> EndList(std::string_view resource_version) override;
  Result<void> Event(EventType type, ObjectPtr object) override;
  Result<void> Bookmark(std::string_view resource_version) override;

 private:
  void Put(const Object& object);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Position position_;
  Content objects_;
  std::set<std::string> seen_;
  size_t deletes_ = 0;
};

}  // namespace larder
