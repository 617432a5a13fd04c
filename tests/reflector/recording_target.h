// A Target in memory: keeps what it is given as the store would, and writes every call down.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reflector/target.h"

namespace larder {

class RecordingTarget final : public Target {
 public:
  struct Stored {
    std::string uid;
    std::string version;
  };

  // What Start returns; kept up by the calls, as a store's cursor is.
  Position position;
  std::map<std::string, Stored> objects;  // by key
  std::vector<std::string> calls;  // "Rewound", "Begin gone", "Item x/a@5", "Same x/a", "End 9",
                                   // "ADDED x/a@6", "Bookmark 8"
  std::vector<ObjectPtr> items;    // of lists and events, in the order they came
  // Fails the call with this text, once.
  std::string fail_at;
  ErrorCode fail_with = ErrorCode::kNoSpace;
  // Runs before each call, with its text.
  std::function<void(const std::string&)> on_call;

  void Put(const std::string& key, const std::string& uid, const std::string& version) {
    objects[key] = {uid, version};
  }
  // The calls, without the unchanged and the items.
  size_t Count(std::string_view prefix) const;

  Result<Position> Start() override;
  Result<void> Rewound() override;
  Result<void> BeginList(std::string_view why) override;
  Result<void> ListItem(ObjectPtr object) override;
  Result<bool> ListItemUnchanged(const ObjectKey& key, std::string_view uid,
                                 std::string_view resource_version) override;
  Result<bool> StoredIsNewer(const ObjectKey& key, std::string_view resource_version) override;
  Result<bool> UnseenIsNewer(std::string_view resource_version) override;
  Result<void> EndList(std::string_view resource_version) override;
  Result<void> Event(EventType type, ObjectPtr object) override;
  Result<void> Bookmark(std::string_view resource_version) override;

 private:
  Result<void> Note(std::string call);

  std::set<std::string> seen_;
};

}  // namespace larder
