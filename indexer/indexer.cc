#include "indexer/indexer.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "schema/key_order.h"
#include "storage/index_key_name.h"

namespace larder {

Indexer::Indexer(Store* store, HotTier* hot, CollectionInfo collection)
    : store_(store),
      hot_(hot),
      collection_(std::move(collection)),
      indexes_(std::make_shared<const IndexSet>(std::vector<LiveIndexPtr>())) {}

Indexer::~Indexer() = default;

Result<std::unique_ptr<Indexer>> Indexer::Open(Store* store, HotTier* hot,
                                               const CollectionSpec& spec,
                                               std::vector<IndexDefinition> indexes, bool encrypt) {
  LARDER_ASSIGN_OR_RETURN(CollectionInfo collection, store->OpenCollection(spec, encrypt));
  std::unique_ptr<Indexer> indexer(new Indexer(store, hot, std::move(collection)));
  LARDER_RETURN_IF_ERROR(indexer->AdoptStored(indexes));
  LARDER_RETURN_IF_ERROR(indexer->AddIndexers(std::move(indexes)));
  indexer->builder_ =
      std::jthread([raw = indexer.get()](const std::stop_token& stop) { raw->BuildLoop(stop); });
  return indexer;
}

Result<std::unique_ptr<Indexer>> Indexer::Attach(Store* store, const CollectionInfo& collection) {
  std::unique_ptr<Indexer> indexer(new Indexer(store, nullptr, collection));
  LARDER_ASSIGN_OR_RETURN(const auto stored, store->IndexRecords(collection.id));
  std::vector<LiveIndexPtr> live;
  for (const IndexRecord& record : stored) {
    const auto [definition, key_name] = SplitKeyName(record.definition);
    auto index = IndexDefinition::FromStored(record.name, definition);
    if (!index) {  // of a newer build, and no reason not to read the rest
      spdlog::warn("{}: {}; it is left out", collection.spec.ToString(), index.error().message);
      continue;
    }
    const bool other_key = key_name != store->IndexKeyName(collection.id);
    live.push_back(std::make_shared<LiveIndex>(
        *std::move(index), record.id, record.ready && !other_key, /*declared=*/true, other_key));
  }
  MutexLock write_lock(indexer->write_mutex_);
  indexer->SetIndexes(std::move(live));
  return indexer;
}

IndexSetPtr Indexer::Indexes() const {
  ReaderLock lock(mutex_);
  return indexes_;
}

Result<LiveIndexPtr> Indexer::Find(std::string_view index) const {
  const IndexSetPtr set = Indexes();
  if (LiveIndexPtr found = set->Find(index); found && found->declared) return found;
  std::string names;
  for (const IndexDefinition& index_of : GetIndexers()) {
    names += (names.empty() ? "" : ", ") + index_of.name();
  }
  return MakeError(ErrorCode::kNotFound, "no index \"{}\" on {}; there are: {}", index,
                   collection_.spec.ToString(), names.empty() ? "none" : names);
}

Error Indexer::NotReady(const LiveIndex& index) const {
  if (index.other_key) {
    return Error{ErrorCode::kNotReady,
                 fmt::format("index {} on {} was written with another encryption key; its owner "
                             "builds it anew at its next start",
                             index.definition.name(), collection_.spec.ToString()),
                 {},
                 {}};
  }
  return Error{
      ErrorCode::kNotReady,
      fmt::format("index {} on {} is still being built ({} objects so far)",
                  index.definition.name(), collection_.spec.ToString(), index.scanned.load()),
      {},
      {}};
}

std::vector<IndexDefinition> Indexer::GetIndexers() const {
  std::vector<IndexDefinition> out;
  const IndexSetPtr set = Indexes();  // held: AddIndexers may replace it meanwhile
  for (const LiveIndexPtr& live : set->indexes()) {
    if (live->declared) out.push_back(live->definition);
  }
  return out;
}

Indexer::View Indexer::TakeView() const {
  // The numbers first: they may be older than the snapshot, never newer (see HotTier, LiveIndex).
  View view;
  view.moment = moment_.load();
  if (hot_) view.sequence = hot_->sequence();
  view.snapshot = store_->TakeSnapshot();
  return view;
}

Result<ObjectPtr> Indexer::GetByKey(const ObjectKey& key) const {
  if (hot_) {
    if (ObjectPtr object = hot_->Get(collection_.id, key)) return object;
  }
  auto object = Read(key, hot_ ? hot_->sequence() : 0, nullptr);
  if (!object && object.error().code == ErrorCode::kNotFound) {
    return MakeError(ErrorCode::kNotFound, "no {} in {}", key.ToString(),
                     collection_.spec.ToString());
  }
  return object;
}

Result<ObjectPtr> Indexer::GetByKey(const ObjectKey& key, const View& view) const {
  if (hot_) {
    if (ObjectPtr object = hot_->Get(collection_.id, key, view.sequence)) return object;
  }
  return Read(key, view.sequence, view.snapshot);
}

Result<ObjectPtr> Indexer::GetIndexed(std::string_view index, const ObjectKey& key,
                                      const View& view) const {
  auto object = GetByKey(key, view);
  if (object || object.error().code != ErrorCode::kNotFound) return object;
  return tl::unexpected(store_->NoteDamage(
      {ErrorCode::kCorruption,
       fmt::format("index {} names {}, which is not stored", index, key.ToString()),
       {},
       {}}));
}

// What was asked for once is likely to be asked for again, by whichever way.
Result<ObjectPtr> Indexer::Read(const ObjectKey& key, uint64_t sequence,
                                const SnapshotPtr& snapshot) const {
  auto object = store_->Get(collection_.id, key, snapshot);
  if (object && hot_) hot_->Fill(collection_.id, *object, sequence);
  return object;
}

Result<void> Indexer::ForEach(std::string_view ns, const ObjectKey& after,
                              const Store::ObjectVisitor& visit, const View& view) const {
  Store::KnownObject known;
  if (hot_) {
    known = [&](const ObjectKey& key) { return hot_->Peek(collection_.id, key, view.sequence); };
  }
  return store_->Scan(collection_.id, ns, after, visit, view.snapshot, known);
}

Result<size_t> Indexer::Count(std::string_view ns) const {
  size_t count = 0;
  LARDER_RETURN_IF_ERROR(
      store_->ScanHeads(collection_.id, ns, [&](const ObjectKey&, const ObjectHead&) {
        ++count;
        return true;
      }));
  return count;
}

bool Indexer::IsNamespaceIndex(std::string_view index) const {
  if (index != kNamespaceIndex) return false;
  const LiveIndexPtr live = Indexes()->Find(index);
  return !live || !live->declared;
}

Result<void> Indexer::ForEachIndexed(std::string_view index, std::string_view value,
                                     const Store::IndexVisitor& visit, const View& view,
                                     const IndexRange& range) const {
  if (IsNamespaceIndex(index)) return ForEachInNamespace(value, visit, view, range);
  LARDER_ASSIGN_OR_RETURN(const LiveIndexPtr live, Find(index));
  LARDER_ASSIGN_OR_RETURN(const std::string token, store_->IndexToken(collection_.id, value));
  // A view older than the end of the build has only a part of the keys.
  if (view.moment < live->ready_since.load()) return tl::unexpected(NotReady(*live));
  return store_->ScanIndex(collection_.id, live->id, token, visit, view.snapshot, range);
}

// The rows are in this order anyway.
Result<void> Indexer::ForEachInNamespace(std::string_view ns, const Store::IndexVisitor& visit,
                                         const View& view, const IndexRange& range) const {
  // Objects without a namespace have the empty one, and no others do.
  const bool possible = ns.empty() != collection_.spec.resource.namespaced;
  if (!possible || (!range.ns.empty() && range.ns != ns)) return {};
  return store_->ScanHeads(
      collection_.id, ns,
      [&](const ObjectKey& key, const ObjectHead& head) {
        return visit({std::string(ns), key, head.uid});
      },
      view.snapshot, range.after);
}

// Without the index: every object is looked at.
Result<std::vector<ObjectPtr>> Indexer::ScanFor(const LiveIndex& index, std::string_view value,
                                                const View& view) const {
  std::vector<ObjectPtr> out;
  LARDER_RETURN_IF_ERROR(ForEach(
      {}, {},
      [&](const ObjectPtr& object) {
        const auto values = index.definition.Values(*object);
        if (std::binary_search(values.begin(), values.end(), value)) out.push_back(object);
        return true;
      },
      view));
  return out;
}

Result<LiveIndexPtr> Indexer::FindToScan(std::string_view index, WhenNotReady when_not_ready,
                                         const View& view) const {
  if (IsNamespaceIndex(index)) return LiveIndexPtr();
  LARDER_ASSIGN_OR_RETURN(LiveIndexPtr live, Find(index));
  const bool ready = view.moment >= live->ready_since.load();
  if (ready || when_not_ready == WhenNotReady::kFail || !live->definition.Computable()) {
    return LiveIndexPtr();
  }
  return live;
}

Result<std::vector<ObjectPtr>> Indexer::ByIndex(std::string_view index, std::string_view value,
                                                WhenNotReady when_not_ready) const {
  return ByIndexIn(index, value, when_not_ready, TakeView());
}

Result<std::vector<ObjectPtr>> Indexer::ByIndexIn(std::string_view index, std::string_view value,
                                                  WhenNotReady when_not_ready,
                                                  const View& view) const {
  LARDER_ASSIGN_OR_RETURN(const LiveIndexPtr to_scan, FindToScan(index, when_not_ready, view));
  if (to_scan) return ScanFor(*to_scan, value, view);
  std::vector<ObjectPtr> out;
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(ForEachIndexed(
      index, value,
      [&](const IndexEntry& entry) {
        auto object = GetIndexed(index, entry.key, view);
        if (!object) {
          outcome = tl::unexpected(object.error());
          return false;
        }
        out.push_back(*std::move(object));
        return true;
      },
      view));
  if (!outcome) return tl::unexpected(outcome.error());
  return out;
}

Result<std::vector<ObjectKey>> Indexer::IndexKeys(std::string_view index, std::string_view value,
                                                  WhenNotReady when_not_ready) const {
  const View view = TakeView();
  std::vector<ObjectKey> out;
  LARDER_ASSIGN_OR_RETURN(const LiveIndexPtr to_scan, FindToScan(index, when_not_ready, view));
  if (to_scan) {
    LARDER_ASSIGN_OR_RETURN(const auto objects, ScanFor(*to_scan, value, view));
    for (const ObjectPtr& object : objects) out.push_back(object->key());
    return out;
  }
  LARDER_RETURN_IF_ERROR(ForEachIndexed(
      index, value,
      [&](const IndexEntry& entry) {
        out.push_back(entry.key);
        return true;
      },
      view));
  return out;
}

Result<std::vector<ObjectPtr>> Indexer::Index(std::string_view index, const Object& like) const {
  std::vector<std::string> values;
  if (IsNamespaceIndex(index)) {
    values.emplace_back(like.ns());
  } else {
    LARDER_ASSIGN_OR_RETURN(const LiveIndexPtr live, Find(index));
    values = live->definition.Values(like);
  }
  // Of one moment: an object that changes from one of the values to another is in it.
  const View view = TakeView();
  std::vector<ObjectPtr> out;
  for (const std::string& value : values) {
    LARDER_ASSIGN_OR_RETURN(auto objects, ByIndexIn(index, value, WhenNotReady::kScan, view));
    out.insert(out.end(), objects.begin(), objects.end());
  }
  // An object with two of the values comes once.
  std::sort(out.begin(), out.end(),
            [](const ObjectPtr& a, const ObjectPtr& b) { return ComesBefore(a->key(), b->key()); });
  out.erase(
      std::unique(out.begin(), out.end(),
                  [](const ObjectPtr& a, const ObjectPtr& b) { return a->key() == b->key(); }),
      out.end());
  return out;
}

Result<std::vector<std::string>> Indexer::ListIndexFuncValues(std::string_view index) const {
  std::vector<std::string> out;
  const View view = TakeView();
  if (IsNamespaceIndex(index)) {
    LARDER_RETURN_IF_ERROR(store_->ScanHeads(
        collection_.id, {},
        [&](const ObjectKey& key, const ObjectHead&) {
          if (out.empty() || out.back() != key.ns) out.push_back(key.ns);
          return true;
        },
        view.snapshot));
    return out;
  }
  LARDER_ASSIGN_OR_RETURN(const LiveIndexPtr live, Find(index));
  LARDER_RETURN_IF_ERROR(store_->IndexToken(collection_.id, {}).map([](const std::string&) {}));
  if (!store_->IndexKeyName(collection_.id).empty()) {
    // The keys hold hashes; only the objects know the values.
    if (!live->definition.Computable()) {
      return MakeError(ErrorCode::kUnsupported,
                       "index {} on {} holds hashes; its values can be told only where it is "
                       "declared",
                       index, collection_.spec.ToString());
    }
    LARDER_RETURN_IF_ERROR(ForEach(
        {}, {},
        [&](const ObjectPtr& object) {
          for (std::string& value : live->definition.Values(*object)) out.push_back(value);
          return true;
        },
        view));
    SortUnique(out);
    return out;
  }
  if (view.moment < live->ready_since.load()) return tl::unexpected(NotReady(*live));
  LARDER_RETURN_IF_ERROR(store_->ScanIndex(
      collection_.id, live->id, std::nullopt,
      [&](const IndexEntry& entry) {
        if (out.empty() || out.back() != entry.value) out.push_back(entry.value);
        return true;
      },
      view.snapshot));
  // Escapes on disk sort a little differently from the values themselves.
  SortUnique(out);
  return out;
}

}  // namespace larder
