// RocksDB's background work, when it is told to: flushes and compactions wait in a list until
// somebody runs them, on his own thread. So what a database has done by when is no matter of
// timing, and the same calls leave the same files.
//
// REQUIRES: nobody waits for background work while it is held: no Flush that waits, no stalled
// write.
#pragma once

#include <rocksdb/env.h>

#include <deque>
#include <memory>
#include <mutex>

namespace larder::simulation {

class LockstepEnv final : public rocksdb::EnvWrapper {
 public:
  explicit LockstepEnv(std::shared_ptr<rocksdb::Env> target);
  static const char* kClassName() { return "LockstepEnv"; }
  const char* Name() const override { return kClassName(); }

  // From here on work waits.
  void Hold();
  // Runs what waits, and what comes of it, on this thread. False: there was nothing.
  bool RunOne();
  // Does no work wait?
  bool IsIdle() const;
  // From here on work runs by itself on other threads, also what waited: closing a database waits
  // for it. A failed one is not waited for before it is tried again.
  void LetGo();

  void Schedule(void (*function)(void*), void* argument, Priority priority, void* tag,
                void (*unschedule)(void*)) override;
  // A database that is being closed takes its work back, and waits for what has no name to be taken
  // back by: the removal of files. That runs by itself from here on.
  int UnSchedule(void* tag, Priority priority) override;

 private:
  struct Job {
    void (*function)(void*);
    void* argument;
    Priority priority;
    void* tag;
    void (*unschedule)(void*);
  };

  void HandOver(const Job& job);

  mutable std::mutex mutex_;
  bool held_ = false;  // guarded by mutex_, like the next
  std::deque<Job> jobs_;
};

}  // namespace larder::simulation
