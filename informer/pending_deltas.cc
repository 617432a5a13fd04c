#include "informer/pending_deltas.h"

#include <flatbuffers/flatbuffers.h>

#include <chrono>

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
};

std::string Encode(const Stored& row) {
  flatbuffers::FlatBufferBuilder builder(row.known.size() + 128);
  const auto known = row.known.empty()
                         ? 0
                         : builder.CreateVector(reinterpret_cast<const uint8_t*>(row.known.data()),
                                                row.known.size());
  fbs::FinishPendingDeltaBuffer(
      builder, fbs::CreatePendingDelta(builder, row.generation, row.kind, row.in_initial_list,
                                       row.inferred, known, row.unheard));
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

Result<Stored> Decode(std::string_view bytes, const ObjectKey& key) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!fbs::VerifyPendingDeltaBuffer(verifier)) {
    return MakeError(ErrorCode::kCorruption, "the pending change of {} is damaged", key.ToString());
  }
  const fbs::PendingDelta* delta = fbs::GetPendingDelta(bytes.data());
  Stored row{delta->generation(), delta->kind(), delta->in_initial_list(), delta->inferred(), {},
             delta->unheard()};
  if (delta->known()) {
    row.known.assign(reinterpret_cast<const char*>(delta->known()->data()), delta->known()->size());
  }
  return row;
}

// From the state that the handler knows to the newest, over one more change.
fbs::DeltaKind MergedKind(std::optional<fbs::DeltaKind> before, ChangeType change) {
  switch (change) {
    case ChangeType::kDeleted:
      return fbs::DeltaKind_Deleted;
    case ChangeType::kUpdated:
      return before.value_or(fbs::DeltaKind_Updated);
    case ChangeType::kAdded:
      return before == fbs::DeltaKind_Deleted ? fbs::DeltaKind_Recreated : fbs::DeltaKind_Added;
  }
  return fbs::DeltaKind_Updated;
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
                                                   const ObjectChange& change, bool only_on_disk) {
  using enum RowMemory::Row;
  const ObjectKey key = change.current()->key();
  const RowMemory::Row standing = memory_.Find(key);
  const bool deleted = change.type == ChangeType::kDeleted;
  const bool update = only_on_disk && change.type == ChangeType::kUpdated;
  if (update && (standing == kUnread || standing == kUnheard)) return Merged::kIntoRow;
  std::optional<Stored> before;
  // A delete needs nothing of a row but to know that it stands, and whether it is unheard.
  const bool look = standing != kNone && !(deleted && standing != kUnknown);
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
  row.inferred = change.inferred;
  // Of an add that is told before this row is read, the row says what the handler knows by then.
  const bool told = update && before && before->kind == fbs::DeltaKind_Added && !before->unheard &&
                    IsOwn(before->generation);
  // A delete reports the last known state; everything else starts from what the handler knew before
  // the first change.
  if (deleted || told || (!before && change.old)) {
    LARDER_ASSIGN_OR_RETURN(
        row.known, writer.EncodeOld(change.old, change.stored ? change.stored : change.old));
  } else if (before) {
    row.known = std::move(before->known);
  }
  writer.PutDelta(handler_, key, Encode(row), row.known);
  memory_.Set(key, row.unheard ? kUnheard : only_on_disk ? kUnread : kUnknown);
  return before || standing == kUnread ? Merged::kIntoRow : Merged::kNewRow;
}

Indexer::View PendingDeltas::BeginRead(const Indexer::Writer&) {
  handed_out_ = generation_;
  memory_.Forget();
  return indexer_->TakeView();
}

Result<std::vector<PendingDeltas::Row>> PendingDeltas::Read(const Indexer::View& view,
                                                            const ObjectKey& after,
                                                            size_t limit) const {
  Store* const store = indexer_->store();
  const CollectionId collection = indexer_->collection().id;
  std::vector<Row> rows;
  Result<void> outcome;
  const auto visit = [&](const ObjectKey& key, std::string_view bytes) -> Result<void> {
    LARDER_ASSIGN_OR_RETURN(const Stored stored, Decode(bytes, key));
    Row row;
    row.key = key;
    row.generation = stored.generation;
    row.unheard = stored.unheard;
    row.change.in_initial_list = stored.in_initial_list;
    row.change.inferred = stored.inferred;
    if (!stored.known.empty()) {
      LARDER_ASSIGN_OR_RETURN(row.change.old, store->Decode(collection, key, stored.known));
    }
    ObjectPtr now;
    if (stored.kind != fbs::DeltaKind_Deleted) {
      LARDER_ASSIGN_OR_RETURN(now, indexer_->GetByKey(key, view));
    }
    switch (stored.kind) {
      case fbs::DeltaKind_Added:
        row.change.type = ChangeType::kAdded;
        if (row.change.old && IsOwn(stored.generation)) {
          row.change.type = ChangeType::kUpdated;
        } else {
          row.change.old = nullptr;
        }
        break;
      case fbs::DeltaKind_Updated:
        row.change.type = ChangeType::kUpdated;
        break;
      case fbs::DeltaKind_Deleted:
        row.change.type = ChangeType::kDeleted;
        break;
      case fbs::DeltaKind_Recreated:
        row.change.type = ChangeType::kDeleted;
        row.then = ObjectChange{ChangeType::kAdded, nullptr, now, false, false};
        now = nullptr;
        break;
    }
    row.change.object = std::move(now);
    rows.push_back(std::move(row));
    return {};
  };
  LARDER_RETURN_IF_ERROR(store->ScanDeltas(
      collection, handler_, after,
      [&](const ObjectKey& key, std::string_view bytes) {
        outcome = visit(key, bytes);
        return outcome.has_value() && rows.size() < limit;
      },
      view.snapshot));
  if (!outcome) return tl::unexpected(outcome.error());
  return rows;
}

Result<bool> PendingDeltas::HandOut(Indexer::Writer& writer, std::vector<Row>* rows) const {
  std::vector<Row> standing;
  bool marked = false;
  for (Row& row : *rows) {
    if (row.unheard) {
      LARDER_ASSIGN_OR_RETURN(const auto bytes, writer.GetDelta(handler_, row.key));
      if (!bytes) continue;
      LARDER_ASSIGN_OR_RETURN(Stored stored, Decode(*bytes, row.key));
      if (stored.generation != row.generation) continue;  // it is read again
      stored.unheard = false;
      writer.PutDelta(handler_, row.key, Encode(stored), stored.known);
      marked = true;
    }
    standing.push_back(std::move(row));
  }
  *rows = std::move(standing);
  return marked;
}

Result<size_t> PendingDeltas::Acknowledge(Indexer::Writer& writer, const std::vector<Row>& rows) {
  size_t removed = 0;
  for (const Row& row : rows) {
    LARDER_ASSIGN_OR_RETURN(const bool one, Acknowledge(writer, row.key, row.generation));
    if (one) ++removed;
  }
  return removed;
}

Result<bool> PendingDeltas::Acknowledge(Indexer::Writer& writer, const ObjectKey& key,
                                        uint64_t generation) {
  LARDER_ASSIGN_OR_RETURN(const auto bytes, writer.GetDelta(handler_, key));
  if (!bytes) return false;
  LARDER_ASSIGN_OR_RETURN(const Stored stored, Decode(*bytes, key));
  if (stored.generation != generation) return false;
  writer.DeleteDelta(handler_, key);
  memory_.Set(key, RowMemory::Row::kNone);
  return true;
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
