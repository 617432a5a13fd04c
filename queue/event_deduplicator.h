// Drops an event that was seen already: same key, same or older resourceVersion.
//
// Versions are compared as Kubernetes defines them (schema/object.h): as numbers of any length, not
// as text. A version that cannot be compared is never a reason to drop. A key is remembered for a
// time after its last new event, and of too many keys the one without news for longest is
// forgotten; forgetting costs a repeated event, never a lost one.
//
// Thread-safe. Nothing fails.
//
//   EventDeduplicator seen({.ttl = 5min});
//   if (seen.ShouldProcess(pod->key().ToString(), pod->resource_version())) Handle(pod);
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/mutex.h"

namespace larder {

struct EventDeduplicatorOptions {
  std::chrono::nanoseconds ttl = std::chrono::minutes(5);
  size_t max_keys = 100'000;
  Clock* clock = RealClock();
};

class EventDeduplicator {
 public:
  explicit EventDeduplicator(EventDeduplicatorOptions options = {}) : options_(options) {}

  // False: seen already, drop it. True: new, and remembered.
  bool ShouldProcess(std::string_view key, std::string_view resource_version);
  // The next event of this key passes, whatever its version.
  void Forget(std::string_view key);

  size_t size() const;
  // How many events were dropped so far.
  uint64_t dropped() const;

 private:
  struct Record {
    std::string key;
    std::string resource_version;
    Clock::Steady expires;
  };
  using Records = std::list<Record>;

  void DropExpired(Clock::Steady now) LARDER_REQUIRES(mutex_);
  void EraseOldest() LARDER_REQUIRES(mutex_);

  const EventDeduplicatorOptions options_;
  mutable Mutex mutex_;
  Records records_ LARDER_GUARDED_BY(mutex_);  // by time of the last news, the oldest first
  // The keys point into records_.
  std::unordered_map<std::string_view, Records::iterator> by_key_ LARDER_GUARDED_BY(mutex_);
  uint64_t dropped_ LARDER_GUARDED_BY(mutex_) = 0;
};

}  // namespace larder
