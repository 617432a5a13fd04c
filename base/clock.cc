#include "base/clock.h"

#include <algorithm>
#include <utility>

namespace larder {
namespace {

class SystemClock final : public Clock {
 public:
  Steady Now() const override { return std::chrono::steady_clock::now(); }
  Wall WallNow() const override { return std::chrono::system_clock::now(); }

  bool WaitUntil(Mutex& mutex, std::condition_variable_any& condition, Steady deadline,
                 const std::stop_token& stop) override LARDER_REQUIRES(mutex) {
    bool woken = false;
    // The predicate is true at the second look, so that one wake-up (or none) ends the wait.
    auto once = [&] { return std::exchange(woken, true); };
    if (deadline == Steady::max()) {
      condition.wait(mutex, stop, once);
    } else {
      condition.wait_until(mutex, stop, deadline, once);
    }
    return !stop.stop_requested();
  }
};

}  // namespace

bool Clock::SleepFor(Steady::duration duration, const std::stop_token& stop) {
  MutexLock lock(sleep_mutex_);
  const Steady deadline = After(Now(), duration);
  while (Now() < deadline) {
    if (!WaitUntil(sleep_mutex_, sleep_condition_, deadline, stop)) return false;
  }
  return !stop.stop_requested();
}

Clock* RealClock() {
  static auto* const clock = new SystemClock;
  return clock;
}

Clock::Steady FakeClock::Now() const {
  MutexLock lock(mutex_);
  return steady_;
}

Clock::Wall FakeClock::WallNow() const {
  MutexLock lock(mutex_);
  return wall_;
}

bool FakeClock::WaitUntil(Mutex& mutex, std::condition_variable_any& condition, Steady deadline,
                          const std::stop_token& stop) {
  Waiter self{&mutex, &condition};
  {
    MutexLock guard(mutex_);
    if (steady_ >= deadline) return !stop.stop_requested();
    waiters_.push_back(&self);
  }
  bool woken = false;
  condition.wait(mutex, stop, [&] { return std::exchange(woken, true); });
  {
    // Advance() may hold a pointer to `self` until it releases mutex_; it never waits for `mutex`
    // while holding mutex_, so taking mutex_ here cannot deadlock.
    MutexLock guard(mutex_);
    waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &self));
  }
  return !stop.stop_requested();
}

void FakeClock::Advance(Steady::duration duration) {
  std::vector<Waiter> to_wake;
  {
    MutexLock lock(mutex_);
    steady_ += duration;
    wall_ += std::chrono::duration_cast<Wall::duration>(duration);
    for (const Waiter* waiter : waiters_) to_wake.push_back(*waiter);
  }
  for (const Waiter& waiter : to_wake) {
    // Passing through the waiter's mutex closes the gap between its look at the clock and its wait.
    // The waiter's mutex and condition outlive the wait by contract of WaitUntil's callers: they
    // are members of the object that the test still holds.
    { MutexLock pass(*waiter.mutex); }
    waiter.condition->notify_all();
  }
}

size_t FakeClock::Waiters() const {
  MutexLock lock(mutex_);
  return waiters_.size();
}

}  // namespace larder
