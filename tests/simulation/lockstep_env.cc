#include "tests/simulation/lockstep_env.h"

#include <rocksdb/system_clock.h>

#include <utility>
#include <vector>

namespace larder::simulation {
namespace {

// RocksDB sleeps for a second when background work has failed: on a disk that is dead, every time.
class SleeplessClock final : public rocksdb::SystemClockWrapper {
 public:
  using SystemClockWrapper::SystemClockWrapper;
  const char* Name() const override { return "SleeplessClock"; }
  void SleepForMicroseconds(int) override {}
};

}  // namespace

LockstepEnv::LockstepEnv(std::shared_ptr<rocksdb::Env> target) : EnvWrapper(std::move(target)) {
  system_clock_ = std::make_shared<SleeplessClock>(rocksdb::SystemClock::Default());
}

void LockstepEnv::Hold() {
  std::lock_guard lock(mutex_);
  held_ = true;
}

bool LockstepEnv::RunOne() {
  Job job;
  {
    std::lock_guard lock(mutex_);
    if (jobs_.empty()) return false;
    job = jobs_.front();
    jobs_.pop_front();
  }
  job.function(job.argument);
  return true;
}

bool LockstepEnv::IsIdle() const {
  std::lock_guard lock(mutex_);
  return jobs_.empty();
}

void LockstepEnv::LetGo() {
  std::deque<Job> jobs;
  {
    std::lock_guard lock(mutex_);
    held_ = false;
    jobs = std::exchange(jobs_, {});
  }
  for (const Job& job : jobs) HandOver(job);
}

void LockstepEnv::HandOver(const Job& job) {
  EnvWrapper::Schedule(job.function, job.argument, job.priority, job.tag, job.unschedule);
}

void LockstepEnv::Schedule(void (*function)(void*), void* argument, Priority priority, void* tag,
                           void (*unschedule)(void*)) {
  {
    std::lock_guard lock(mutex_);
    if (held_) {
      jobs_.push_back({function, argument, priority, tag, unschedule});
      return;
    }
  }
  EnvWrapper::Schedule(function, argument, priority, tag, unschedule);
}

int LockstepEnv::UnSchedule(void* tag, Priority priority) {
  std::deque<Job> kept;
  std::vector<Job> removed, nameless;
  {
    std::lock_guard lock(mutex_);
    for (const Job& job : jobs_) {
      if (job.tag == tag && job.priority == priority) {
        removed.push_back(job);
      } else if (job.tag == nullptr) {
        nameless.push_back(job);
      } else {
        kept.push_back(job);
      }
    }
    jobs_ = std::move(kept);
  }
  for (const Job& job : removed) {
    if (job.unschedule != nullptr) job.unschedule(job.argument);
  }
  for (const Job& job : nameless) HandOver(job);
  return static_cast<int>(removed.size()) + EnvWrapper::UnSchedule(tag, priority);
}

}  // namespace larder::simulation
