// Judges a store after a crash: by the simulated server's full history and by the consumer's
// journal.
//
// What it checks, by the numbers of docs/guarantees.md:
//  1. Prefix: what is stored is what the history says up to the cursor. Two exceptions: a row that
//  a
//     relist fetched by itself may be newer (fetch_witness.h), and while a list is under way rows
//     may be any later state. It is never an older prefix than the one that was found before, than
//     what was synced, or, where only the process died, than what anybody was told.
//  2. Atomic: the store verifies; indexes recomputed from the objects are those stored.
//  3. Reliable: of every key the last thing told is what is stored, or it is pending: for the
//     durable handler, and for the queue.
//  4. At least once, bounded: what was delivered after the last crash was pending then, or happened
//     since; who was told what is not forgotten.
//  5. Ordered: per key, what a handler is told never goes back; across a kill neither.
//  9. Resumes: what was complete is not listed, where the server still has its version.
//
// Not thread-safe. One oracle goes with one store through all its crashes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/crash/delivery_judge.h"
#include "tests/crash/evidence.h"

namespace larder::crash {

struct Expectations {
  // A kill loses nothing that was committed; a power loss may fall back to an older prefix.
  bool nothing_lost = true;
  // What was found before was on the disk by then.
  bool nothing_undone = true;
  // The disk failed while the process ran: what it delivered it could not always acknowledge.
  bool disk_failed = false;
  // The files were damaged: an error is a good answer.
  bool damaged = false;
  // Nothing more happens and the process has settled: the store is the server's state.
  bool settled = false;
  // The server has the changes since this version.
  uint64_t expired_at = 0;
};

class Oracle {
 public:
  // `key_file`: of what is encrypted; empty: nothing is.
  Oracle(apiserver::Simulator* simulator, std::string store_path, std::string journal_path,
         std::string key_file = {});

  // Opens the store as the next process would. Returns what is wrong; empty: nothing. `refused` is
  // set when a damaged store answered with an error.
  std::vector<std::string> Check(const Expectations& expected, bool* refused) {
    return CheckAt(store_path_, expected, refused);
  }
  // The same with a copy of it.
  std::vector<std::string> CheckAt(const std::string& path, const Expectations& expected,
                                   bool* refused);
  // When the store was opened last; nullopt: not known, or nothing was stored.
  const std::optional<Found>& LastFound() const { return before_; }

 private:
  Result<void> CheckStore(Store& store, const Expectations& expected);
  Result<void> CheckVerified(Store& store, const Expectations& expected);
  void CheckKept(const std::optional<Found>& found, const Expectations& expected);
  void CheckPrefix(const Found& found);
  void CheckRow(const std::string& key, const Changes& changes, const Found& found);
  bool MayBeAhead(const std::string& key, const Changes& changes, const Found& found) const;

  apiserver::Simulator* const simulator_;
  const std::string store_path_;
  const std::string key_file_;
  Violations violations_;
  DeliveryJudge deliveries_;
  ServerHistory history_;
  std::optional<Found> before_;  // what LastFound() says
};

}  // namespace larder::crash
