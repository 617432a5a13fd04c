// The machine inside a Reflector: its states, and one function for each.
//
// Run() goes from state to state on one thread; each step does what its state says and returns the
// next one. Status, Pause, Resume and TargetFailed may be called from any thread. What it promises
// is in reflector.h; the table of states is in reflector_status.h. Its code is in three files:
// starting, checking, waiting (reflector_machine.cc), lists (machine_list.cc), the watch
// (machine_watch.cc).
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "client/transport.h"
#include "reflector/backoff.h"
#include "reflector/guarded_target.h"
#include "reflector/list_requester.h"
#include "reflector/recorder.h"
#include "reflector/reflector.h"
#include "reflector/reflector_options.h"
#include "reflector/reflector_status.h"
#include "reflector/requests.h"
#include "reflector/shard_selector.h"
#include "reflector/target.h"
#include "reflector/watch_stream.h"
#include "reflector/wire_choice.h"

namespace larder {

// Before a server that is behind our version is asked again.
inline constexpr std::chrono::seconds kTooLargeWait(1);

class ReflectorMachine {
 public:
  using Outcome = Reflector::Outcome;

  // `options` with their defaults filled in.
  ReflectorMachine(ReflectorOptions options, ShardSelector shard, uint64_t seed,
                   HttpTransport* transport, Target* target);
  ReflectorMachine(const ReflectorMachine&) = delete;
  ReflectorMachine& operator=(const ReflectorMachine&) = delete;

  Outcome Run(const std::stop_token& stop);
  void Pause();
  void Resume();
  void TargetFailed(const Error& error);
  ReflectorStatus Status() const { return recorder_.Snapshot(); }
  const ReflectorOptions& options() const { return options_; }

 private:
  using State = ReflectorState;

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
  struct Look {
    std::string version;                 // the collection's
    std::optional<std::string> witness;  // the version of the witness; nullopt: it is not there
  };
  Result<bool> SameCluster();
  Result<Look> LookAtServer();
  Result<Look> LookWith(const Request& request);
  const std::string& NewestStored() const;
  bool Agrees(const Look& look);
  State Rewound();
  State AfterChecks();

  // Listing.
  State ListInTurn(State how);
  std::optional<State> CheckBeforeList(State how);
  State BeginListing(std::string why, std::string version);
  State ListAnew();
  State ListDone(const std::string& version);
  State ListFailed(const Error& error, State again);
  Result<std::optional<std::string>> ReadInitialEvents();
  Result<void> TakeInitialEvent(const WatchEvent& event);
  FirstSync Strategy() const;
  bool NextStrategy();
  State ListState() const;

  // Watching.
  enum class Heard { kFine, kOlder, kRewound };
  Result<void> OpenWatch();
  Clock::Steady AcceptedAt() const;
  void Accepted();
  // Says so, after a failure.
  void InSync();
  Result<Heard> TakeEvent(const WatchEvent& event);
  Result<Heard> TakeBookmark(std::string_view json);
  Result<void> TakeObject(const WatchEvent& event);
  bool PromiseBroken();
  State WatchClosed();
  State OlderBookmark();
  State WatchFailed(const Error& error);

  // Failing and waiting.
  State Fail(const Error& error, State next, std::string_view reason);
  State WaitThen(State next, std::chrono::milliseconds wait);
  std::stop_token FreshToken();
  void Interrupt();
  bool WaitWhilePaused(const std::stop_token& stop);
  std::optional<Error> TakeTargetFailure();

  const ReflectorOptions options_;
  const ShardSelector shard_;
  Clock* const clock_;
  HttpTransport& transport_;
  GuardedTarget target_;
  Recorder recorder_;
  Requests requests_;
  WireChoice wire_;
  ListRequester lister_;
  Backoff backoff_;

  // Only Run()'s thread touches these.
  std::stop_token token_;           // of the current step: stop or pause
  std::string cursor_;              // watch from here
  std::string cluster_uid_;         // what the target was filled from; empty: not known
  bool list_unfinished_ = false;    // the target was left in the middle of a list
  std::optional<Witness> witness_;  // the newest change up to the cursor, where it is known
  // The server shows a change of this object, so its watch must tell of one that is newer than what
  // is stored of it, before it is past the version at which it was seen.
  struct Promise {
    ObjectKey key;
    std::string stored;
    std::string version;
  };
  std::optional<Promise> promise_;
  std::string list_why_;             // of the list that is due
  std::string list_version_;         // and at which version
  size_t strategy_ = 0;              // which of the ways to list is being tried
  size_t strategies_declined_ = 0;   // in a row
  int list_failures_ = 0;            // in a row, with this strategy
  bool stream_is_older_ = false;     // a streaming list has an object that is older than the stored
  int too_large_ = 0;                // answers "version too large" in a row
  int gone_ = 0;                     // expired versions in a row, with no event between
  int older_ = 0;                    // older bookmarks in a row, likewise
  bool list_due_ = false;            // the watch ended so that a relist has to follow the check
  bool failed_since_check_ = false;  // who answers next may be another cluster
  bool skipped_ = false;  // the target was not told how far we are: what came was another shard's
  bool check_skipped_logged_ = false;
  std::unique_ptr<WatchStream> stream_;
  std::chrono::seconds watch_time_{0};  // after which the server was asked to end stream_
  bool accepted_ = false;  // the server serves stream_ from the version that was asked for
  std::optional<Clock::Steady> broken_since_;  // the first failure since it was in sync
  State after_backoff_ = State::kStarting;
  Clock::Steady backoff_until_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool paused_ LARDER_GUARDED_BY(mutex_) = false;
  std::optional<Error> target_failure_ LARDER_GUARDED_BY(mutex_);  // since the last Start
  std::stop_source interrupt_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
