#include "tests/crash/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "storage/maintenance.h"
#include "tests/crash/subject.h"

namespace larder::crash {
namespace {

constexpr size_t kMaxViolations = 10;

// The last change at or before `version`; nullptr: none.
template <typename Changes>
auto LastUpTo(const Changes& changes, uint64_t version) {
  const auto behind =
      std::upper_bound(changes.begin(), changes.end(), version,
                       [](uint64_t wanted, const auto& change) { return wanted < change.version; });
  return behind == changes.begin() ? nullptr : &*std::prev(behind);
}

// Is what is stored (nullptr: nothing) a state that the key had after `at`?
template <typename Changes>
bool IsLaterState(const Changes& changes, const ObjectHead* stored, uint64_t at) {
  return std::any_of(changes.begin(), changes.end(), [&](const auto& change) {
    if (change.version <= at) return false;
    if (stored == nullptr) return change.deleted;
    return stored->resource_version == std::to_string(change.version) && stored->uid == change.uid;
  });
}

// The owner's lock goes a moment after its process.
Result<std::unique_ptr<Store>> OpenStore(const std::string& path) {
  for (int attempt = 0;; ++attempt) {
    auto store = Store::Open({.path = path, .memory_limit = size_t{8} << 20});
    if (store || store.error().code != ErrorCode::kLocked || attempt == 500) return store;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

Oracle::Oracle(apiserver::Simulator* simulator, std::string store_path, std::string journal_path)
    : simulator_(simulator),
      store_path_(std::move(store_path)),
      journal_path_(std::move(journal_path)) {}

template <typename... Args>
void Oracle::Violated(int promise, std::string_view format, Args&&... args) {
  if (violations_.size() >= kMaxViolations) return;
  violations_.push_back(
      fmt::format("promise {}: {}", promise, fmt::format(fmt::runtime(format), args...)));
}

std::vector<std::string> Oracle::Check(const Expectations& expected, bool* refused) {
  violations_.clear();
  nothing_lost_ = expected.nothing_lost && !expected.damaged;
  *refused = false;
  journal_ = ReadJournal(journal_path_);
  const auto store = OpenStore(store_path_);
  // Read after the store was written: it knows at least as much.
  ReadHistory();
  const Result<void> checked =
      store ? CheckStore(**store, expected) : tl::unexpected(store.error());
  if (!checked && expected.damaged) {
    *refused = true;
    opened_.reset();
  } else if (!checked) {
    Violated(7, "the store cannot be read: {}", checked.error().ToString());
  }
  return violations_;
}

void Oracle::ReadHistory() {
  history_.clear();
  for (const apiserver::HistoryEntry& entry : simulator_->History()) {
    if (entry.resource != "pods") continue;
    history_[entry.ns + "/" + entry.name].push_back(
        {entry.version, entry.type == apiserver::EventType::kDeleted, entry.uid});
  }
}

Result<void> Oracle::CheckStore(Store& store, const Expectations& expected) {
  if (!expected.damaged) LARDER_RETURN_IF_ERROR(CheckVerified(store));
  CheckBounded();
  CheckOrder(nothing_lost_);
  opened_.reset();

  LARDER_ASSIGN_OR_RETURN(const std::vector<CollectionInfo> collections, store.Collections());
  const auto collection =
      std::find_if(collections.begin(), collections.end(), [&](const CollectionInfo& info) {
        return info.spec.resource.resource == "pods" &&
               info.spec.cluster_uid == simulator_->ClusterUid();
      });
  if (collection == collections.end()) {
    handler_since_ = enqueuer_since_ = journal_.size();
    if (expected.settled) Violated(6, "nothing is stored of this cluster");
    return {};
  }
  LARDER_RETURN_IF_ERROR(CheckPrefix(store, *collection, expected));
  LARDER_ASSIGN_OR_RETURN(Opened now, ReadPending(store, *collection));
  // A name that is not known yet is told everything from the start by the next process.
  if (!now.handler_known) handler_since_ = journal_.size();
  if (!now.enqueuer_known) enqueuer_since_ = journal_.size();
  if (collection->cursor.state == SyncState::kSynced && !expected.damaged) CheckDelivered(now);
  // What a power loss took back was never there: a relist cannot tell that it is gone.
  for (size_t i = 0; !nothing_lost_ && i < journal_.size(); ++i) {
    if (journal_[i].version > now.cursor) forgotten_.insert(i);
  }
  // Not after a relist, whose rows may be ahead of its cursor.
  if (nothing_lost_ && collection->cursor.state == SyncState::kSynced &&
      collection->cursor.epoch <= 1) {
    for (const JournalLine& line : journal_) {
      if (line.kind == 'H' && line.cluster == now.cluster && line.version > now.cursor) {
        Violated(1, "{} was delivered at {}, and the store came back at {}", line.key, line.version,
                 now.cursor);
      }
    }
  }
  opened_ = std::move(now);
  return {};
}

Result<void> Oracle::CheckVerified(Store& store) {
  LARDER_ASSIGN_OR_RETURN(const VerifyReport report, Verify(store));
  for (const Problem& problem : report.problems) {
    Violated(2, "{}: {}: {}", problem.family, problem.key, problem.message);
  }
  return {};
}

Result<void> Oracle::CheckPrefix(Store& store, const CollectionInfo& collection,
                                 const Expectations& expected) {
  const Cursor& cursor = collection.cursor;
  if (expected.settled && cursor.state != SyncState::kSynced) {
    Violated(6, "settled, but the collection is {}", ToString(cursor.state));
  }
  if (!cursor.Complete()) return {};
  std::map<std::string, ObjectHead> rows;
  LARDER_RETURN_IF_ERROR(
      store.ScanHeads(collection.id, {}, [&](const ObjectKey& key, const ObjectHead& head) {
        rows[key.ToString()] = head;
        return true;
      }));
  for (const auto& [key, changes] : history_) {
    const auto row = rows.find(key);
    CheckRow(key, changes, row == rows.end() ? nullptr : &row->second, cursor);
  }
  for (const auto& [key, head] : rows) {
    if (!history_.contains(key)) Violated(1, "{} was never on the server", key);
  }
  // Reads every object in full.
  return store.Scan(collection.id, {}, {}, [](const ObjectPtr&) { return true; });
}

void Oracle::CheckRow(const std::string& key, const Changes& changes, const ObjectHead* stored,
                      const Cursor& cursor) {
  const Version at = std::stoull(cursor.resource_version);
  const Change* expected = LastUpTo(changes, at);
  // A differential relist fetches what differs when it comes to it: until the watch has passed
  // there, a row may be a later state than that of the cursor, or gone if that is later.
  const bool may_be_ahead = cursor.state == SyncState::kRelisting || cursor.epoch > 1;
  if (may_be_ahead && IsLaterState(changes, stored, at)) return;
  const bool there = expected != nullptr && !expected->deleted;
  if (!there && stored != nullptr) {
    Violated(1, "{} is stored at {}, but at {} it was not there ({})", key,
             stored->resource_version, at, ToString(cursor.state));
  } else if (there && stored == nullptr) {
    Violated(1, "{} is missing: at {} its version was {} ({})", key, at, expected->version,
             ToString(cursor.state));
  } else if (there && (stored->resource_version != std::to_string(expected->version) ||
                       stored->uid != expected->uid)) {
    Violated(1, "{} is stored at {}, but at {} its version was {} ({})", key,
             stored->resource_version, at, expected->version, ToString(cursor.state));
  }
}

Result<Oracle::Opened> Oracle::ReadPending(Store& store, const CollectionInfo& collection) {
  Opened now;
  now.cluster = collection.spec.cluster_uid;
  if (collection.cursor.Complete()) now.cursor = std::stoull(collection.cursor.resource_version);
  now.journal_lines = journal_.size();
  LARDER_ASSIGN_OR_RETURN(const auto note,
                          store.GetNote("durable-names/" + std::to_string(collection.id)));
  if (note) {
    const auto names = nlohmann::json::parse(*note);
    now.handler_known = names.contains(kHandlerName);
    now.enqueuer_known = names.contains(std::string("~enqueuer/") + kQueueName);
  }
  for (const std::string name : {kHandlerName, "~enqueuer/work"}) {
    LARDER_RETURN_IF_ERROR(
        store.ScanDeltas(collection.id, name, {}, [&](const ObjectKey& key, std::string_view) {
          (name == kHandlerName ? now.rows : now.items).insert(key.ToString());
          return true;
        }));
  }
  LARDER_RETURN_IF_ERROR(store.ScanQueue(kQueueName, {}, [&](const StoredQueueItem& item) {
    now.items.insert(item.item);
    return true;
  }));
  return now;
}

void Oracle::CheckDelivered(const Opened& now) {
  for (const auto& [key, changes] : history_) {
    const Change* last = LastUpTo(changes, now.cursor);
    if (last == nullptr) continue;
    if (now.handler_known && !now.rows.contains(key)) CheckHandler(key, *last, now);
    if (now.enqueuer_known && !now.items.contains(key)) CheckQueue(key, *last, now);
  }
}

void Oracle::CheckHandler(const std::string& key, const Change& last, const Opened& now) {
  const JournalLine* heard = nullptr;  // the last thing up to the cursor
  Version newest = 0;                  // of all that was heard, for rows that are ahead of it
  for (size_t i = handler_since_; i < journal_.size(); ++i) {
    const JournalLine& line = journal_[i];
    if (line.kind != 'H' || line.key != key || line.cluster != now.cluster) continue;
    if (line.version <= now.cursor && !forgotten_.contains(i)) heard = &line;
    newest = std::max(newest, line.version);
  }
  if (last.deleted) {
    // One that came and went between two looks need not be heard of.
    if (heard != nullptr && heard->type != "delete" && newest <= now.cursor) {
      Violated(3, "the handler was not told that {} is gone since {}", key, last.version);
    }
  } else if (newest < last.version) {
    Violated(3, "the handler was not told of {} at {}; it knows {}", key, last.version, newest);
  }
}

void Oracle::CheckQueue(const std::string& key, const Change& last, const Opened& now) {
  // A worker acts on what it sees: it must have seen what is there.
  bool seen = false;
  bool gone = true;
  for (size_t i = enqueuer_since_; i < journal_.size(); ++i) {
    const JournalLine& line = journal_[i];
    if (line.kind != 'W' || line.key != key || line.cluster != now.cluster) continue;
    seen = seen || line.version >= last.version;
    // After a power loss the journal may know of a later life.
    gone = line.version == 0 || (!nothing_lost_ && (gone || line.version > now.cursor));
  }
  if (last.deleted ? gone : seen) return;
  Violated(3, "no worker looked at {} since {}, and it is not in the queue", key, last.version);
}

void Oracle::CheckBounded() {
  if (!opened_) return;
  for (size_t i = opened_->journal_lines; i < journal_.size(); ++i) {
    const JournalLine& line = journal_[i];
    if (line.cluster != opened_->cluster || line.kind == 'S') continue;
    if (line.kind == 'H') {
      // A delete that is inferred comes with the version that was stored.
      if (opened_->handler_known && line.type != "delete" && line.version <= opened_->cursor &&
          !opened_->rows.contains(line.key)) {
        Violated(4, "the handler was told again of {} at {}, which it had acknowledged", line.key,
                 line.version);
      }
    } else if (opened_->enqueuer_known && !opened_->items.contains(line.key)) {
      const auto changes = history_.find(line.key);
      if (changes != history_.end() && changes->second.back().version <= opened_->cursor) {
        Violated(4, "a worker got {} again, which was done", line.key);
      }
    }
  }
}

void Oracle::CheckOrder(bool across_processes) {
  std::map<std::string, Version> heard;
  std::string cluster;
  for (const JournalLine& line : journal_) {
    if (line.kind == 'S') {
      if (!across_processes || line.cluster != cluster) heard.clear();
      cluster = line.cluster;
    } else if (line.kind == 'H' && line.type != "delete") {
      // A delete shows the last state that was known, and where it could not be acknowledged it is
      // told again together with what came after it.
      Version& last = heard[line.key];
      if (line.version < last) {
        Violated(5, "the handler was told of {} at {} after {}", line.key, line.version, last);
      }
      last = line.version;
    }
  }
}

}  // namespace larder::crash
