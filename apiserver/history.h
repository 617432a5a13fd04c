// Every change the simulated cluster ever made, in order: the truth that a test's oracle compares
// with.
//
// Unlike the watch window it is never cut, and it keeps no bodies: 80 bytes or so for each change.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace larder::apiserver {

enum class EventType : uint8_t { kAdded, kModified, kDeleted };

// "ADDED", "MODIFIED", "DELETED".
std::string_view ToString(EventType type);

// What stays the same over an object's life, shared by all its versions.
struct Identity {
  std::string key;  // "ns/name", or "name" for cluster-scoped objects
  std::string uid;
};

struct HistoryEntry {
  uint64_t version = 0;
  EventType type = EventType::kAdded;
  std::string resource;  // "pods", "deployments.apps"
  std::string ns;
  std::string name;
  std::string uid;
  // XXH3 of the object's JSON as a watch delivers it: kind, apiVersion and version included.
  uint64_t hash = 0;
};

// Not thread-safe: State guards it.
class History {
 public:
  void Append(uint64_t version, EventType type, const std::string* resource,
              std::shared_ptr<const Identity> identity, uint64_t hash);
  // Entries with a version above `from`, at most `limit` of them.
  std::vector<HistoryEntry> Read(uint64_t from, size_t limit) const;
  // Forgets what came after the version.
  void Truncate(uint64_t version);
  size_t Size() const { return rows_.size(); }

 private:
  struct Row {
    uint64_t version;
    uint64_t hash;
    const std::string* resource;
    std::shared_ptr<const Identity> identity;
    EventType type;
  };
  std::deque<Row> rows_;
};

}  // namespace larder::apiserver
