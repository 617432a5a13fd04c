#include "tests/crash/delivery_judge.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder::crash {

template <typename... Args>
void DeliveryJudge::Violated(int promise, const char* format, const Args&... args) const {
  violations_.Add(promise, fmt::format(fmt::runtime(format), args...));
}

void DeliveryJudge::ReadJournal() {
  const size_t known = journal_.size();
  journal_ = crash::ReadJournal(path_);
  for (size_t i = known; i < journal_.size(); ++i) {
    const JournalLine& line = journal_[i];
    const std::string of = Of(line.cluster, line.key);
    if (line.kind == 'H') handled_[of].push_back(i);
    if (line.kind == 'W') worked_[of].push_back(i);
    if (line.kind == 'F') fetched_[{line.cluster, line.key, line.version}] = line.hash;
  }
}

const JournalLine* DeliveryJudge::Last(const Lines& lines, const std::string& of, size_t since,
                                       size_t end) const {
  const auto found = lines.find(of);
  if (found == lines.end()) return nullptr;
  for (auto it = found->second.rbegin(); it != found->second.rend() && *it >= since; ++it) {
    if (*it < end && !forgotten_.contains(*it)) return &journal_[*it];
  }
  return nullptr;
}

uint64_t DeliveryJudge::SyncedTo(const std::string& cluster) const {
  uint64_t newest = 0;
  for (const JournalLine& line : journal_) {
    if (line.kind == 'Y' && line.cluster == cluster) newest = std::max(newest, line.version);
  }
  return newest;
}

bool DeliveryJudge::WasTold(const std::string& cluster) const {
  return std::any_of(journal_.begin(), journal_.end(), [&](const JournalLine& line) {
    return line.kind == 'H' && line.cluster == cluster;
  });
}

void DeliveryJudge::JudgeLines(const std::optional<Found>& before, const std::string& cluster,
                               const ServerHistory& history, const JournalRules& rules) {
  for (; judged_ < journal_.size(); ++judged_) {
    const JournalLine& line = journal_[judged_];
    if (line.kind == 'S') process_began_ = judged_;
    if (line.cluster == cluster) CheckTrue(line, history);
    if (line.kind == 'H') {
      CheckOrder(judged_, rules);
      CheckOld(judged_);
    }
    if (line.kind == 'L' && rules.resumes) {
      Violated(9, "the pods were listed, which were complete at version {}", before->cursor);
    }
    if (line.kind == 'S' && line.cluster != cluster) {
      Violated(6, "a process took the cluster for {}, which is {}", line.cluster, cluster);
    }
    if (before && before->cluster == cluster && line.cluster == cluster)
      CheckBounded(line, *before, history);
  }
}

// Nobody is shown what the server never had: every version is one of the key's, with the very
// bytes.
void DeliveryJudge::CheckTrue(const JournalLine& line, const ServerHistory& history) const {
  if ((line.kind != 'H' && line.kind != 'W') || line.version == 0) return;
  const auto changes = history.find(line.key);
  const Change* change = changes == history.end() ? nullptr : At(changes->second, line.version);
  const char* who = line.kind == 'H' ? "the handler was told of" : "a worker saw";
  if (change == nullptr || (change->deleted && line.type != "delete")) {
    Violated(7, "{} {} at {}, which the server never had", who, line.key, line.version);
  } else if (!AreBytesOf(*change, line.cluster, line.key, line.hash)) {
    Violated(7, "{} {} at {} with other bytes than the server's", who, line.key, line.version);
  }
}

