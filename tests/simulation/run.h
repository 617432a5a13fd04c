// One seed: a controller's whole life on a simulated cluster, with crashes; and the verdict.
//
// Reflector, DeltaFifo, commits, indexes and queue are the real ones, in lock-step with the world,
// on a clock that never waits and a disk that dies, in the middle of a flush or of an opening, too,
// or fails for a moment. What is heard gathers in the DeltaFifo for a random while, so that a
// commit is of several changes, merged per key. Workers fail, postpone and are cut off. The same
// seed gives the same trace: nothing that is told or stored depends on which thread is faster.
//
// What is checked, after every crash and at the end:
//  - a store that says it is complete has the cluster's state at its cursor, nothing older
//  (prefix);
//  - everything that is stored verifies, indexes recomputed (atomic);
//  - every key that ever changed was worked on, or is pending, in its newest stored state
//  (reliable);
//  - work that only the queue knows, retries and delays, is not lost, does not come early and keeps
//  its failures (journal.h);
//  - a durable handler has heard, or will hear, of everything that is stored, in order, from what
//  it knew, and again only of what was not acknowledged (deliveries.h);
//  - a calm world is caught up with (never stale for ever).
#pragma once

#include <cstdint>
#include <string>

namespace larder::simulation {

// A bug to switch on, for showing that the checks can fail.
enum class Mutant {
  kNone,
  kLoseEvent,
  kLoseQueueItem,
  kSkipSweep,
  kEarlyCursor,
  kDropWaiting,
  kLoseRetry,
  kEarlyRetry,
  kLoseRow,
  kTellAgain,
  kIgnoreFailure,
  kOlderAgain,
  kOlderDelete,
  kWrongOld,
  kRowAhead,
};

struct Verdict {
  uint64_t trace = 0;     // hash of all that was said and done
  std::string violation;  // empty: none
};

Verdict Run(uint64_t seed, const std::string& directory, Mutant mutant = Mutant::kNone);

}  // namespace larder::simulation
