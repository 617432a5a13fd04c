// Judges what a consumer was told and what it asked for: promises 3, 4, 5, 7 and 9, by its journal.
//
// A commit brings an object, its row for the handler and its item for the queue together, and both
// go with their acknowledgement, which comes after the journal's line. So of a key that is not
// pending, the last line is exactly what is stored. That holds in every state of the collection.
//
// A power loss takes commits back whose lines are in the journal already: such lines are forgotten,
// as if they had not been written, because the store never had what they tell of.
//
// Not thread-safe. Goes with one store through all its crashes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/crash/evidence.h"
#include "tests/crash/journal.h"

namespace larder::crash {

struct JournalRules {
  // Nothing that was committed is lost. False: after a power loss, or damage.
  bool nothing_lost = true;
  // The disk did not fail while the process ran, so its acknowledgements were written.
  bool can_acknowledge = true;
  // The process had all it needs to go on without a list.
  bool resumes = false;
};

class DeliveryJudge {
 public:
  DeliveryJudge(std::string journal_path, Violations* violations)
      : path_(std::move(journal_path)), violations_(*violations) {}

  // Reads what was written since. Before anything else.
  void ReadJournal();
  // Did a relist fetch this version (0: "not there") of the key by itself?
  bool WasFetched(const std::string& cluster, const std::string& key, uint64_t version) const {
    return fetched_.contains({cluster, key, version});
  }

  // The newest version that the store was synced at; 0: none.
  uint64_t SyncedTo(const std::string& cluster) const;
  // Was the handler told of anything in this cluster?
  bool WasTold(const std::string& cluster) const;

  // Are these the object's bytes in that version, as a watch or a list tells them, or as the relist
  // fetched it? A single object is written a little differently.
  bool AreBytesOf(const Change& change, const std::string& cluster, const std::string& key,
                  uint64_t hash) const {
    const auto fetched = fetched_.find({cluster, key, change.version});
    return hash == change.hash || (fetched != fetched_.end() && hash == fetched->second);
  }

  // What was told since `before`, which is what was stored when the process began that told it.
  // `history` is of `cluster`.
  void JudgeLines(const std::optional<Found>& before, const std::string& cluster,
                  const ServerHistory& history, const JournalRules& rules);
  // All that was told ever, by what is stored now; nullopt: nothing.
  void JudgePending(const std::optional<Found>& now, const JournalRules& rules);
  // The store was lost altogether: nothing that was told counts.
  void ForgetAll();

 private:
  using Lines = std::map<std::string, std::vector<size_t>>;  // by "cluster key", in order

  static std::string Of(const std::string& cluster, const std::string& key) {
    return cluster + " " + key;
  }
  // The last line about the key before line `end` that counts; nullptr: none.
  const JournalLine* Last(const Lines& lines, const std::string& of, size_t since,
                          size_t end) const;
  void CheckTrue(const JournalLine& line, const ServerHistory& history) const;
  void CheckOrder(size_t i, const JournalRules& rules) const;
  void CheckOld(size_t i) const;
  void CheckBounded(const JournalLine& line, const Found& before,
                    const ServerHistory& history) const;
  void ForgetAhead(const Found& now);
  void CheckCommitted(const Found& now) const;
  void CheckHandler(const std::string& key, const Found& now) const;
  void CheckQueue(const std::string& key, const Found& now, bool nothing_lost) const;
  bool WorkersSaw(const std::string& key, const Found& now, bool nothing_lost) const;
  template <typename... Args>
  void Violated(int promise, const char* format, const Args&... args) const;

  const std::string path_;
  Violations& violations_;
  std::vector<JournalLine> journal_;
  size_t judged_ = 0;         // lines that JudgeLines has seen
  size_t process_began_ = 0;  // the line at which the last process did
  Lines handled_, worked_;
  std::map<std::tuple<std::string, std::string, uint64_t>, uint64_t> fetched_;  // and its hash
  std::set<size_t> forgotten_;
  // Lines from which on what was told counts: before, the durable name was not known.
  size_t handler_since_ = 0;
  size_t enqueuer_since_ = 0;
};

}  // namespace larder::crash
