// Indexer::Writer: the write path of a collection.
#include <algorithm>

#include "indexer/indexer.h"

namespace larder {

Indexer::Writer::Writer(Indexer* indexer)
    : indexer_(indexer),
      lock_(indexer->write_mutex_),
      indexes_(indexer->Indexes()),
      transaction_(indexer->store_->Begin()) {}

Indexer::Writer::~Writer() = default;

Result<Indexer::Prepared> Indexer::Prepare(const Object& object) const {
  Prepared prepared;
  LARDER_ASSIGN_OR_RETURN(prepared.encoded, store_->Encode(collection_.id, object));
  prepared.indexes = Indexes();
  prepared.values = prepared.indexes->Values(object);
  return prepared;
}

Result<ObjectPtr> Indexer::Writer::Current(const ObjectKey& key) {
  const auto staged = staged_at_.find(key.ToString());
  if (staged != staged_at_.end()) return staged_[staged->second].object;
  const CollectionId collection = indexer_->collection_.id;
  if (indexer_->hot_) {
    if (ObjectPtr object = indexer_->hot_->Get(collection, key)) return object;
  }
  auto object = indexer_->store_->Get(collection, key);
  if (!object && object.error().code == ErrorCode::kNotFound) return ObjectPtr();
  return object;
}

Result<void> Indexer::Writer::StageIndexes(const Object* old, const Object* now,
                                           const Values* now_values, const ObjectKey& key) {
  DropUnknown();
  const CollectionId collection = indexer_->collection_.id;
  const bool same_uid = old && now && old->uid() == now->uid();
  Values before, after;
  if (old) before = indexes_->Values(*old);
  if (now && !now_values) {
    after = indexes_->Values(*now);
    now_values = &after;
  }
  for (size_t i = 0; i < indexes_->indexes().size(); ++i) {
    const LiveIndex& index = *indexes_->indexes()[i];
    static const std::vector<std::string> kNone;
    const std::vector<std::string>& was = old ? before[i] : kNone;
    const std::vector<std::string>& is = now ? (*now_values)[i] : kNone;
    for (const std::string& value : was) {
      if (std::binary_search(is.begin(), is.end(), value)) continue;
      LARDER_ASSIGN_OR_RETURN(const std::string token,
                              indexer_->store_->IndexToken(collection, value));
      transaction_.DeleteIndexKey(collection, index.id, token, key);
    }
    for (const std::string& value : is) {
      // A key that stands already, with this uid, need not be written again. While the index is
      // being built it may not stand yet, so write it anyway.
      if (same_uid && index.Ready() && std::binary_search(was.begin(), was.end(), value)) continue;
      LARDER_ASSIGN_OR_RETURN(const std::string token,
                              indexer_->store_->IndexToken(collection, value));
      transaction_.PutIndexKey(collection, index.id, token, key, now->uid());
    }
  }
  return {};
}

void Indexer::Writer::Stage(const ObjectKey& key, ObjectPtr object, bool if_room) {
  const auto [at, fresh] = staged_at_.emplace(key.ToString(), staged_.size());
  if (fresh) {
    staged_.push_back({key, std::move(object), if_room});
  } else {
    staged_[at->second].object = std::move(object);
  }
}

Result<Indexer::Change> Indexer::Writer::Upsert(const ObjectPtr& object,
                                                const EncodedObject& encoded, Expect expect) {
  return Put(object, encoded, nullptr, expect);
}

Result<Indexer::Change> Indexer::Writer::Upsert(const ObjectPtr& object, const Prepared& prepared,
                                                Expect expect) {
  // An index may have been added since; then its values are not among these.
  const bool current = prepared.indexes == indexes_;
  return Put(object, prepared.encoded, current ? &prepared.values : nullptr, expect);
}

Result<Indexer::Change> Indexer::Writer::Put(const ObjectPtr& object, const EncodedObject& encoded,
                                             const Values* values, Expect expect) {
  Change change;
  if (expect != Expect::kAbsent) {
    LARDER_ASSIGN_OR_RETURN(change.old, Current(encoded.key));
  }
  if (change.old && expect != Expect::kAny) {
    const auto order =
        CompareResourceVersions(object->resource_version(), change.old->resource_version());
    const bool same = change.old->resource_version() == object->resource_version() &&
                      change.old->uid() == object->uid();
    if (same || (order && *order < 0)) return Change{};
  }
  if (change.old && expect == Expect::kAny && change.old->json() == object->json()) return Change{};
  change.outcome = !change.old                          ? Outcome::kAdded
                   : change.old->uid() == object->uid() ? Outcome::kUpdated
                                                        : Outcome::kRecreated;
  LARDER_RETURN_IF_ERROR(StageIndexes(change.old.get(), object.get(), values, encoded.key));
  transaction_.PutObject(indexer_->collection_.id, encoded);
  Stage(encoded.key, object, /*if_room=*/expect == Expect::kAbsent);
  return change;
}

Result<Indexer::Change> Indexer::Writer::Delete(const ObjectKey& key, std::string_view uid,
                                                std::string_view resource_version) {
  Change change;
  LARDER_ASSIGN_OR_RETURN(change.old, Current(key));
  if (!change.old) return Change{};
  const auto order = CompareResourceVersions(resource_version, change.old->resource_version());
  const bool another = !uid.empty() && change.old->uid() != uid;
  // Out of a selector an object may go and come back: what is stored may be of after that.
  const CollectionSpec& spec = indexer_->collection_.spec;
  const bool selected = !spec.label_selector.empty() || !spec.field_selector.empty();
  if ((another && !order) || ((another || selected) && order && *order < 0)) return Change{};
  change.outcome = Outcome::kDeleted;
  LARDER_RETURN_IF_ERROR(StageIndexes(change.old.get(), nullptr, nullptr, key));
  transaction_.DeleteObject(indexer_->collection_.id, key);
  Stage(key, nullptr);
  return change;
}

void Indexer::Writer::SetCursor(const Cursor& cursor) {
  transaction_.SetCursor(indexer_->collection_.id, cursor);
}

namespace {

// A handler's row within this writer. Object names hold no control characters.
std::string DeltaName(std::string_view handler, const ObjectKey& key) {
  return std::string(handler) + "\n" + key.ToString();
}

}  // namespace

Result<std::optional<std::string>> Indexer::Writer::GetDelta(std::string_view handler,
                                                             const ObjectKey& key) const {
  const auto staged = staged_deltas_.find(DeltaName(handler, key));
  if (staged != staged_deltas_.end()) return staged->second;
  return indexer_->store_->GetDelta(indexer_->collection_.id, handler, key);
}

void Indexer::Writer::PutDelta(std::string_view handler, const ObjectKey& key, std::string value,
                               std::string_view known) {
  transaction_.PutDelta(indexer_->collection_.id, handler, key, value, known);
  staged_deltas_[DeltaName(handler, key)] = std::move(value);
}

void Indexer::Writer::DeleteDelta(std::string_view handler, const ObjectKey& key) {
  transaction_.DeleteDelta(indexer_->collection_.id, handler, key);
  staged_deltas_[DeltaName(handler, key)] = std::nullopt;
}

Result<std::string_view> Indexer::Writer::EncodeOld(const ObjectPtr& state,
                                                    const ObjectPtr& stored) {
  if (encoded_of_ != state) {
    LARDER_ASSIGN_OR_RETURN(EncodedObject encoded, indexer_->store_->EncodeFrom(
                                                       indexer_->collection_.id, *state, *stored));
    encoded_ = std::move(encoded.value);
    encoded_of_ = state;
  }
  return encoded_;
}

Result<void> Indexer::Writer::Commit(Durability durability) {
  const CollectionId collection = indexer_->collection_.id;
  if (indexer_->hot_) indexer_->hot_->BeginCommit(collection, staged_);
  auto outcome = indexer_->store_->Commit(std::move(transaction_), durability);
  if (indexer_->hot_) indexer_->hot_->EndCommit(collection, staged_, outcome.has_value());
  if (outcome && dropped_) ForgetDropped();
  return outcome;
}

}  // namespace larder