// The states that a handler is told of never go back, deletes included: a delete shows the version
// that the server gave it, or, where nobody saw it, that of the row. Only one thing comes again
// after something newer: of an object that was made anew, and not acknowledged, a delete that an
// earlier process told already, for the add that follows it.
void DeliveryJudge::CheckOrder(size_t i, const JournalRules& rules) const {
  const JournalLine& line = journal_[i];
  const std::string of = Of(line.cluster, line.key);
  const JournalLine* last = Last(handled_, of, 0, i);
  if (last == nullptr || line.version > last->version) return;
  const bool gone = line.type == "delete";
  const bool same_process = last >= &journal_[process_began_];
  if (line.version == last->version) {
    // Told of an object: told of its end in the same version, or once more by another process.
    // The same version in other bytes is an update: a row that a relist fetched is listed anew.
    const bool again = gone == (last->type == "delete") && line.hash == last->hash;
    if (rules.can_acknowledge && same_process && again && !gone) {
      Violated(4, "the handler was told twice of {} at {} by one process", line.key, line.version);
    }
    if (!gone && last->type == "delete") {
      Violated(5, "the handler was told of {} at {} after its end", line.key, line.version);
    }
    return;
  }
  const std::vector<size_t>& lines = handled_.at(of);
  const bool repeated =
      gone && !same_process && std::any_of(lines.begin(), lines.end(), [&](size_t other) {
        return other < i && journal_[other].type == "delete" &&
               journal_[other].version == line.version;
      });
  if (!repeated) {
    Violated(5, "the handler was told of {} at {} ({}) after {} ({})", line.key, line.version,
             line.type, last->version, last->type);
  }
}

// An update begins with what the handler heard last, and only what it does not know is added. What
// it knows at the start of a process is what it acknowledged last, which is something that it
// heard.
void DeliveryJudge::CheckOld(size_t i) const {
  const JournalLine& line = journal_[i];
  if (line.type == "delete") return;
  const std::string of = Of(line.cluster, line.key);
  const JournalLine* last = Last(handled_, of, process_began_, i);
  if (last != nullptr) {
    const uint64_t known = last->type == "delete" ? 0 : last->version;
    if (line.old != known) {
      Violated(5, "the handler was told of {} from {} to {}, and knew it at {}", line.key, line.old,
               line.version, known);
    }
    return;
  }
  const std::vector<size_t>& lines = handled_.at(of);
  const bool heard = std::any_of(lines.begin(), lines.end(), [&](size_t other) {
    return other < i && journal_[other].type != "delete" && journal_[other].version == line.old;
  });
  if (line.old != 0 && !heard) {
    Violated(5, "the handler was told of {} from {} to {}, and had never heard of it at {}",
             line.key, line.old, line.version, line.old);
  }
}

void DeliveryJudge::CheckBounded(const JournalLine& line, const Found& before,
                                 const ServerHistory& history) const {
  if (line.kind == 'H' && before.handler_known && line.version <= before.cursor &&
      !before.rows.contains(line.key)) {
    // A delete that nobody saw comes with the version of the row that it takes away.
    const Found::Row* row = before.Object(line.key);
    if (line.type == "delete" && row != nullptr && row->version == line.version) return;
    Violated(4, "the handler was told again of {} at {} ({}), which it had acknowledged", line.key,
             line.version, line.type);
  }
  if (line.kind == 'W' && before.enqueuer_known && !before.items.contains(line.key)) {
    const auto changes = history.find(line.key);
    if (changes != history.end() && changes->second.back().version <= before.cursor) {
      Violated(4, "a worker got {} again, which was done", line.key);
    }
  }
}

void DeliveryJudge::JudgePending(const std::optional<Found>& now, const JournalRules& rules) {
  // A name that is not known is told everything from the start by the next process.
  if (!now || !now->handler_known) handler_since_ = journal_.size();
  if (!now || !now->enqueuer_known) enqueuer_since_ = journal_.size();
  if (!now) {
    if (!rules.nothing_lost) ForgetAll();
    return;
  }
  if (!rules.nothing_lost) ForgetAhead(*now);
  if (rules.nothing_lost && now->state == SyncState::kSynced) CheckCommitted(*now);
  std::set<std::string> keys;
  for (const auto& [key, row] : now->objects) keys.insert(key);
  for (const JournalLine& line : journal_) {
    if (line.cluster == now->cluster && !line.key.empty()) keys.insert(line.key);
  }
  for (const std::string& key : keys) {
    if (now->handler_known && !now->rows.contains(key)) CheckHandler(key, *now);
    if (now->enqueuer_known && !now->items.contains(key)) {
      CheckQueue(key, *now, rules.nothing_lost);
    }
  }
}

