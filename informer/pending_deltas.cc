#include "informer/pending_deltas.h"

#include <flatbuffers/flatbuffers.h>

#include <chrono>
#include <utility>

#include "informer/key_set.h"
#include "schema/delta_generated.h"

namespace larder {
namespace {

struct Stored {
  uint64_t generation = 0;
  fbs::DeltaKind kind = fbs::DeltaKind_Added;
  bool in_initial_list = false;
  bool inferred = false;
  std::string known;
  bool unheard = false;
  std::string first;
  uint64_t added_at = 0;
};

std::string Encode(const Stored& row) {
  flatbuffers::FlatBufferBuilder builder(row.known.size() + row.first.size() + 128);
  using Bytes = flatbuffers::Offset<flatbuffers::Vector<uint8_t>>;
  const auto bytes = [&](const std::string& state) {
    return state.empty()
               ? Bytes()
               : builder.CreateVector(reinterpret_cast<const uint8_t*>(state.data()), state.size());
  };
  const Bytes known = bytes(row.known);
  const Bytes first = bytes(row.first);
  fbs::FinishPendingDeltaBuffer(
      builder, fbs::CreatePendingDelta(builder, row.generation, row.kind, row.in_initial_list,
                                       row.inferred, known, row.unheard, first, row.added_at));
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

Result<Stored> Decode(std::string_view bytes, const ObjectKey& key) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!fbs::VerifyPendingDeltaBuffer(verifier)) {
    return MakeError(ErrorCode::kCorruption, "the pending change of {} is damaged", key.ToString());
  }
  const fbs::PendingDelta* delta = fbs::GetPendingDelta(bytes.data());
  Stored row;
  row.generation = delta->generation();
  row.kind = delta->kind();
  row.in_initial_list = delta->in_initial_list();
  row.inferred = delta->inferred();
  row.unheard = delta->unheard();
  row.added_at = delta->added_at();
  const auto assign = [](std::string& state, const flatbuffers::Vector<uint8_t>* from) {
    if (from) state.assign(reinterpret_cast<const char*>(from->data()), from->size());
  };
  assign(row.known, delta->known());
  assign(row.first, delta->first());
  return row;
}

// From the state that the handler knows to the newest, over one more change. What is deleted may be
// updated, and what is updated added: for a filter an object goes and comes while it stays.
fbs::DeltaKind MergedKind(std::optional<fbs::DeltaKind> before, ChangeType change) {
  if (change == ChangeType::kDeleted) return fbs::DeltaKind_Deleted;
  if (before == fbs::DeltaKind_Deleted) return fbs::DeltaKind_Recreated;
  return before.value_or(change == ChangeType::kAdded ? fbs::DeltaKind_Added
                                                      : fbs::DeltaKind_Updated);
}

}  // namespace

// Generations go on from the clock, so that a row of an earlier process is never taken for one of
// this.
PendingDeltas::PendingDeltas(Indexer* indexer, std::string handler)
    : indexer_(indexer),
      handler_(std::move(handler)),
      first_(static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch() /
                                   std::chrono::microseconds(1))) {}

