// What the worker remembers, on another disk than the store's: it survives everything, and judges
// what the queue makes of work that only the queue knows.
//
// A retry or a delay that the worker asked for is expected to stand until it is handed out or an
// event makes its key due at once. It must not come early, and not with another count of failures.
// A crash may take it away only where it was not written yet, a power loss where it was not synced.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "queue/work_queue.h"

namespace larder::simulation {

class Journal {
 public:
  // What the worker has seen of each key.
  struct Seen {
    std::string uid;               // the last one that was there
    std::set<std::string> states;  // every uid and version
    std::set<std::string> gone;    // the uids whose end was noticed
  };
  std::map<std::string, Seen> keys;
  // The store has just lost its newest commits: the worker may know of objects that it never had.
  bool power_lost = false;
  // The calendar, over all lives.
  Clock::Wall now{std::chrono::seconds(1'700'000'000)};

  // The worker asked for a later run.
  struct Later {
    int64_t not_before_ms = 0;
    uint32_t failures = 0;  // of a retry
    int32_t priority = 0;
    bool dead = false;  // its retries are used up
    bool written = false;
    bool synced = false;
  };
  void Ask(const std::string& item, const Later& later) { later_[item] = later; }
  // An event asks for a run at once.
  void Overtake(const std::string& item) { later_.erase(item); }
  void Written();
  void Synced();
  // The process is gone, and with the power what it had not synced.
  void Crash(bool power);

  // What is wrong with handing out this item now; empty: nothing. `queued`: all that was in the
  // queue just before.
  std::string HandedOut(const WorkItem& item, const std::vector<QueueItemInfo>& queued,
                        int64_t now_ms);
  // The same of what is in the queue.
  std::string Check(const std::vector<QueueItemInfo>& queued) const;

 private:
  std::map<std::string, Later> later_;
};

}  // namespace larder::simulation
