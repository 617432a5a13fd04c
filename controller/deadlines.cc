#include "controller/deadlines.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/thread_name.h"

namespace larder::internal {

Deadlines::Deadlines(Clock* clock)
    : clock_(clock), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

Deadlines::Guard Deadlines::Watch(std::stop_source run, Clock::Steady deadline) {
  MutexLock lock(mutex_);
  const uint64_t id = next_id_++;
  entries_.emplace(id, Entry{std::move(run), deadline});
  changed_.notify_all();
  return {this, id};
}

Deadlines::Guard::~Guard() {
  if (!owner_) return;
  MutexLock lock(owner_->mutex_);
  owner_->entries_.erase(id_);
}

bool Deadlines::Guard::Expired() const {
  if (!owner_) return false;
  MutexLock lock(owner_->mutex_);
  return owner_->entries_.at(id_).expired;
}

void Deadlines::Run(const std::stop_token& stop) {
  NameThread("larder-deadline");
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    const Clock::Steady now = clock_->Now();
    Clock::Steady next = Clock::Steady::max();
    std::vector<std::stop_source> late;
    for (auto& [id, entry] : entries_) {
      if (entry.expired) continue;
      if (entry.deadline <= now) {
        entry.expired = true;
        late.push_back(entry.run);
      } else {
        next = std::min(next, entry.deadline);
      }
    }
    if (!late.empty()) {
      // A stop calls its callbacks here: not under our lock.
      lock.unlock();
      for (std::stop_source& run : late) run.request_stop();
      lock.lock();
      continue;
    }
    if (!clock_->WaitUntil(mutex_, changed_, next, stop)) return;
  }
}

}  // namespace larder::internal