Result<PendingDeltas::Merged> PendingDeltas::Merge(Indexer::Writer& writer,
                                                   const ObjectChange& change, bool only_on_disk,
                                                   bool narrowed) {
  using enum RowMemory::Row;
  const ObjectKey key = change.current()->key();
  const RowMemory::Row standing = memory_.Find(key);
  const bool deleted = change.type == ChangeType::kDeleted;
  const bool update = only_on_disk && change.type == ChangeType::kUpdated;
  if (update && (standing == kUnread || standing == kUnheard)) return Merged::kIntoRow;
  std::optional<Stored> before;
  // A delete needs nothing of a row but to know that it stands, and whether it is unheard; one that
  // is to be narrowed also what the handler knew.
  const bool enough = standing == kUnheard || (standing == kUnread && narrowed);
  const bool look = standing != kNone && !(deleted && enough);
  if (look) {
    LARDER_ASSIGN_OR_RETURN(const auto bytes, writer.GetDelta(handler_, key));
    if (bytes) {
      LARDER_ASSIGN_OR_RETURN(before, Decode(*bytes, key));
    }
  }
  if (deleted && (standing == kUnheard || (before && before->unheard))) {
    memory_.Set(key, kNone);
    writer.DeleteDelta(handler_, key);
    return Merged::kTookRowAway;
  }
  if (update && before && IsOwn(before->generation) && before->generation > handed_out_) {
    memory_.Set(key, before->unheard ? kUnheard : kUnread);
    return Merged::kIntoRow;
  }
  Stored row;
  row.generation = ++generation_;
  if (!only_on_disk) handed_out_ = generation_;
  row.kind = MergedKind(before ? std::optional(before->kind) : std::nullopt, change.type);
  row.unheard = only_on_disk && row.kind == fbs::DeltaKind_Added && (!before || before->unheard);
  row.in_initial_list = change.in_initial_list;
  // Of a delete that an add follows it is still the delete's.
  const bool recreated = before && row.kind == fbs::DeltaKind_Recreated;
  row.inferred = recreated ? before->inferred : change.inferred;
  if (recreated) {
    row.added_at = before->kind == fbs::DeltaKind_Deleted ? row.generation : before->added_at;
  }
  // Of an add that may have been told by an earlier process, the first change says what it told.
  const bool may_be_told = !narrowed && before && before->kind == fbs::DeltaKind_Added &&
                           !before->unheard && before->known.empty();
  const ObjectPtr& stored = change.stored ? change.stored : change.old;
  // A delete reports the last known state; everything else starts from what the handler knew before
  // the first change, and so does a delete that is to be narrowed.
  if (deleted && !narrowed) {
    if (before && !before->known.empty()) {
      row.first = std::move(before->first.empty() ? before->known : before->first);
    } else if (stored != change.old) {
      LARDER_ASSIGN_OR_RETURN(row.first, writer.EncodeOld(stored, stored));
    }
  }
  if (deleted || may_be_told || (!before && change.old)) {
    LARDER_ASSIGN_OR_RETURN(row.known, writer.EncodeOld(change.old, stored));
  } else if (before) {
    row.known = std::move(before->known);
    row.first = std::move(before->first);
  }
  writer.PutDelta(handler_, key, Encode(row), row.known);
  // Once more, for the dictionary of the other state that it holds.
  if (!row.first.empty()) writer.PutDelta(handler_, key, Encode(row), row.first);
  memory_.Set(key, row.unheard ? kUnheard : only_on_disk ? kUnread : kUnknown);
  return before || standing == kUnread ? Merged::kIntoRow : Merged::kNewRow;
}

Indexer::View PendingDeltas::BeginRead(const Indexer::Writer&) {
  handed_out_ = generation_;
  memory_.Forget();
  return indexer_->TakeView();
}

Result<PendingDeltas::Row> PendingDeltas::ReadRow(const Indexer::View& view, const ObjectKey& key,
                                                  std::string_view bytes) const {
  LARDER_ASSIGN_OR_RETURN(const Stored stored, Decode(bytes, key));
  const auto decode = [&](const std::string& state) -> Result<ObjectPtr> {
    if (state.empty()) return ObjectPtr();
    return indexer_->store()->Decode(indexer_->collection().id, key, state);
  };
  Row row;
  row.key = key;
  row.generation = stored.generation;
  row.unheard = stored.unheard;
  ObjectChange change;
  change.in_initial_list = stored.in_initial_list;
  change.inferred = stored.inferred;
  LARDER_ASSIGN_OR_RETURN(change.old, decode(stored.known));
  LARDER_ASSIGN_OR_RETURN(change.stored, decode(stored.first));
  if (stored.kind == fbs::DeltaKind_Added) row.told = std::exchange(change.old, nullptr);
  ObjectPtr now;
  if (stored.kind != fbs::DeltaKind_Deleted) {
    auto found = indexer_->GetByKey(key, view);
    if (!found && found.error().code != ErrorCode::kNotFound) return tl::unexpected(found.error());
    if (found) now = *std::move(found);
    // Gone unseen: the filter held no more, so it left the row as it was.
    row.narrowed = !now;
  }
  const bool recreated = stored.kind == fbs::DeltaKind_Recreated;
  if (recreated || !now) {
    change.type = ChangeType::kDeleted;
    if (change.old) row.changes.push_back(std::move(change));
    if (now) row.changes.push_back({ChangeType::kAdded, nullptr, now, false, false});
  } else {
    change.type = change.old ? ChangeType::kUpdated : ChangeType::kAdded;
    change.object = std::move(now);
    row.changes.push_back(std::move(change));
  }
  return row;
}

