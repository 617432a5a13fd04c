// The changes of a store, kept for a while, for any number of watches.
//
// One thread moves the store forward and keeps the last changes in a window. A watch asks for what
// came behind a version; one that falls out of the window is told that its version is too old, as
// by the real server. Where a collection is listed anew its history begins anew, too: its changes
// leave the window, its watches end, and none begins from before. So it is for all collections of a
// resource when one of them comes or goes, or is filled instead of another that holds the same,
// because then a watch has others to follow. Thread-safe.
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
    // Of the window. More in one turn is a break.
    size_t max_changes = 4096;
    size_t max_bytes = size_t{64} << 20;
    size_t max_kept = 1024;  // places of Keep
  };
  // `follower` must outlive it.
  WatchHub(StoreFollower* follower, Options options);
  ~WatchHub();

  using Collections = std::vector<CollectionId>;
  // How far a watch is.
  struct Place {
    uint64_t position = 0;    // all up to here was handed out
    std::string version;      // of the collection that moved last
    uint64_t version_at = 0;  // where it reached that
  };

  uint64_t Position() const;
  // Behind everything up to now. Nothing: one of them is being listed.
  std::optional<Place> Now(const Collections& collections) const;
  // Has no collection come or gone, or overtaken another, behind this position? Who read the
  // store's collections before it still knows which to follow.
  bool SameCollectionsSince(uint64_t position) const;
  // A watch of these collections from the place's version is to miss nothing. For the version of a
  // list or a bookmark of several collections, which are not equally far: it does not say itself
  // what its client knows. The oldest of them are forgotten; a watch from those is told that it is
  // too late.
  //
  // It may be the version of an event, too, and who broke off behind that event knows no more than
  // what came up to it: such a watch begins where the version was reached. It is that of the
  // collection that moved last, because that was just now: the least would stay with one in which
  // nothing happens, and where it was reached soon leaves the window.
  void Keep(const Collections& collections, const Place& place);

  struct Start {
    uint64_t position = 0;
    // All that comes behind it is new to the client; otherwise only what is newer than its version.
    bool exact = false;
  };
  // Where the changes behind `version` begin. Fails with kGone where they are no longer all there.
  Result<Start> Find(const Collections& collections, std::string_view version) const;

  // kTooSlow: some changes are gone. kListed: a collection was listed anew, or is, or has a break
  // for another reason.
  enum class Wake { kChanges, kTime, kEnded, kTooSlow, kListed };
  // Waits for changes of the collections behind the place, and moves it.
  Wake Next(const Collections& collections, Place& place,
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
  // A collection's history.
  struct Line {
    void Take(const CollectionInfo& info);

    std::string resource;
    std::string version;      // where it is
    bool synced = false;      // false: it is being listed
    std::string oldest;       // from here on the window has all; empty: from anywhere
    uint64_t dropped_at = 0;  // the newest position that left the window
    uint64_t listed_at = 0;   // the position of the newest break
    uint64_t reached_at = 0;  // what came with this version or later is behind it
    bool warned = false;      // that it cannot be read
    bool whole = false;       // as IsWhole of catalog.h
    bool overtaken = false;   // another one that is whole is read instead
    int64_t updated_ms = 0;
  };
  struct Kept {
    Collections collections;
    std::string version;
    uint64_t position;
  };
  // Null: not known, or it is being listed.
  const Line* SyncedLine(CollectionId collection) const LARDER_REQUIRES(mutex_);
  // Is all that these collections changed behind the position in the window?
  bool Reaches(const Collections& collections, uint64_t position) const LARDER_REQUIRES(mutex_);
  std::optional<Start> FindKept(const Collections& collections, std::string_view version) const
      LARDER_REQUIRES(mutex_);
  Place PlaceNow(const Collections& collections) const LARDER_REQUIRES(mutex_);
  std::deque<Entry>::const_iterator Behind(uint64_t position) const LARDER_REQUIRES(mutex_);
  void Run(const std::stop_token& stop);
  void Append(FollowedTurn turn);
  // Does the line take the place of others that hold the same and that nobody fills any more?
  bool Overtakes(const Line& line) LARDER_REQUIRES(mutex_);
  void BreakAll(const std::string& resource) LARDER_REQUIRES(mutex_);
  void Break(CollectionId collection, Line& line) LARDER_REQUIRES(mutex_);
  void DropOldest() LARDER_REQUIRES(mutex_);

  StoreFollower* const follower_;
  const Options options_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Entry> window_ LARDER_GUARDED_BY(mutex_);  // by position
  size_t window_bytes_ LARDER_GUARDED_BY(mutex_) = 0;
  uint64_t last_ LARDER_GUARDED_BY(mutex_) = 0;  // position of the newest
  std::map<CollectionId, Line> lines_ LARDER_GUARDED_BY(mutex_);
  // The position at which one of them came, went or overtook another.
  uint64_t collections_changed_at_ LARDER_GUARDED_BY(mutex_) = 0;
  std::deque<Kept> kept_ LARDER_GUARDED_BY(mutex_);  // the oldest first
  std::string problem_ LARDER_GUARDED_BY(mutex_);
  bool stopped_ LARDER_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last
};

}  // namespace larder::tools
