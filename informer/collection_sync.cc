#include "informer/collection_sync.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/process.h"
#include "base/thread_name.h"
#include "base/wall_time.h"
#include "storage/maintenance.h"
#include "storage/notes.h"

namespace larder {
namespace {

// Objects that a list did not name.
constexpr size_t kSweptAtOnce = 4096;

DeltaType ToDelta(EventType type) {
  switch (type) {
    case EventType::kAdded:
      return DeltaType::kAdded;
    case EventType::kModified:
      return DeltaType::kUpdated;
    case EventType::kDeleted:
      return DeltaType::kDeleted;
  }
  return DeltaType::kUpdated;
}

// Makes this change the witness if it is newer.
void Raise(std::optional<Witness>& witness, const ObjectKey& key, std::string_view version,
           bool deleted) {
  if (witness && CompareResourceVersions(version, witness->resource_version).value_or(-1) < 0) {
    return;
  }
  witness = {key, std::string(version), deleted};
}

// Counts what a change does to the collection's size. Unsigned arithmetic
// wraps, and the sum is right.
void CountSize(const Indexer::Change& change, const ObjectPtr& now, CollectionSyncStats& done) {
  if (change.outcome == Indexer::Outcome::kUnchanged) return;
  if (change.old) {
    --done.objects;
    done.bytes -= change.old->json().size();
  }
  if (change.outcome != Indexer::Outcome::kDeleted) {
    ++done.objects;
    done.bytes += now->json().size();
  }
}

}  // namespace

CollectionSync::CollectionSync(Indexer* indexer, ChangeSink* sink, CollectionSyncOptions options)
    : indexer_(indexer),
      sink_(sink),
      options_(std::move(options)),
      fifo_({.max_items = options_.max_batch_objects,
             .max_bytes = options_.max_batch_bytes,
             .clock = options_.clock}),
      stored_(indexer),
      cursor_(indexer->collection().cursor) {
  if (!options_.own_thread) return;
  committer_ = std::jthread([this](const std::stop_token& stop) { CommitLoop(stop); });
}

CollectionSync::~CollectionSync() { Stop(); }

void CollectionSync::Stop() {
  stop_.request_stop();
  {
    MutexLock lock(mutex_);
    changed_.notify_all();
  }
  fifo_.Close();
  if (committer_.joinable()) committer_.join();
}

Result<void> CollectionSync::LoadSize() {
  const CollectionId collection = indexer_->collection().id;
  LARDER_ASSIGN_OR_RETURN(const auto note, indexer_->store()->GetNote(SizeNote(collection)));
  CollectionSyncStats counted;
  if (note) {
    std::istringstream text(*note);
    text >> counted.objects >> counted.bytes;
    if (!text) return MakeError(ErrorCode::kCorruption, "the size note \"{}\" is damaged", *note);
  } else {
    LARDER_RETURN_IF_ERROR(indexer_->ForEach({}, [&](const ObjectPtr& object) {
      ++counted.objects;
      counted.bytes += object->json().size();
      return true;
    }));
  }
  MutexLock lock(mutex_);
  stats_.objects = counted.objects;
  stats_.bytes = counted.bytes;
  return {};
}

Cursor CollectionSync::cursor() const {
  MutexLock lock(mutex_);
  return cursor_;
}

CollectionSyncStats CollectionSync::Stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

Result<void> CollectionSync::Failure() const {
  MutexLock lock(mutex_);
  if (stats_.error) return tl::unexpected(*stats_.error);
  return {};
}

Result<void> CollectionSync::WaitUntil(std::string_view resource_version, Clock::Steady deadline,
                                       const std::stop_token& stop) const {
  MutexLock lock(mutex_);
  for (;;) {
    const auto order = CompareResourceVersions(cursor_.resource_version, resource_version);
    if (cursor_.state == SyncState::kSynced && order && *order >= 0) return {};
    if (options_.clock->Now() >= deadline) {
      return MakeError(ErrorCode::kTimeout, "{} is at version {}, not yet at {}",
                       indexer_->collection().spec.ToString(), cursor_.resource_version,
                       resource_version);
    }
    if (stop_.stop_requested() || !options_.clock->WaitUntil(mutex_, changed_, deadline, stop)) {
      return MakeError(ErrorCode::kCancelled, "stopped while waiting for version {}",
                       resource_version);
    }
  }
}

Result<void> CollectionSync::Flush() {
  CommitWaiting();
  LARDER_RETURN_IF_ERROR(fifo_.WaitUntilEmpty(stop_.get_token()));
  return Failure();
}

Result<Target::Position> CollectionSync::Start() {
  // What was not committed is heard again from the cursor on.
  fifo_.Reset();
  seen_.Clear();
  LARDER_ASSIGN_OR_RETURN(const Cursor stored,
                          indexer_->store()->GetCursor(indexer_->collection().id));
  SetCursorState(stored);
  {
    MutexLock lock(mutex_);
    stats_.error.reset();
  }
  Position position;
  position.cluster_uid = indexer_->collection().spec.cluster_uid;
  position.list_unfinished =
      stored.state == SyncState::kListing || stored.state == SyncState::kRelisting;
  if (stored.Complete()) {
    position.resource_version = stored.resource_version;
    position.witness = stored.witness;
    const int64_t age_ms = std::max<int64_t>(0, WallMs(*options_.clock) - stored.updated_ms);
    spdlog::info("{}: resuming at version {}, which is {:.1f} s old, with about {} objects",
                 indexer_->collection().spec.ToString(), stored.resource_version,
                 static_cast<double>(age_ms) / 1000,
                 EstimateObjects(*indexer_->store(), indexer_->collection().id));
  }
  if (stored.state == SyncState::kSynced) sink_->Synced();
  return position;
}

void CollectionSync::SetCursorState(const Cursor& cursor) {
  MutexLock lock(mutex_);
  cursor_ = cursor;
  changed_.notify_all();
}

Result<void> CollectionSync::CommitCursor(Cursor next, Durability durability) {
  LARDER_RETURN_IF_ERROR(Flush());
  next.updated_ms = WallMs(*options_.clock);
  const auto writer = indexer_->BeginWrite();
  writer->SetCursor(next);
  LARDER_RETURN_IF_ERROR(writer->Commit(durability));
  SetCursorState(next);
  return {};
}

Result<void> CollectionSync::Rewound() {
  // What waits moves the cursor.
  LARDER_RETURN_IF_ERROR(Flush());
  Cursor next = cursor();
  next.resource_version.clear();
  next.state = next.Complete() ? SyncState::kRelisting : SyncState::kListing;
  // Synced, whatever was asked for: an older prefix would have the lost version to watch from, and
  // the server may be past it by then.
  return CommitCursor(next, Durability::kSync);
}

Result<void> CollectionSync::BeginList(std::string_view why) {
  // What waits moves the cursor.
  LARDER_RETURN_IF_ERROR(Flush());
  Cursor next = cursor();
  // A version proves nothing when the server was rewound. That must outlive this process: a list
  // that is cut off is begun again with another reason, but the rows may still be from the future.
  // Rows of a first list that was cut off may be, too: without a cursor nobody could tell.
  compare_ = why != "rewound" && !next.resource_version.empty();
  if (!compare_) next.resource_version.clear();
  first_list_ = !next.Complete();
  next.state = first_list_ ? SyncState::kListing : SyncState::kRelisting;
  ++next.epoch;
  LARDER_RETURN_IF_ERROR(CommitCursor(next, options_.durability));
  rows_may_exist_ = false;
  LARDER_RETURN_IF_ERROR(indexer_->store()->ScanHeads(indexer_->collection().id, {},
                                                      [this](const ObjectKey&, const ObjectHead&) {
                                                        rows_may_exist_ = true;
                                                        return false;
                                                      }));
  seen_.Clear();
  unseen_.reset();
  stored_.Reset();
  newest_.reset();
  spdlog::info("{}: listing ({})", indexer_->collection().spec.ToString(), why);
  return {};
}

Result<bool> CollectionSync::ListItemUnchanged(const ObjectKey& key, std::string_view uid,
                                               std::string_view resource_version) {
  LARDER_RETURN_IF_ERROR(Failure());
  if (!rows_may_exist_ || !compare_) return false;
  LARDER_ASSIGN_OR_RETURN(const ObjectHead* const head, stored_.Find(key));
  if (!head || head->uid != uid || head->resource_version != resource_version) return false;
  seen_.Insert(key);
  Raise(newest_, key, resource_version, /*deleted=*/false);
  MutexLock lock(mutex_);
  ++stats_.unchanged;
  return true;
}

Result<bool> CollectionSync::StoredIsNewer(const ObjectKey& key,
                                           std::string_view resource_version) {
  if (!rows_may_exist_ || !compare_) return false;
  LARDER_ASSIGN_OR_RETURN(const ObjectHead* const head, stored_.Find(key));
  return head && CompareResourceVersions(head->resource_version, resource_version).value_or(0) > 0;
}

Result<void> CollectionSync::ListItem(ObjectPtr object) {
  const ObjectKey key = object->key();
  LARDER_ASSIGN_OR_RETURN(const bool unchanged,
                          ListItemUnchanged(key, object->uid(), object->resource_version()));
  if (unchanged) return {};
  const bool repeated = !seen_.Insert(key);
  // A key that comes twice in one list stands already, whatever was there before.
  if (repeated) {
    rows_may_exist_ = true;
    stored_.Reset();
  }
  Raise(newest_, key, object->resource_version(), /*deleted=*/false);
  return PutObject(DeltaType::kReplaced, std::move(object), true, {});
}

Result<void> CollectionSync::EndList(std::string_view resource_version) {
  LARDER_RETURN_IF_ERROR(Flush());
  if (rows_may_exist_) LARDER_RETURN_IF_ERROR(Sweep());
  Cursor next = cursor();
  next.state = SyncState::kSynced;
  next.resource_version = resource_version;
  next.witness = std::move(newest_);
  LARDER_RETURN_IF_ERROR(CommitCursor(next, options_.durability));
  seen_.Clear();
  // A list is written once and replayed never: without this a restart would read it from the log.
  indexer_->store()->StartFlush();
  ReturnFreeMemory();
  spdlog::info("{}: complete at version {}", indexer_->collection().spec.ToString(),
               resource_version);
  sink_->Synced();
  return {};
}

Result<bool> CollectionSync::UnseenIsNewer(std::string_view resource_version) {
  unseen_.reset();
  if (!rows_may_exist_ || !compare_) return false;
  bool newer = false;
  std::vector<ObjectKey> unseen;
  LARDER_RETURN_IF_ERROR(indexer_->store()->ScanHeads(
      indexer_->collection().id, {}, [&](const ObjectKey& key, const ObjectHead& head) {
        if (seen_.Contains(key)) return true;
        newer = CompareResourceVersions(head.resource_version, resource_version).value_or(0) > 0;
        if (unseen.size() < kSweptAtOnce) unseen.push_back(key);
        return !newer;
      }));
  if (!newer && unseen.size() < kSweptAtOnce) unseen_ = std::move(unseen);
  return newer;
}

Result<std::vector<ObjectKey>> CollectionSync::Unseen(const ObjectKey& after) const {
  std::vector<ObjectKey> unseen;
  LARDER_RETURN_IF_ERROR(indexer_->store()->ScanHeads(
      indexer_->collection().id, {},
      [&](const ObjectKey& key, const ObjectHead&) {
        if (!seen_.Contains(key)) unseen.push_back(key);
        return unseen.size() < kSweptAtOnce;
      },
      nullptr, after));
  return unseen;
}

// What is stored and was not in the list is gone. In rounds, so that a list that became empty does
// not hold the names of all that was in it.
Result<void> CollectionSync::Sweep() {
  std::vector<ObjectKey> gone;
  do {
    const ObjectKey after = gone.empty() ? ObjectKey() : gone.back();
    if (unseen_) {
      gone = *std::exchange(unseen_, std::nullopt);
    } else {
      LARDER_ASSIGN_OR_RETURN(gone, Unseen(after));
    }
    for (const ObjectKey& key : gone) {
      Delta delta;
      delta.type = DeltaType::kDeleted;
      delta.key = key;
      delta.final_state_unknown = true;
      LARDER_RETURN_IF_ERROR(Put(std::move(delta), {}));
    }
  } while (gone.size() == kSweptAtOnce);
  return Flush();
}

Result<void> CollectionSync::Event(EventType type, ObjectPtr object) {
  LARDER_RETURN_IF_ERROR(Failure());
  const std::string version(object->resource_version());
  return PutObject(ToDelta(type), std::move(object), false, version);
}

Result<void> CollectionSync::Bookmark(std::string_view resource_version) {
  LARDER_RETURN_IF_ERROR(Failure());
  MakeRoom();
  return fifo_.PutCursor(std::string(resource_version), stop_.get_token());
}

// A user's function: what it throws or refuses ends the stream, and nothing is
// skipped.
Result<ObjectPtr> CollectionSync::Transformed(const ObjectPtr& object) const {
  const auto failed = [&](std::string_view why) {
    return MakeError(ErrorCode::kInternal, "the transform of {} failed: {}",
                     object->key().ToString(), why);
  };
  try {
    Result<ObjectPtr> made = options_.transform(object);
    if (!made) return made;
    if (!*made) return failed("it returned nothing");
    if ((*made)->key() != object->key() || (*made)->uid() != object->uid() ||
        (*made)->resource_version() != object->resource_version()) {
      return failed("it changed the name, the uid or the resourceVersion");
    }
    return made;
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("it threw");
  }
}

Result<void> CollectionSync::PutObject(DeltaType type, ObjectPtr object, bool in_list,
                                       std::string_view resource_version) {
  if (options_.transform && !object->projected()) {
    LARDER_ASSIGN_OR_RETURN(object, Transformed(object));
  }
  Delta delta;
  delta.type = type;
  if (type != DeltaType::kDeleted) {
    // Compressed here, on the reflector's thread, while the committer writes what came before.
    LARDER_ASSIGN_OR_RETURN(EncodedObject encoded,
                            indexer_->store()->Encode(indexer_->collection().id, *object));
    delta.key = std::move(encoded.key);
    delta.encoded = std::move(encoded.value);
  } else {
    delta.key = object->key();
  }
  delta.object = std::move(object);
  delta.in_list = in_list;
  return Put(std::move(delta), resource_version);
}

Result<void> CollectionSync::Put(Delta delta, std::string_view resource_version) {
  MakeRoom();
  return fifo_.Put(std::move(delta), resource_version, stop_.get_token());
}

void CollectionSync::MakeRoom() {
  if (!options_.own_thread && fifo_.Full()) CommitWaiting();
}

void CollectionSync::CommitWaiting() {
  if (options_.own_thread) return;
  while (auto batch = fifo_.Pop(stop_.get_token(), DeltaFifo::Duration(0))) {
    CommitAndSettle(*batch);
  }
}

void CollectionSync::CommitLoop(const std::stop_token& stop) {
  NameThread("larder-commit");
  while (auto batch = fifo_.Pop(stop)) CommitAndSettle(*batch);
}

void CollectionSync::CommitAndSettle(DeltaFifo::Batch& batch) {
  const Result<void> outcome = CommitBatch(batch);
  if (outcome) {
    fifo_.Ack(batch);
    return;
  }
  spdlog::error(
      "{}: commit failed, the watch stops and begins again from "
      "the last commit: {}",
      indexer_->collection().spec.ToString(), outcome.error().ToString());
  {
    MutexLock lock(mutex_);
    stats_.error = outcome.error();
  }
  fifo_.Fail(batch);
  if (options_.on_failure) options_.on_failure(outcome.error());
}

Result<void> CollectionSync::CommitBatch(DeltaFifo::Batch& batch) {
  const auto writer = indexer_->BeginWrite();
  CollectionSyncStats done;
  Cursor next = cursor();
  Result<void> outcome;
  for (Delta& delta : batch.deltas) {
    outcome = StageDelta(*writer, delta, done);
    if (!outcome) break;
  }
  if (outcome) {
    // A list's versions are in no order: its cursor comes with EndList.
    if (!batch.resource_version.empty()) {
      // An event that is late, or told twice, does not take it back.
      const auto order = CompareResourceVersions(batch.resource_version, next.resource_version);
      if (order.value_or(1) > 0) next.resource_version = batch.resource_version;
      next.updated_ms = WallMs(*options_.clock);
      for (const Delta& delta : batch.deltas) {
        if (delta.in_list || !delta.object) continue;
        Raise(next.witness, delta.key, delta.object->resource_version(),
              delta.type == DeltaType::kDeleted);
      }
      writer->SetCursor(next);
    }
    const CollectionSyncStats before = Stats();
    done.objects += before.objects;
    done.bytes += before.bytes;
    writer->transaction().PutNote(SizeNote(indexer_->collection().id),
                                  fmt::format("{} {}", done.objects, done.bytes));
    outcome = writer->Commit(options_.durability);
  }
  // Before the cursor shows it: who waits for a version finds its work in the queues, too.
  sink_->Publish(outcome.has_value());
  if (outcome) {
    MutexLock lock(mutex_);
    ++stats_.commits;
    stats_.added += done.added;
    stats_.updated += done.updated;
    stats_.deleted += done.deleted;
    stats_.objects = done.objects;
    stats_.bytes = done.bytes;
    cursor_ = next;
    changed_.notify_all();
  }
  return outcome;
}

Result<void> CollectionSync::StageDelta(Indexer::Writer& writer, Delta& delta,
                                        CollectionSyncStats& done) {
  if (delta.type == DeltaType::kDeleted) {
    const std::string_view uid = delta.object ? delta.object->uid() : std::string_view();
    const std::string_view version =
        delta.object ? delta.object->resource_version() : std::string_view();
    LARDER_ASSIGN_OR_RETURN(Indexer::Change change, writer.Delete(delta.key, uid, version));
    return StageChange(writer, change, delta, done);
  }
  using Expect = Indexer::Writer::Expect;
  Expect expect = Expect::kOlder;
  if (delta.in_list && !compare_) expect = Expect::kAny;
  if (delta.in_list && !rows_may_exist_) expect = Expect::kAbsent;
  LARDER_ASSIGN_OR_RETURN(
      Indexer::Change change,
      writer.Upsert(delta.object, EncodedObject{delta.key, std::move(delta.encoded)}, expect));
  return StageChange(writer, change, delta, done);
}

Result<void> CollectionSync::StageChange(Indexer::Writer& writer, const Indexer::Change& change,
                                         const Delta& delta, CollectionSyncStats& done) {
  const bool initial = delta.in_list && first_list_;
  CountSize(change, delta.object, done);
  switch (change.outcome) {
    case Indexer::Outcome::kUnchanged:
      return {};
    case Indexer::Outcome::kAdded:
      ++done.added;
      return sink_->Stage(writer, {ChangeType::kAdded, nullptr, delta.object, initial, false});
    case Indexer::Outcome::kUpdated:
      ++done.updated;
      return sink_->Stage(writer, {ChangeType::kUpdated, change.old, delta.object, initial, false});
    case Indexer::Outcome::kRecreated:
      ++done.deleted;
      ++done.added;
      LARDER_RETURN_IF_ERROR(
          sink_->Stage(writer, {ChangeType::kDeleted, change.old, nullptr, false, true}));
      return sink_->Stage(writer, {ChangeType::kAdded, nullptr, delta.object, initial, false});
    case Indexer::Outcome::kDeleted: {
      ++done.deleted;
      // The server's DELETED event carries the state at the deletion; a sweep knows only what is
      // stored.
      const ObjectPtr last = delta.object ? delta.object : change.old;
      return sink_->Stage(writer, {ChangeType::kDeleted, last, nullptr, false,
                                   delta.final_state_unknown, change.old});
    }
  }
  return {};
}

}  // namespace larder