Result<std::vector<PendingDeltas::Row>> PendingDeltas::Read(const Indexer::View& view,
                                                            const ObjectKey& after, size_t limit,
                                                            size_t max_bytes) const {
  std::vector<Row> rows;
  size_t bytes = 0;
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(indexer_->store()->ScanDeltas(
      indexer_->collection().id, handler_, after,
      [&](const ObjectKey& key, std::string_view stored) {
        auto row = ReadRow(view, key, stored);
        if (!row) {
          outcome = tl::unexpected(row.error());
          return false;
        }
        for (const ObjectChange& change : row->changes) bytes += change.ByteSize();
        if (row->told) bytes += row->told->ByteSize();
        rows.push_back(*std::move(row));
        return rows.size() < limit && bytes < max_bytes;
      },
      view.snapshot));
  if (!outcome) return tl::unexpected(outcome.error());
  return rows;
}

Result<bool> PendingDeltas::HandOut(Indexer::Writer& writer, std::vector<Row>* rows) const {
  std::vector<Row> standing;
  bool marked = false;
  for (Row& row : *rows) {
    if (!row.changes.empty() && (row.unheard || row.narrowed)) {
      LARDER_ASSIGN_OR_RETURN(const auto bytes, writer.GetDelta(handler_, row.key));
      if (!bytes) continue;
      LARDER_ASSIGN_OR_RETURN(Stored stored, Decode(*bytes, row.key));
      if (stored.generation != row.generation) continue;  // it is read again
      stored.unheard = false;
      if (row.narrowed) {
        const bool added = row.changes.front().type == ChangeType::kAdded;
        stored.kind = added ? fbs::DeltaKind_Added : fbs::DeltaKind_Deleted;
        if (added) stored.known = stored.first = {};
      }
      writer.PutDelta(handler_, row.key, Encode(stored), stored.known);
      marked = true;
    }
    standing.push_back(std::move(row));
  }
  *rows = std::move(standing);
  return marked;
}

PendingDeltas::Delivered PendingDeltas::DeliveredOf(const Row& row) {
  return {row.key, row.generation, row.changes.empty() ? nullptr : row.changes.back().object};
}

Result<size_t> PendingDeltas::Acknowledge(Indexer::Writer& writer,
                                          const std::vector<Delivered>& delivered) {
  size_t removed = 0;
  KeySet later;  // of a key the last counts
  for (auto one = delivered.rbegin(); one != delivered.rend(); ++one) {
    if (!later.Insert(one->key)) continue;
    const Result<bool> gone = AcknowledgeOne(writer, *one);
    if (!gone) {
      memory_.Forget();
      return tl::unexpected(gone.error());
    }
    if (*gone) ++removed;
  }
  return removed;
}

Result<bool> PendingDeltas::AcknowledgeOne(Indexer::Writer& writer, const Delivered& delivered) {
  LARDER_ASSIGN_OR_RETURN(const auto bytes, writer.GetDelta(handler_, delivered.key));
  if (!bytes) return false;
  LARDER_ASSIGN_OR_RETURN(Stored stored, Decode(*bytes, delivered.key));
  if (stored.generation == delivered.generation) {
    writer.DeleteDelta(handler_, delivered.key);
    memory_.Set(delivered.key, RowMemory::Row::kNone);
    return true;
  }
  // A delete brings the last state there was, whatever was told before. One that an add follows is
  // over once that add was told.
  const bool delete_waits =
      stored.kind == fbs::DeltaKind_Deleted ||
      (stored.kind == fbs::DeltaKind_Recreated && delivered.generation < stored.added_at);
  if (delete_waits || !delivered.state) return false;
  LARDER_ASSIGN_OR_RETURN(EncodedObject known,
                          indexer_->store()->Encode(indexer_->collection().id, *delivered.state));
  stored.kind = fbs::DeltaKind_Updated;
  stored.known = std::move(known.value);
  stored.first.clear();
  stored.inferred = false;
  stored.added_at = 0;
  writer.PutDelta(handler_, delivered.key, Encode(stored), stored.known);
  return false;
}

Result<size_t> PendingDeltas::Count(size_t limit) const {
  size_t count = 0;
  LARDER_RETURN_IF_ERROR(indexer_->store()->ScanDeltas(
      indexer_->collection().id, handler_, {},
      [&](const ObjectKey&, std::string_view) { return ++count < limit; }));
  return count;
}

Result<void> PendingDeltas::Clear() {
  memory_.Forget();
  LARDER_RETURN_IF_ERROR(indexer_->store()->DropDeltas(indexer_->collection().id, handler_));
  memory_.StartEmpty();
  return {};
}

}  // namespace larder
