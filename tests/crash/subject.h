// The process that is broken: an informer on a store, a durable handler, an enqueuer and workers,
// all writing to the journal what they see before they acknowledge it.
//
// A mutant has one known bug, so that the oracle can be seen to find it. The bugs are made here,
// around the library, not in it.
#pragma once

#include <cstdint>
#include <string>

namespace larder::crash {

inline constexpr const char* kHandlerName = "audit";
inline constexpr const char* kQueueName = "work";
inline constexpr const char* kIndexName = "node";

// cursor-first: the cursor is committed before its objects. index-left: an index key stays behind.
// queue-apart: a queue item is added outside the commit. done-first: Done before the work.
// sweep-early: an unfinished relist is swept. any-cluster: resumes on another cluster. other-bytes:
// a worker sees an object that is not quite the server's. forget-name: who was told everything is
// forgotten. empty-store: the crash takes the store away. no-sync: the disk says that it synced,
// and did not. abort-when-full: a commit that fails ends the process.
struct Mutant {
  const char* name;
  const char* mode;       // in which it shows
  const char* caught_by;  // what the judge must say, among other things
};
inline constexpr Mutant kMutants[] = {
    {"cursor-first", "kill", "promise 1:"},    {"index-left", "kill", "promise 2:"},
    {"queue-apart", "kill", "promise 3:"},     {"done-first", "kill", "promise 3:"},
    {"sweep-early", "kill", "promise 1:"},     {"any-cluster", "kill", "promise 7:"},
    {"other-bytes", "kill", "promise 7:"},     {"forget-name", "kill", "promise 4:"},
    {"empty-store", "kill", "promise 1:"},     {"no-sync", "power", "promise 1:"},
    {"abort-when-full", "full", "promise 7:"},
};

struct SubjectOptions {
  std::string url{};
  std::string store{};
  std::string journal{};
  std::string disk_plan{};
  uint64_t seed = 1;
  std::string mutant{};  // empty: the real thing
  bool sync = false;     // the informer's commits are on the disk before anybody hears of them
  // Ends well once it has seen the version that this file says, when there is one, and has nothing
  // left to do.
  std::string settle_file{};
  std::string log{};  // where its log goes; empty: nowhere
  // Goes through the scenario of a sweep (sweep.h) instead, step by step.
  bool scenario = false;
};

// What the process ends with.
inline constexpr int kSettled = 0;
inline constexpr int kRefused = 3;   // the store could not be opened, with an error
inline constexpr int kDamaged = 4;   // the store's Health() told of damage; it was stopped in order
inline constexpr int kUnharmed = 5;  // settled, and what was planned for the disk did not happen
inline constexpr int kGaveUp = 6;    // the disk broke for good; it was stopped in order

// The scenario's step `step` may go on once this file says to which version, and has come to rest
// when the other one is there.
inline std::string StepFile(const std::string& settle_file, int step) {
  return settle_file + "." + std::to_string(step);
}
inline std::string StepDoneFile(const std::string& settle_file, int step) {
  return StepFile(settle_file, step) + ".done";
}
inline constexpr int kScenarioSteps = 3;

// Has a line when the disk failed under the process, or had no room.
inline std::string MetFile(const std::string& journal) { return journal + ".met"; }

int RunSubject(const SubjectOptions& options);

}  // namespace larder::crash
