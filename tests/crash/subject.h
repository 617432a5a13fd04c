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
// sweep-early: an unfinished relist is swept. any-cluster: resumes on another cluster.
inline constexpr const char* kMutants[] = {"cursor-first", "index-left",  "queue-apart",
                                           "done-first",   "sweep-early", "any-cluster"};

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
};

// What the process ends with.
inline constexpr int kSettled = 0;
inline constexpr int kRefused = 3;  // the store could not be opened, with an error

int RunSubject(const SubjectOptions& options);

}  // namespace larder::crash
