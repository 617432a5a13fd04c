#include "tests/crash/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/maintenance.h"
#include "tests/crash/open_store.h"

namespace larder::crash {
Oracle::Oracle(apiserver::Simulator* simulator, std::string store_path, std::string journal_path,
               std::string key_file)
    : simulator_(simulator),
      store_path_(std::move(store_path)),
      key_file_(std::move(key_file)),
      deliveries_(std::move(journal_path), &violations_) {}

std::vector<std::string> Oracle::CheckAt(const std::string& path, const Expectations& expected,
                                         bool* refused) {
  *refused = false;
  deliveries_.ReadJournal();
  const auto store = OpenWhenFree(StoreAt(path, key_file_));
  // Read after the store was written: it knows at least as much.
  history_ = ReadHistory(*simulator_);
  const Result<void> checked =
      store ? CheckStore(**store, expected) : tl::unexpected(store.error());
  if (!checked && expected.damaged) {
    *refused = true;
    before_.reset();
  } else if (!checked) {
    violations_.Add(7, "the store cannot be read: " + checked.error().ToString());
  }
  return violations_.Take();
}

Result<void> Oracle::CheckStore(Store& store, const Expectations& expected) {
  // Who came to rest is held to what it shows, whatever damage it has not come across.
  const Result<void> verified = CheckVerified(store, expected);
  if (!expected.settled) LARDER_RETURN_IF_ERROR(verified);
  LARDER_ASSIGN_OR_RETURN(std::optional<Found> found, ReadFound(store, simulator_->ClusterUid()));
  const std::string cluster = simulator_->ClusterUid();
  const bool resumes = !expected.damaged && before_ && before_->cluster == cluster &&
                       before_->state == SyncState::kSynced &&
                       before_->cursor >= expected.expired_at;
  const JournalRules rules{expected.nothing_lost, !expected.disk_failed, resumes};
  deliveries_.JudgeLines(before_, cluster, history_, rules);
  if (found) CheckPrefix(*found);
  deliveries_.JudgePending(found, rules);
  if (!expected.damaged) CheckKept(found, expected);
  if (expected.settled && (!found || found->state != SyncState::kSynced)) {
    violations_.Add(6, fmt::format("settled, but the collection is {}",
                                   found ? ToString(found->state) : "not there"));
  }
  if (expected.settled && found && found->rows.size() + found->items.size() != 0) {
    violations_.Add(
        6, fmt::format("settled, but {} changes and {} items wait: {}", found->rows.size(),
                       found->items.size(),
                       found->rows.empty() ? *found->items.begin() : *found->rows.begin()));
  }
  before_ = std::move(found);
  return verified;
}

// Damage that is found is an error, as good as one at opening.
Result<void> Oracle::CheckVerified(Store& store, const Expectations& expected) {
  LARDER_ASSIGN_OR_RETURN(const VerifyReport report, Verify(store));
  for (const Problem& problem : report.problems) {
    const std::string text =
        fmt::format("{}: {}: {}", problem.family, problem.key, problem.message);
    if (expected.damaged) return MakeError(ErrorCode::kCorruption, "{}", text);
    violations_.Add(2, text);
  }
  return {};
}

void Oracle::CheckKept(const std::optional<Found>& found, const Expectations& expected) {
  const std::string cluster = simulator_->ClusterUid();
  const uint64_t cursor = found ? found->cursor : 0;
  if (const uint64_t synced = deliveries_.SyncedTo(cluster); cursor < synced) {
    violations_.Add(1, fmt::format("synced at {}, the store came back at {}", synced, cursor));
  }
  if (expected.nothing_lost && !found && deliveries_.WasTold(cluster)) {
    violations_.Add(1, "the handler was told of a cluster of which nothing is stored");
  }
  if (!expected.nothing_undone || !before_ || before_->cluster != cluster) return;
  if (!found) {
    violations_.Add(1, "nothing of what was stored is left");
    return;
  }
  if (cursor < before_->cursor) {
    violations_.Add(1, fmt::format("the cursor was at {}, and is at {}", before_->cursor, cursor));
  }
  if (before_->handler_known && !found->handler_known) {
    violations_.Add(4, "the handler's name is forgotten: it will be told everything again");
  }
  if (before_->enqueuer_known && !found->enqueuer_known) {
    violations_.Add(4, "the enqueuer's name is forgotten: it will add everything again");
  }
}

void Oracle::CheckPrefix(const Found& found) {
  for (const auto& [key, changes] : history_) CheckRow(key, changes, found);
  for (const auto& [key, row] : found.objects) {
    if (!history_.contains(key)) violations_.Add(1, key + " was never on the server");
  }
}

// Is the row (or that there is none) a state that the key had after the cursor, and one that may be
// stored?
bool Oracle::MayBeAhead(const std::string& key, const Changes& changes, const Found& found) const {
  const Found::Row* row = found.Object(key);
  const bool was_later = std::any_of(changes.begin(), changes.end(), [&](const Change& change) {
    if (change.version <= found.cursor) return false;
    if (row == nullptr) return change.deleted;
    return !change.deleted && change.version == row->version && change.uid == row->uid;
  });
  if (!was_later) return false;
  return found.state != SyncState::kSynced ||
         deliveries_.WasFetched(found.cluster, key, row == nullptr ? 0 : row->version);
}

void Oracle::CheckRow(const std::string& key, const Changes& changes, const Found& found) {
  const Change* then = LastUpTo(changes, found.cursor);
  const Found::Row* row = found.Object(key);
  const bool was_there = then != nullptr && !then->deleted;
  if (!was_there && row == nullptr) return;
  if (row != nullptr) {
    const Change* change = At(changes, row->version);
    if (change != nullptr && !deliveries_.AreBytesOf(*change, found.cluster, key, row->hash)) {
      violations_.Add(7, fmt::format("{} is stored at {} with other bytes than the server's", key,
                                     row->version));
    }
  }
  if (was_there && row != nullptr && row->version == then->version && row->uid == then->uid) return;
  if (MayBeAhead(key, changes, found)) return;
  violations_.Add(
      1, fmt::format("{} is stored at {}, but at the cursor {} it was {} ({})", key,
                     row == nullptr ? "nothing" : std::to_string(row->version), found.cursor,
                     was_there ? "at " + std::to_string(then->version) : "not there",
                     ToString(found.state)));
}

}  // namespace larder::crash
