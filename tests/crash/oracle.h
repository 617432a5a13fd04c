// Judges a store after a crash: by the simulated server's full history and by the consumer's
// journal.
//
// What it checks, by the numbers of docs/guarantees.md:
//  1. Prefix: a synced collection is what the history says up to the cursor. In and after a relist
//     single rows may be ahead of it, never behind.
//  2. Atomic: the store verifies; indexes recomputed from the objects are those stored.
//  3. Reliable: every change up to the cursor was delivered, or something newer of its key was, or
//     it is pending: for the durable handler, and for the queue.
//  4. At least once, bounded: what was delivered after the last crash was pending then, or happened
//     since.
//  5. Ordered: per key, the states a handler is told never go back; across a kill neither.
//
// Not thread-safe. One oracle goes with one store through all its crashes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apiserver/simulator.h"
#include "storage/store.h"
#include "tests/crash/journal.h"

namespace larder::crash {

struct Expectations {
  // A kill loses nothing that was committed; a power loss may fall back to an older prefix.
  bool nothing_lost = true;
  // The files were damaged: an error is a good answer, and what is pending may be gone.
  bool damaged = false;
  // Nothing more happens and the process has settled: the store is the server's state.
  bool settled = false;
};

class Oracle {
 public:
  Oracle(apiserver::Simulator* simulator, std::string store_path, std::string journal_path);

  // Opens the store as the next process would. Returns what is wrong; empty: nothing. `refused` is
  // set when a damaged store answered with an error.
  std::vector<std::string> Check(const Expectations& expected, bool* refused);

 private:
  using Version = uint64_t;
  struct Change {
    Version version = 0;
    bool deleted = false;
    std::string uid;
  };
  using Changes = std::vector<Change>;  // of one key, in the server's order

  // What was pending when the store was opened last: what may be delivered after it.
  struct Opened {
    std::string cluster;
    Version cursor = 0;
    bool handler_known = false;
    bool enqueuer_known = false;
    std::set<std::string> rows;
    std::set<std::string> items;
    size_t journal_lines = 0;
  };

  void ReadHistory();
  Result<void> CheckStore(Store& store, const Expectations& expected);
  Result<void> CheckVerified(Store& store);
  Result<void> CheckPrefix(Store& store, const CollectionInfo& collection,
                           const Expectations& expected);
  void CheckRow(const std::string& key, const Changes& changes, const ObjectHead* stored,
                const Cursor& cursor);
  Result<Opened> ReadPending(Store& store, const CollectionInfo& collection);
  void CheckDelivered(const Opened& now);
  void CheckHandler(const std::string& key, const Change& last, const Opened& now);
  void CheckQueue(const std::string& key, const Change& last, const Opened& now);
  void CheckBounded();
  void CheckOrder(bool across_processes);
  template <typename... Args>
  void Violated(int promise, std::string_view format, Args&&... args);

  apiserver::Simulator* const simulator_;
  const std::string store_path_;
  const std::string journal_path_;
  std::map<std::string, Changes> history_;
  std::vector<JournalLine> journal_;
  std::optional<Opened> opened_;
  // Journal lines from which on what was heard counts: before, the durable name was not known.
  size_t handler_since_ = 0;
  size_t enqueuer_since_ = 0;
  std::set<size_t> forgotten_;  // lines about what a power loss took back
  bool nothing_lost_ = true;
  std::vector<std::string> violations_;
};

}  // namespace larder::crash
