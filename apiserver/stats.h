// What the simulated server was asked for and what it sent, by resource. Thread-safe; counters only
// grow until Reset.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "schema/object.h"

namespace larder::apiserver {

// A copy of the counters of one resource.
struct ResourceStats {
  uint64_t lists = 0;    // each page counts
  uint64_t watches = 0;  // started
  uint64_t gets = 0;
  uint64_t writes = 0;   // create, update, patch, delete
  uint64_t objects = 0;  // sent in lists and gets, and as initial events
  uint64_t events = 0;   // sent in watches, without bookmarks
  uint64_t bookmarks = 0;
  uint64_t bytes = 0;   // on the wire (before TLS), headers included
  uint64_t errors = 0;  // answers of 400 and above
  uint64_t open_watches = 0;

  ResourceStats& operator+=(const ResourceStats& other);
};

class Stats {
 public:
  struct Counters {
    std::atomic<uint64_t> lists, watches, gets, writes, objects, events, bookmarks, bytes, errors,
        open_watches;
    ResourceStats Copy() const;
  };

  // "pods"; "" for discovery and the rest. Stays valid as long as this.
  Counters& Of(const std::string& resource);
  std::map<std::string, ResourceStats> Copy() const;
  // Everything but the watches that are open.
  void Reset();
  Json ToJson() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<Counters>> counters_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder::apiserver
