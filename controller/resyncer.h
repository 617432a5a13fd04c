// Every key again, once in a while: INFORMER_RESYNC_PERIOD.
//
// When a controller's keys were last queued is kept in the store, so that restarts neither cause a
// resync nor put it off. Keys are queued at low priority, after live changes. Errors are logged,
// and tried again after a minute. One thread for the controllers of a manager that need the
// lease, one for those that do not.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "controller/controller.h"
#include "informer/shared_informer.h"
#include "storage/store.h"

namespace larder::internal {

class Resyncer {
 public:
  struct Entry {
    Controller* controller = nullptr;
    std::vector<SharedInformer*> informers{};
    std::vector<Predicate> predicates{};
    std::chrono::nanoseconds period{0};
  };

  Resyncer(Store* store, Clock* clock) : store_(store), clock_(clock) {}

  // Before Start.
  void Add(Entry entry) { entries_.push_back(std::move(entry)); }
  void Start();
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
  // When to look again.
  Result<Clock::Wall> RunIfDue(const Entry& entry, const std::stop_token& stop);
  Result<Clock::Wall> LastRun(const Entry& entry);
  Result<void> Resync(const Entry& entry, const std::stop_token& stop);

  Store* const store_;
  Clock* const clock_;
  std::vector<Entry> entries_;
  Mutex mutex_;
  std::condition_variable_any idle_;
  bool alive_ LARDER_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last
};

}  // namespace larder::internal
