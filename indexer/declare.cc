// Which indexes a collection has: those that are declared, and those of earlier runs that somebody
// may still declare.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/wall_time.h"
#include "indexer/indexer.h"
#include "storage/index_key_name.h"
#include "storage/notes.h"

namespace larder {

// Keyed hashes depend on the key: another key makes another index.
std::string Indexer::StoredDefinition(const IndexDefinition& definition) const {
  return WithKeyName(definition.definition(), store_->IndexKeyName(collection_.id));
}

// Since when nobody has declared this index; noted the first time. True: for too long.
Result<bool> Indexer::UnusedForLong(const IndexRecord& record) {
  const std::string note = UnusedIndexNote(collection_.id, record.id);
  LARDER_ASSIGN_OR_RETURN(const auto since, store_->GetNote(note));
  const int64_t now = WallMs(*store_->options().clock);
  if (!since) {
    Transaction transaction = store_->Begin();
    transaction.PutNote(note, std::to_string(now));
    LARDER_RETURN_IF_ERROR(store_->Commit(std::move(transaction), Durability::kRelaxed));
    return false;
  }
  int64_t then = now;
  std::from_chars(since->data(), since->data() + since->size(), then);
  const auto ttl = std::chrono::milliseconds(store_->options().collection_ttl).count();
  return ttl > 0 && now - then >= ttl;
}

// Takes over the stored indexes that are declared as they were, and leaves in `declared` what is
// new. Those that nobody has declared so far are kept, because who needs them may come later: the
// first who opens a collection does not know what the others declare.
Result<void> Indexer::AdoptStored(std::vector<IndexDefinition>& declared) {
  MutexLock write_lock(write_mutex_);
  LARDER_ASSIGN_OR_RETURN(const auto stored, store_->IndexRecords(collection_.id));
  std::vector<LiveIndexPtr> live;
  for (const IndexRecord& record : stored) {
    next_index_id_ = std::max(next_index_id_, record.id + 1);
    const auto wanted = std::find_if(
        declared.begin(), declared.end(),
        [&](const IndexDefinition& definition) { return definition.name() == record.name; });
    if (wanted != declared.end() && StoredDefinition(*wanted) == record.definition) {
      LARDER_RETURN_IF_ERROR(ForgetUnused(record.id));
      live.push_back(std::make_shared<LiveIndex>(std::move(*wanted), record.id, record.ready));
      declared.erase(wanted);
      continue;
    }
    // What this build does not know cannot be kept in step.
    auto kept =
        IndexDefinition::FromStored(record.name, SplitKeyName(record.definition).definition);
    bool drop = wanted != declared.end() || !kept || StoredDefinition(*kept) != record.definition;
    if (!kept && wanted == declared.end()) {
      spdlog::warn("{}: {}; it is dropped", collection_.spec.ToString(), kept.error().message);
    }
    if (!drop) {
      LARDER_ASSIGN_OR_RETURN(drop, UnusedForLong(record));
    }
    if (drop) {
      Transaction transaction = store_->Begin();
      transaction.DropIndex(collection_.id, record.id);
      transaction.DeleteNote(UnusedIndexNote(collection_.id, record.id));
      LARDER_RETURN_IF_ERROR(store_->Commit(std::move(transaction), Durability::kRelaxed));
    } else {
      live.push_back(std::make_shared<LiveIndex>(*std::move(kept), record.id, record.ready,
                                                 /*declared=*/false));
    }
  }
  SetIndexes(std::move(live));
  return {};
}

Result<void> Indexer::ForgetUnused(IndexId index) {
  const std::string note = UnusedIndexNote(collection_.id, index);
  LARDER_ASSIGN_OR_RETURN(const auto since, store_->GetNote(note));
  if (!since) return {};
  Transaction transaction = store_->Begin();
  transaction.DeleteNote(note);
  return store_->Commit(std::move(transaction), Durability::kRelaxed);
}

Result<void> Indexer::AddIndexers(std::vector<IndexDefinition> indexes) {
  {
    MutexLock write_lock(write_mutex_);
    std::vector<LiveIndexPtr> live = Indexes()->indexes();
    std::set<std::string> names;
    for (const LiveIndexPtr& index : live) {
      if (index->declared) names.insert(index->definition.name());
    }
    // An empty collection needs no build: every object to come brings its own keys.
    bool empty = true;
    LARDER_RETURN_IF_ERROR(store_->ScanHeads(
        collection_.id, {}, [&](const ObjectKey&, const ObjectHead&) { return empty = false; }));
    Transaction transaction = store_->Begin();
    IndexId next_id = next_index_id_;
    for (IndexDefinition& definition : indexes) {
      if (!names.insert(definition.name()).second) {
        return MakeError(ErrorCode::kAlreadyExists, "index {} is declared already",
                         definition.name());
      }
      const auto kept = std::find_if(live.begin(), live.end(), [&](const LiveIndexPtr& index) {
        return index->definition.name() == definition.name();
      });
      if (kept != live.end()) {
        const IndexId id = (*kept)->id;
        transaction.DeleteNote(UnusedIndexNote(collection_.id, id));
        if ((*kept)->definition.definition() == definition.definition()) {
          *kept = std::make_shared<LiveIndex>(std::move(definition), id, (*kept)->Ready());
          continue;
        }
        transaction.DropIndex(collection_.id, id);
        live.erase(kept);
      }
      const IndexId id = next_id++;
      transaction.PutIndexRecord(collection_.id,
                                 {id, definition.name(), StoredDefinition(definition), empty});
      live.push_back(std::make_shared<LiveIndex>(std::move(definition), id, empty));
    }
    if (transaction.Empty()) return {};
    LARDER_RETURN_IF_ERROR(store_->Commit(std::move(transaction), Durability::kRelaxed));
    next_index_id_ = next_id;
    SetIndexes(std::move(live));
  }
  MutexLock lock(build_mutex_);
  build_wake_.notify_all();
  return {};
}

void Indexer::SetIndexes(std::vector<LiveIndexPtr> live) {
  auto made = std::make_shared<const IndexSet>(std::move(live));
  WriterLock lock(mutex_);
  indexes_ = std::move(made);
}

// A function that nobody gave cannot be kept in step with the objects: before the first of them
// changes, its index goes, in the same transaction.
void Indexer::Writer::DropUnknown() {
  if (std::exchange(looked_for_unknown_, true)) return;
  for (const LiveIndexPtr& index : indexes_->indexes()) {
    if (index->definition.Computable()) continue;
    const CollectionId collection = indexer_->collection_.id;
    spdlog::info("{}: index {} is dropped: nobody declared it before the first change",
                 indexer_->collection_.spec.ToString(), index->definition.name());
    transaction_.DropIndex(collection, index->id);
    transaction_.DeleteNote(UnusedIndexNote(collection, index->id));
    dropped_ = true;
  }
}

void Indexer::Writer::ForgetDropped() {
  std::vector<LiveIndexPtr> left;
  for (const LiveIndexPtr& index : indexes_->indexes()) {
    if (index->definition.Computable()) left.push_back(index);
  }
  indexer_->write_mutex_.AssumeHeld();  // by lock_
  indexer_->SetIndexes(std::move(left));
}

}  // namespace larder
