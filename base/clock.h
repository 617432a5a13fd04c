// Time, injected, so that no test sleeps.
//
// Thread-safe. RealClock() is the one for production; a test makes a FakeClock and moves it:
//
//   FakeClock clock;
//   WorkQueue queue({.clock = &clock});
//   queue.AddAfter("a", 5s);
//   clock.Advance(5s);   // wakes whoever waits for it
#pragma once

#include <chrono>
#include <condition_variable>
#include <stop_token>
#include <vector>

#include "base/mutex.h"

namespace larder {

class Clock {
 public:
  using Steady = std::chrono::steady_clock::time_point;
  using Wall = std::chrono::system_clock::time_point;

  virtual ~Clock() = default;

  // So long after `time`: for ever where that is later than the type can say. `time` is past its
  // epoch, as every reading is.
  template <typename Moment>
  static Moment After(Moment time, typename Moment::duration duration) {
    return duration > Moment::max() - time ? Moment::max() : time + duration;
  }

  // Monotonic: for time-outs, delays, durations.
  virtual Steady Now() const = 0;
  // The calendar: for what is stored and compared after a restart.
  virtual Wall WallNow() const = 0;

  // Gives back `mutex` and waits on `condition` until it is notified, `deadline` passes on this
  // clock, or a stop is requested; then holds `mutex` again. May wake early, as a condition
  // variable does: call it in a loop that checks its reason to wait. Returns false when a stop was
  // requested. The mutex and the condition must live as long as the clock is used: members of the
  // waiting object, not locals.
  virtual bool WaitUntil(Mutex& mutex, std::condition_variable_any& condition, Steady deadline,
                         const std::stop_token& stop) LARDER_REQUIRES(mutex) = 0;

  // Sleeps; returns false when a stop was requested first.
  bool SleepFor(Steady::duration duration, const std::stop_token& stop);

 private:
  // Shared by all sleepers and as long-lived as the clock, so that FakeClock can wake them safely.
  Mutex sleep_mutex_;
  std::condition_variable_any sleep_condition_;
};

// The process's one real clock. Never destroyed.
Clock* RealClock();

class FakeClock final : public Clock {
 public:
  explicit FakeClock(Wall start = Wall(std::chrono::seconds(1'700'000'000)))
      : wall_(start), steady_(Steady(std::chrono::seconds(1))) {}

  Steady Now() const override;
  Wall WallNow() const override;
  bool WaitUntil(Mutex& mutex, std::condition_variable_any& condition, Steady deadline,
                 const std::stop_token& stop) override LARDER_REQUIRES(mutex);

  // Moves both clocks and wakes everyone who waits on this clock.
  void Advance(Steady::duration duration);
  // How many threads wait on this clock now: lets a test advance only when the code sleeps.
  size_t Waiters() const;

 private:
  struct Waiter {
    Mutex* mutex;
    std::condition_variable_any* condition;
  };

  mutable Mutex mutex_;
  Wall wall_ LARDER_GUARDED_BY(mutex_);
  Steady steady_ LARDER_GUARDED_BY(mutex_);
  std::vector<Waiter*> waiters_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
