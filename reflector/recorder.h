// Keeps a reflector's status and mirrors it into Prometheus: one place where everything is counted.
//
// Thread-safe: the reflector writes, anyone reads Snapshot(). The registry may be null and must
// outlive the recorder; metrics carry the label collection=<name>, and a recorder made again under
// a name goes on with its counters.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "reflector/reflector_status.h"

namespace prometheus {
class Registry;
}

namespace larder {

class Recorder {
 public:
  Recorder(std::string name, Clock* clock, prometheus::Registry* registry);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  ReflectorStatus Snapshot() const;

  void State(ReflectorState state);
  // Something failed; stays in ReflectorStatus::error until Healthy().
  void Failed(const Error& error);
  // A list is complete or a watch is open.
  void Healthy();
  void Synced();
  void Restart(std::string_view reason);
  void ListDone(std::string_view why, std::string_view resource_version);
  void WatchOpened();
  void Event(WatchEvent::Type type);
  void Bookmark();
  void Version(std::string_view resource_version);
  void Object(Clock::Steady::duration decode_time);
  void Unchanged();
  void Fetched();
  void Bytes(uint64_t wire, uint64_t body);
  void ShardedByServer(bool yes);

 private:
  struct Metrics;

  Clock* const clock_;
  const std::unique_ptr<Metrics> metrics_;  // null without a registry
  mutable Mutex mutex_;
  ReflectorStatus status_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
