// The changes of a store, kept for a while, for any number of watches.
//
// One thread moves the store forward and keeps the last changes in a window. A watch asks for what
// came behind a version; one that falls out of the window is told that its version is too old, as
// by the real server. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "tools/follower.h"

namespace larder::tools {

class WatchHub {
 public:
  struct Options {
    std::chrono::milliseconds interval{200};
    size_t window = 4096;  // changes
  };
  // `follower` must outlive it.
  WatchHub(StoreFollower* follower, Options options);
  ~WatchHub();

  // Where a watch begins: behind everything up to now.
  uint64_t Position() const;
  // A watch from `version` is to begin at `position`. For versions that do not say it themselves:
  // that of a list of several collections, which are not equally far, and a bookmark's, which may
  // be ahead of what was sent.
  void Keep(const std::string& version, uint64_t position);

  struct Start {
    uint64_t position = 0;
    // All that comes behind it is new to the client; otherwise only what is newer than its version.
    bool exact = false;
  };
  // Where the changes behind `version` begin. Fails with kGone where they are no longer all there.
  Result<Start> Find(const std::vector<CollectionId>& collections, std::string_view version) const;

  enum class Wake { kChanges, kTime, kEnded, kTooSlow };
  // Waits for changes of the collections behind `position`, and moves it. kTooSlow: some are gone.
  Wake Next(const std::vector<CollectionId>& collections, uint64_t& position,
            std::chrono::steady_clock::time_point deadline, const std::function<bool()>& closed,
            std::vector<FollowedChange>& out);
  // Makes Next look at `closed` again.
  void WakeAll();
  // Ends every wait.
  void Stop();
  // Why the store could not be read; empty: all is well.
  std::string Problem() const;

 private:
  struct Entry {
    CollectionId collection;
    uint64_t position;
    FollowedChange change;
  };
  // The oldest version from which a watch of this collection can go on; empty: from any.
  std::string OldestOf(CollectionId collection) const LARDER_REQUIRES(mutex_);
  std::optional<Start> FindExactly(const std::vector<CollectionId>& collections,
                                   std::string_view version) const LARDER_REQUIRES(mutex_);
  uint64_t OldestPosition() const LARDER_REQUIRES(mutex_);
  void Run(const std::stop_token& stop);
  void Append(const CollectionInfo& info, std::vector<FollowedChange> changes);

  StoreFollower* const follower_;
  const Options options_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Entry> window_ LARDER_GUARDED_BY(mutex_);
  uint64_t last_ LARDER_GUARDED_BY(mutex_) = 0;  // position of the newest
  // The newest version that left the window.
  std::map<CollectionId, std::string> dropped_ LARDER_GUARDED_BY(mutex_);
  std::map<CollectionId, std::string> first_ LARDER_GUARDED_BY(mutex_);  // the version at the start
  std::map<std::string, uint64_t, std::less<>> kept_ LARDER_GUARDED_BY(mutex_);  // by version
  std::string problem_ LARDER_GUARDED_BY(mutex_);
  bool stopped_ LARDER_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last
};

}  // namespace larder::tools
