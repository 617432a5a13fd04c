// Every key again: once in a while (INFORMER_RESYNC_PERIOD), and when another one led since we last
// did, whose retries and delays are in its store, not in ours.
//
// When a controller's keys were last queued, and which time of leading it is up to, is kept in the
// store, so that restarts neither cause a resync nor put it off. Keys are queued at low priority,
// after live changes. Errors are logged, and tried again after a minute. One thread for the
// controllers of a manager that need the lease, one for those that do not.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "controller/controller.h"
#include "controller/leader_elector.h"
#include "informer/shared_informer.h"
#include "storage/store.h"

namespace larder::internal {

class Resyncer {
 public:
  struct Entry {
    Controller* controller = nullptr;
    std::vector<SharedInformer*> informers{};
    std::vector<Predicate> predicates{};
    std::chrono::nanoseconds period{0};  // 0: never
  };

  Resyncer(Store* store, Clock* clock) : store_(store), clock_(clock) {}

  // Before Start.
  void Add(Entry entry) { entries_.push_back(std::move(entry)); }
  // With the time of leading that begins, and before its work does; none: without leader election.
  void Start(std::optional<Leadership> leadership = {});
  // Ends at the next key.
  void BeginStop() { thread_.request_stop(); }
  // Waits until nothing is queued any more; false when `deadline` came first. After BeginStop.
  bool WaitUntilIdle(Clock::Steady deadline);
  void Stop();

  // Queues what is due; returns when to look again. What the thread repeats. A stop leaves a resync
  // where it is: it is due again at the next start.
  Clock::Wall RunDue(const std::stop_token& stop = {});

 private:
  void Work(const std::stop_token& stop);
  // Of a controller whose first turn here it is: its first start queued all keys. Where this cannot
  // be stored they come once more.
  Result<void> NoteFirstTurn(const Entry& entry);
  // After another one led.
  Result<void> CatchUp(const Entry& entry, const std::stop_token& stop);
  // When to look again; max: never.
  Result<Clock::Wall> RunIfDue(const Entry& entry, const std::stop_token& stop);
  Result<Clock::Wall> LastRun(const Entry& entry);
  Result<void> Resync(const Entry& entry, const std::stop_token& stop);

  Store* const store_;
  Clock* const clock_;
  std::vector<Entry> entries_;
  std::optional<Leadership> leadership_;
  Mutex mutex_;
  std::condition_variable_any idle_;
  bool alive_ LARDER_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last
};

}  // namespace larder::internal
