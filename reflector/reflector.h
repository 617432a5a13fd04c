// Keeps a Target equal to one collection on an API server: list once, then watch, for ever.
//
// What it guarantees to the target:
//  1. Order: Start, then BeginList … EndList when a list is needed, then events in the server's
//  order. One thread.
//  2. EndList is called only for a list that arrived whole; a failed one is begun again and nothing
//  is swept.
//  3. The version to resume from never moves past an event that was not handed over. What cannot be
//  understood (not JSON,
//     invalid UTF-8, an unknown type, a name with '/' or NUL, no resourceVersion, larger than
//     max_event_bytes) ends the stream with kProtocol and a backoff; it is never skipped, because
//     an object silently missing is a wrong cache.
//  4. A stored version is trusted only after two checks: the cluster is the same one, and its
//  version is not lower. While it
//     runs, a stream that is silent for silent_timeout is checked the same way. A server that lost
//     its newest state (an etcd restored from backup) is listed anew with the reason "rewound";
//     equal versions prove nothing then.
//  5. 429, refused connections and broken streams lead to a new watch from the same version, never
//  to a list.
//
// Errors do not end it: they are in Status(), the log and the metrics, and it tries again with a
// backoff. It ends by the stop token, or with kAnotherCluster, when the server is not the one that
// the target was filled from: the owner must open another target. When a call of the target fails,
// the stream is dropped and Start is called again.
//
// Thread safety: Run() on one thread; Pause, Resume and Status on any. Durability is the target's.
// The transport and the target must outlive it.
//
//   LARDER_ASSIGN_OR_RETURN(auto reflector, Reflector::Create({.resource = pods}, transport,
//   &target)); std::jthread thread([&](std::stop_token stop) { reflector->Run(stop); });
//   reflector->Status().state;
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "client/transport.h"
#include "reflector/backoff.h"
#include "reflector/guarded_target.h"
#include "reflector/lister.h"
#include "reflector/recorder.h"
#include "reflector/reflector_options.h"
#include "reflector/reflector_status.h"
#include "reflector/requests.h"
#include "reflector/shard_selector.h"
#include "reflector/target.h"
#include "reflector/watch_stream.h"

namespace larder {

class Reflector {
 public:
  // Why Run() returned.
  enum class Outcome {
    kStopped,
    kAnotherCluster,  // Status().error says which UIDs
  };

  // kInvalidArgument for options that cannot work.
  static Result<std::unique_ptr<Reflector>> Create(ReflectorOptions options,
                                                   HttpTransport* transport, Target* target);
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  // Blocks until `stop` is requested or another cluster is found. May be called again afterwards.
  Outcome Run(const std::stop_token& stop);

  // Closes the connection and waits; Resume() goes on from the target's cursor, with the checks of
  // a start.
  void Pause();
  void Resume();

  ReflectorStatus Status() const { return recorder_.Snapshot(); }
  const ReflectorOptions& options() const { return options_; }

 private:
  using State = ReflectorState;

  Reflector(ReflectorOptions options, ShardSelector shard, uint64_t seed, HttpTransport* transport,
            Target* target);

  // One step of the machine: does what the state says and returns the next one.
  State Step(State state);
  State Start();
  State Check();
  State List();
  State StreamList();
  State Relist();
  State Watch();
  State BackOff();

  // Checking.
  Result<bool> SameCluster();
  Result<std::string> CurrentVersion();
  Result<std::string> VersionOf(const Request& request);
  State AfterChecks();

  // Listing.
  State BeginListing(std::string why, std::string version);
  State ListDone(const std::string& version);
  State ListFailed(const Error& error, State again);
  Result<std::optional<std::string>> ReadInitialEvents();
  Result<void> TakeInitialEvent(const WatchEvent& event);
  FirstSync Strategy() const;
  bool NextStrategy();
  State ListState() const;

  // Watching.
  enum class Heard { kFine, kRewound };
  Result<void> OpenWatch();
  Result<Heard> TakeEvent(const WatchEvent& event);
  Result<Heard> TakeBookmark(std::string_view json);
  Result<void> TakeObject(const WatchEvent& event);
  State WatchClosed();
  State WatchFailed(const Error& error);

  // Failing and waiting.
  State Fail(const Error& error, State next, std::string_view reason);
  State WaitThen(State next, std::chrono::milliseconds wait);
  std::stop_token FreshToken();
  void Interrupt();
  bool WaitWhilePaused(const std::stop_token& stop);

  const ReflectorOptions options_;
  const ShardSelector shard_;
  Clock* const clock_;
  HttpTransport& transport_;
  GuardedTarget target_;
  Recorder recorder_;
  Requests requests_;
  ListRequester lister_;
  Backoff backoff_;

  // Only Run()'s thread touches these.
  std::stop_token token_;           // of the current step: stop or pause
  std::string cursor_;              // watch from here
  std::string cluster_uid_;         // what the target was filled from; empty: not known
  bool list_unfinished_ = false;    // the target was left in the middle of a list
  std::string list_why_;            // of the list that is due
  std::string list_version_;        // and at which version
  size_t strategy_ = 0;             // which of the ways to list is being tried
  size_t strategies_declined_ = 0;  // in a row
  int list_failures_ = 0;           // in a row, with this strategy
  int too_large_ = 0;               // answers "version too large" in a row
  int gone_ = 0;                    // expired versions in a row, with no event between
  bool check_skipped_logged_ = false;
  std::unique_ptr<WatchStream> stream_;
  State after_backoff_ = State::kStarting;
  Clock::Steady backoff_until_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool paused_ = false;         // guarded by mutex_
  std::stop_source interrupt_;  // guarded by mutex_
};

// The UID of namespace kube-system: what names a cluster. For owners that open a collection.
Result<std::string> FetchClusterUid(HttpTransport& transport, const std::stop_token& stop);

}  // namespace larder
