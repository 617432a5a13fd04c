// What the oracle judges by: the server's history, and what a store holds when it is opened.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/simulator.h"
#include "storage/store.h"

namespace larder::crash {

struct Change {
  uint64_t version = 0;
  bool deleted = false;
  std::string uid;
  uint64_t hash = 0;  // of the object's JSON
};
using Changes = std::vector<Change>;  // of one key, in the server's order
using ServerHistory = std::map<std::string, Changes>;

ServerHistory ReadHistory(const apiserver::Simulator& simulator);
// The change that has this version; nullptr: none.
const Change* At(const Changes& changes, uint64_t version);
// The last change at or before `version`; nullptr: none.
const Change* LastUpTo(const Changes& changes, uint64_t version);

// What is stored of the cluster's pods.
struct Found {
  struct Row {
    uint64_t version = 0;
    std::string uid;
    uint64_t hash = 0;
  };
  std::string cluster;
  SyncState state = SyncState::kEmpty;
  uint64_t cursor = 0;  // 0: never complete
  // Are the durable names known? Before, the next process tells them everything from the start.
  bool handler_known = false;
  bool enqueuer_known = false;
  std::map<std::string, Row> objects;
  uint64_t by_dictionary = 0;  // rows that name a dictionary
  uint64_t encrypted = 0;
  std::set<std::string> rows;     // keys with a change that the handler has not acknowledged
  std::set<std::string> unheard;  // those of them that the store says it has never heard of
  std::set<std::string> items;    // keys that wait in the queue, or to get there

  const Row* Object(const std::string& key) const {
    const auto it = objects.find(key);
    return it == objects.end() ? nullptr : &it->second;
  }
};

// nullopt: nothing is stored of this cluster. Reads every object in full.
Result<std::optional<Found>> ReadFound(Store& store, std::string_view cluster);

// What is wrong. Keeps the first few of each promise.
class Violations {
 public:
  void Add(int promise, const std::string& what) {
    const std::string which = "promise " + std::to_string(promise) + ": ";
    const auto said = std::count_if(all_.begin(), all_.end(), [&](const std::string& violation) {
      return violation.starts_with(which);
    });
    if (said < kMost) all_.push_back(which + what);
  }
  std::vector<std::string> Take() { return std::exchange(all_, {}); }

 private:
  static constexpr int kMost = 5;
  std::vector<std::string> all_;
};

}  // namespace larder::crash
