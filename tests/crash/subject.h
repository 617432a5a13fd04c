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

struct Mutant {
  const char* name;
  const char* mode;      // in which it shows
  const char* promises;  // which must be called broken, as a regular expression
};
inline constexpr Mutant kMutants[] = {
    // The cursor is committed before its objects: these are missing, or the next process finds that
    // its newest change is not the server's, and lists.
    {"cursor-first", "kill", "1|9"},
    // An object is committed before its cursor.
    {"row-ahead", "kill", "1"},
    // An unfinished relist is swept.
    {"sweep-early", "kill", "3|4"},
    // The crash takes the store away.
    {"empty-store", "kill", "1"},
    // The disk says that it synced a log, and did not: commits are missing, work of theirs is, or
    // tables know more than the log.
    {"no-sync", "power", "1|3|7"},
    // The same of what an earlier process has left.
    {"no-inherited-sync", "power", "1|3|7"},
    // An index key stays behind.
    {"index-left", "kill", "2"},
    // A queue item is added outside the commit: it is lost, or comes again.
    {"queue-apart", "kill", "3|4"},
    // Done before the work.
    {"done-first", "kill", "3"},
    // Who was told everything is forgotten.
    {"forget-name", "kill", "4"},
    // The handler hears once more of an older state, and of an older end.
    {"older-again", "kill", "5"},
    {"older-delete", "kill", "5"},
    // It hears of an update from the very state that it is to.
    {"wrong-old", "kill", "5"},
    // Resumes on another cluster.
    {"any-cluster", "kill", "6"},
    // A worker sees an object that is not quite the server's.
    {"other-bytes", "kill", "7"},
    // The dictionary that rows are made with is gone.
    {"dictionary-gone", "kill", "7"},
    // What is to be encrypted is written in the clear.
    {"in-the-clear", "kill", "10"},
    // A commit that fails ends the process.
    {"abort-when-full", "full", "7"},
    // A complete collection is listed at each start.
    {"always-lists", "kill", "9"},
};

struct SubjectOptions {
  std::string url{};
  std::string store{};
  std::string journal{};
  std::string disk_plan{};
  uint64_t seed = 1;
  std::string key_file{};  // with which the pods are encrypted; empty: they are in the clear
  std::string mutant{};    // empty: the real thing
  bool sync = false;       // the informer's commits are on the disk before anybody hears of them
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

// What of the store is not synced (faulty_disk.h).
inline std::string UnsyncedFile(const std::string& journal) { return journal + ".unsynced"; }
// Has a line when the disk failed under the process, or had no room.
inline std::string MetFile(const std::string& journal) { return journal + ".met"; }

int RunSubject(const SubjectOptions& options);

}  // namespace larder::crash
