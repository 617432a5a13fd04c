// Load and churn: fills a cluster with pods, and keeps changing them at a chosen rate.
//
// managedFields of what changes have the clock's time; pods of a load have times that follow from
// the seed.
//
// Thread-safe. One thread makes the changes. A pod that somebody else changed meanwhile is updated
// on top of that change; one that somebody else deleted is forgotten.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "apiserver/object_writer.h"
#include "apiserver/state.h"
#include "apiserver/workload.h"
#include "base/error.h"
#include "base/mutex.h"
#include "schema/object.h"

namespace larder::apiserver {

struct ChurnOptions {
  double rate = 100;  // changes a second
  // The mix, as weights.
  double create = 1;
  double update = 8;
  double remove = 1;
  uint64_t seed = 1;
  uint64_t limit = 0;  // stop after so many changes; 0: never

  static Result<ChurnOptions> FromJson(const Json& json);
};

// What the churn has done so far, since the first Start.
struct ChurnCounts {
  uint64_t created = 0;
  uint64_t updated = 0;
  uint64_t deleted = 0;
  bool running = false;
};

class Churn {
 public:
  Churn(State& state, ObjectWriter& writer, ResourceRegistry& registry, Clock& clock,
        WorkloadShape shape);
  ~Churn();

  // Adds `count` pods, and the namespaces and nodes they need. Pods follow those of earlier loads.
  Result<void> Load(uint64_t count);
  // Starts, or goes on with other options.
  void Start(const ChurnOptions& options);
  // Returns when no change is under way.
  void Stop();
  // Waits until a churn with a limit has reached it. False: stopped before.
  bool WaitForLimit();
  // Makes this many changes now, on the caller's thread.
  void Run(uint64_t changes, const ChurnOptions& options);
  ChurnCounts Counts() const;

 private:
  struct LivePod {
    PodVersion pod;
    uint64_t version = 0;  // what we wrote last
  };

  Result<void> EnsurePlaces() LARDER_REQUIRES(change_mutex_);
  bool CreatePod(const PodVersion& pod) LARDER_REQUIRES(change_mutex_);
  void UpdatePod(size_t at) LARDER_REQUIRES(change_mutex_);
  void DeletePod(size_t at) LARDER_REQUIRES(change_mutex_);
  void UpdateForeign(const std::string& key) LARDER_REQUIRES(change_mutex_);
  void Forget(size_t at) LARDER_REQUIRES(change_mutex_);
  int64_t WallSeconds() const;
  void OneChange(const ChurnOptions& options, std::mt19937_64& random);
  void Loop(const std::stop_token& stop);

  State& state_;
  ObjectWriter& writer_;
  ResourceRegistry& registry_;
  Clock& clock_;
  const PodSource pods_;
  TablePtr table_;

  // Held over every change, so that Load, Run and the thread do not mix.
  Mutex change_mutex_;
  std::vector<LivePod> live_ LARDER_GUARDED_BY(change_mutex_);
  // Stable names that can come back.
  std::vector<PodVersion> gone_ LARDER_GUARDED_BY(change_mutex_);
  uint64_t next_index_ LARDER_GUARDED_BY(change_mutex_) = 0;

  mutable Mutex mutex_ LARDER_ACQUIRED_AFTER(change_mutex_);
  std::condition_variable_any changed_;
  ChurnOptions options_ LARDER_GUARDED_BY(mutex_);
  // Counts Starts: the thread takes new options over.
  uint64_t generation_ LARDER_GUARDED_BY(mutex_) = 0;
  bool limit_reached_ LARDER_GUARDED_BY(mutex_) = false;
  ChurnCounts counts_ LARDER_GUARDED_BY(mutex_);
  std::jthread thread_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder::apiserver
