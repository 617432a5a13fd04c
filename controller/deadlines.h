// Stops what runs too long: one thread that watches the deadlines of any number of runs.
//
// A run is watched from Watch() until its Guard goes. Its stop is requested once, when the deadline
// passes on the clock. Thread-safe.
//
//   std::stop_source run;
//   const auto guard = deadlines.Watch(run, clock->Now() + 5s);
//   Work(run.get_token());
//   if (guard.Expired()) ...
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace larder::internal {

class Deadlines {
 public:
  explicit Deadlines(Clock* clock);

  class Guard {
   public:
    Guard() = default;
    Guard(Deadlines* owner, uint64_t id) : owner_(owner), id_(id) {}
    Guard(Guard&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), id_(other.id_) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard();
    bool Expired() const;

   private:
    Deadlines* owner_ = nullptr;
    uint64_t id_ = 0;
  };
  Guard Watch(std::stop_source run, Clock::Steady deadline);

 private:
  struct Entry {
    std::stop_source run;
    Clock::Steady deadline;
    bool expired = false;
  };

  void Run(const std::stop_token& stop);

  Clock* const clock_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<uint64_t, Entry> entries_ LARDER_GUARDED_BY(mutex_);
  uint64_t next_id_ LARDER_GUARDED_BY(mutex_) = 1;
  std::jthread thread_;  // last
};

}  // namespace larder::internal
