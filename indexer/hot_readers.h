// Who reads the hot tier without its locks, and since when: so that what is taken out meanwhile is
// freed after them.
//
//   uint64_t reader = readers.Begin();
//   ...                                   // look-ups without a lock
//   readers.End(reader);
//
// Whoever takes something out of sight asks for the moment (Now) afterwards. Zero: nobody reads,
// free it. Otherwise it is to be kept until that moment IsOver: all who read then have ended, and
// who began later began without it.
//
// Thread-safe. One lock for all: it is taken twice for a reader and once for what goes, and not for
// a look-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.h"

namespace larder {

class HotReaders {
 public:
  uint64_t Begin() {
    MutexLock lock(mutex_);
    open_.push_back(++last_);
    return last_;
  }

  void End(uint64_t reader) {
    MutexLock lock(mutex_);
    std::erase(open_, reader);
  }

  uint64_t Now() const {
    MutexLock lock(mutex_);
    return open_.empty() ? 0 : last_;
  }

  bool IsOver(uint64_t moment) const {
    MutexLock lock(mutex_);
    return open_.empty() || open_.front() > moment;
  }

  size_t size() const {
    MutexLock lock(mutex_);
    return open_.size();
  }

 private:
  mutable Mutex mutex_;
  uint64_t last_ LARDER_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> open_ LARDER_GUARDED_BY(mutex_);  // in the order of their beginning
};

}  // namespace larder