void DeliveryJudge::ForgetAll() {
  for (size_t i = 0; i < journal_.size(); ++i) forgotten_.insert(i);
  handler_since_ = enqueuer_since_ = journal_.size();
}

// Told, but behind the prefix that is left. A delete that nobody saw has the version of its row. If
// that is still there, the delete is behind the prefix. If it is gone, the version may be ahead of
// the cursor all the same (a relist's single fetch): then the delete is in the prefix if what was
// told before it is, since only a delete takes away a row.
void DeliveryJudge::ForgetAhead(const Found& now) {
  std::set<std::string> known;  // keys that the handler believes to be there
  for (size_t i = 0; i < journal_.size(); ++i) {
    const JournalLine& line = journal_[i];
    if (line.cluster != now.cluster || forgotten_.contains(i)) continue;
    const Found::Row* row = now.Object(line.key);
    const bool gone = line.type == "delete";
    const bool ahead =
        line.version > now.cursor &&
        (row == nullptr ? !gone || !known.contains(line.key) : row->version < line.version);
    const bool undone = gone && row != nullptr && row->version == line.version;
    // That the row was handed out is behind the prefix: a delete takes it away unheard.
    const bool unheard = line.kind == 'H' && now.unheard.contains(line.key);
    if (ahead || undone || unheard) {
      forgotten_.insert(i);
    } else if (gone) {
      known.erase(line.key);
    } else if (line.kind == 'H') {
      known.insert(line.key);
    }
  }
}

// Nobody is told of what is not committed: it is up to the cursor, or a relist's single fetch.
void DeliveryJudge::CheckCommitted(const Found& now) const {
  for (const JournalLine& line : journal_) {
    if (line.kind != 'H' || line.cluster != now.cluster || line.version <= now.cursor ||
        WasFetched(line.cluster, line.key, line.version)) {
      continue;
    }
    Violated(1, "{} was delivered at {}, and the store came back at {}", line.key, line.version,
             now.cursor);
  }
}

void DeliveryJudge::CheckHandler(const std::string& key, const Found& now) const {
  const JournalLine* told = Last(handled_, Of(now.cluster, key), handler_since_, journal_.size());
  const bool knows = told != nullptr && told->type != "delete";
  const Found::Row* row = now.Object(key);
  if (row == nullptr && knows) {
    Violated(3, "the handler was told of {} at {}, not that it is gone, and nothing is pending",
             key, told->version);
  } else if (row != nullptr && !knows) {
    Violated(3, "the handler was not told of {} at {}, and nothing is pending", key, row->version);
  } else if (row != nullptr && told->version != row->version) {
    Violated(3, "the handler knows {} at {}, stored is {}, and nothing is pending", key,
             told->version, row->version);
  }
}

void DeliveryJudge::CheckQueue(const std::string& key, const Found& now, bool nothing_lost) const {
  if (WorkersSaw(key, now, nothing_lost)) return;
  const Found::Row* row = now.Object(key);
  Violated(3, "no worker saw {} as it is stored ({}), and it is not in the queue", key,
           row == nullptr ? "gone" : std::to_string(row->version));
}

// A worker acts on what it sees. What one saw last must be what is stored.
bool DeliveryJudge::WorkersSaw(const std::string& key, const Found& now, bool nothing_lost) const {
  const Found::Row* row = now.Object(key);
  const uint64_t stored = row == nullptr ? 0 : row->version;
  const std::string of = Of(now.cluster, key);
  const auto lines = worked_.find(of);
  if (lines == worked_.end()) return row == nullptr;
  if (nothing_lost) {
    const JournalLine* last = Last(worked_, of, enqueuer_since_, journal_.size());
    return last == nullptr ? row == nullptr : last->version == stored;
  }
  // "Gone" has no version, so nobody knows whether a power loss took it back: what counts is that
  // it was seen as stored, after the last thing that still counts.
  bool seen = row == nullptr;
  for (const size_t i : lines->second) {
    if (i < enqueuer_since_ || forgotten_.contains(i)) continue;
    const uint64_t version = journal_[i].version;
    if (version == stored) seen = true;
    if (version != stored && version != 0) seen = false;
  }
  return seen;
}

}  // namespace larder::crash
