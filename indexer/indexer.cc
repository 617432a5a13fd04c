#include "indexer/indexer.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace larder {
namespace {

// Objects indexed per commit of a build: commits of events wait no longer than this takes.
constexpr size_t kBuildChunk = 256;

}  // namespace

Indexer::Indexer(Store* store, HotTier* hot, CollectionInfo collection)
    : store_(store), hot_(hot), collection_(std::move(collection)) {}

Indexer::~Indexer() = default;

Result<std::unique_ptr<Indexer>> Indexer::Open(Store* store, HotTier* hot,
                                               const CollectionSpec& spec,
                                               std::vector<IndexDefinition> indexes) {
  LARDER_ASSIGN_OR_RETURN(CollectionInfo collection, store->OpenCollection(spec));
  std::unique_ptr<Indexer> indexer(new Indexer(store, hot, std::move(collection)));
  LARDER_ASSIGN_OR_RETURN(const auto stored, store->IndexRecords(indexer->collection_.id));
  for (const IndexRecord& record : stored) {
    indexer->next_index_id_ = std::max(indexer->next_index_id_, record.id + 1);
    const auto wanted =
        std::find_if(indexes.begin(), indexes.end(), [&](const IndexDefinition& definition) {
          return definition.name() == record.name && definition.definition() == record.definition;
        });
    if (wanted == indexes.end()) {
      LARDER_RETURN_IF_ERROR(store->DropIndex(indexer->collection_.id, record.id));
      continue;
    }
    indexer->indexes_.push_back(
        std::make_shared<Live>(*std::move(wanted), record.id, record.ready));
    indexes.erase(wanted);
  }
  LARDER_RETURN_IF_ERROR(indexer->AddIndexers(std::move(indexes)));
  indexer->builder_ =
      std::jthread([raw = indexer.get()](const std::stop_token& stop) { raw->BuildLoop(stop); });
  return indexer;
}

Result<void> Indexer::AddIndexers(std::vector<IndexDefinition> indexes) {
  {
    std::lock_guard write_lock(write_mutex_);
    Transaction transaction = store_->Begin();
    std::vector<LivePtr> added;
    // An empty collection needs no build: every object to come brings its own keys.
    bool empty = true;
    LARDER_RETURN_IF_ERROR(store_->ScanHeads(
        collection_.id, {}, [&](const ObjectKey&, const ObjectHead&) { return empty = false; }));
    for (IndexDefinition& definition : indexes) {
      if (Find(definition.name())) {
        return MakeError(ErrorCode::kAlreadyExists, "index {} is declared already",
                         definition.name());
      }
      const IndexId id = next_index_id_++;
      transaction.PutIndexRecord(collection_.id,
                                 {id, definition.name(), definition.definition(), empty});
      added.push_back(std::make_shared<Live>(std::move(definition), id, empty));
    }
    if (!transaction.Empty()) {
      LARDER_RETURN_IF_ERROR(store_->Commit(std::move(transaction), Durability::kRelaxed));
    }
    std::lock_guard lock(mutex_);
    indexes_.insert(indexes_.end(), added.begin(), added.end());
  }
  std::lock_guard lock(build_mutex_);
  build_wake_.notify_all();
  return {};
}

std::vector<Indexer::LivePtr> Indexer::AllLive() const {
  std::shared_lock lock(mutex_);
  return indexes_;
}

Result<Indexer::LivePtr> Indexer::Find(std::string_view index) const {
  std::shared_lock lock(mutex_);
  for (const LivePtr& live : indexes_) {
    if (live->definition.name() == index) return live;
  }
  std::string names;
  for (const LivePtr& live : indexes_)
    names += (names.empty() ? "" : ", ") + live->definition.name();
  return MakeError(ErrorCode::kNotFound, "no index \"{}\" on {}; there are: {}", index,
                   collection_.spec.ToString(), names.empty() ? "none" : names);
}

std::vector<IndexDefinition> Indexer::GetIndexers() const {
  std::vector<IndexDefinition> out;
  for (const LivePtr& live : AllLive()) out.push_back(live->definition);
  return out;
}

Indexer::View Indexer::TakeView() const {
  // The number first: it may be older than the snapshot, never newer (see HotTier).
  const uint64_t sequence = hot_->sequence();
  return {store_->TakeSnapshot(), sequence};
}

Result<ObjectPtr> Indexer::GetByKey(const ObjectKey& key) const {
  if (ObjectPtr object = hot_->Get(collection_.id, key)) return object;
  const HotTier::Ticket ticket = hot_->BeginFill(collection_.id, key);
  auto object = store_->Get(collection_.id, key);
  if (object) {
    hot_->Fill(collection_.id, *object, ticket);
  } else if (object.error().code == ErrorCode::kNotFound) {
    return MakeError(ErrorCode::kNotFound, "no {} in {}", key.ToString(),
                     collection_.spec.ToString());
  }
  return object;
}

Result<ObjectPtr> Indexer::GetByKey(const ObjectKey& key, const View& view) const {
  if (ObjectPtr object = hot_->Get(collection_.id, key, view.sequence)) return object;
  return store_->Get(collection_.id, key, view.snapshot);
}

Result<void> Indexer::ForEach(std::string_view ns, const ObjectKey& after,
                              const Store::ObjectVisitor& visit, const View& view) const {
  return store_->Scan(collection_.id, ns, after, visit, view.snapshot);
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

Result<void> Indexer::ForEachIndexed(std::string_view index, std::string_view value,
                                     const Store::IndexVisitor& visit, const View& view) const {
  LARDER_ASSIGN_OR_RETURN(const LivePtr live, Find(index));
  if (!live->ready) {
    return MakeError(ErrorCode::kNotReady,
                     "index {} on {} is still being built ({} objects so far)", index,
                     collection_.spec.ToString(), live->scanned.load());
  }
  return store_->ScanIndex(collection_.id, live->id, value, visit, view.snapshot);
}

Result<std::vector<ObjectPtr>> Indexer::ByIndex(std::string_view index, std::string_view value,
                                                WhenNotReady when_not_ready) const {
  LARDER_ASSIGN_OR_RETURN(const LivePtr live, Find(index));
  const View view = TakeView();
  std::vector<ObjectPtr> out;
  if (!live->ready && when_not_ready == WhenNotReady::kScan) {
    LARDER_RETURN_IF_ERROR(ForEach(
        {}, {},
        [&](const ObjectPtr& object) {
          const auto values = live->definition.Values(*object);
          if (std::binary_search(values.begin(), values.end(), value)) out.push_back(object);
          return true;
        },
        view));
    return out;
  }
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(ForEachIndexed(
      index, value,
      [&](const IndexEntry& entry) {
        auto object = GetByKey(entry.key, view);
        if (!object) {
          // An index key without its object cannot be, in one snapshot: say so instead of hiding
          // it.
          outcome =
              object.error().code == ErrorCode::kNotFound
                  ? MakeError(ErrorCode::kCorruption, "index {} names {}, which is not stored",
                              index, entry.key.ToString())
                  : tl::unexpected(object.error());
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
  LARDER_ASSIGN_OR_RETURN(const LivePtr live, Find(index));
  std::vector<ObjectKey> out;
  if (!live->ready && when_not_ready == WhenNotReady::kScan) {
    LARDER_ASSIGN_OR_RETURN(const auto objects, ByIndex(index, value, when_not_ready));
    for (const ObjectPtr& object : objects) out.push_back(object->key());
    return out;
  }
  LARDER_RETURN_IF_ERROR(ForEachIndexed(
      index, value,
      [&](const IndexEntry& entry) {
        out.push_back(entry.key);
        return true;
      },
      TakeView()));
  return out;
}

Result<std::vector<ObjectPtr>> Indexer::Index(std::string_view index, const Object& like) const {
  LARDER_ASSIGN_OR_RETURN(const LivePtr live, Find(index));
  std::vector<ObjectPtr> out;
  for (const std::string& value : live->definition.Values(like)) {
    LARDER_ASSIGN_OR_RETURN(auto objects, ByIndex(index, value));
    out.insert(out.end(), objects.begin(), objects.end());
  }
  // An object with two of the values comes once.
  std::sort(out.begin(), out.end(),
            [](const ObjectPtr& a, const ObjectPtr& b) { return a->key() < b->key(); });
  out.erase(
      std::unique(out.begin(), out.end(),
                  [](const ObjectPtr& a, const ObjectPtr& b) { return a->key() == b->key(); }),
      out.end());
  return out;
}

Result<std::vector<std::string>> Indexer::ListIndexFuncValues(std::string_view index) const {
  LARDER_ASSIGN_OR_RETURN(const LivePtr live, Find(index));
  if (!live->ready) {
    return MakeError(ErrorCode::kNotReady, "index {} on {} is still being built", index,
                     collection_.spec.ToString());
  }
  std::vector<std::string> out;
  LARDER_RETURN_IF_ERROR(
      store_->ScanIndex(collection_.id, live->id, std::nullopt, [&](const IndexEntry& entry) {
        if (out.empty() || out.back() != entry.value) out.push_back(entry.value);
        return true;
      }));
  return out;
}

std::vector<Indexer::BuildProgress> Indexer::Progress() const {
  std::vector<BuildProgress> out;
  for (const LivePtr& live : AllLive()) {
    out.push_back({live->definition.name(), live->ready.load(), live->scanned.load()});
  }
  return out;
}

bool Indexer::WaitUntilReady(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(build_mutex_);
  return build_wake_.wait_for(lock, timeout, [this] {
    const auto all = AllLive();
    return std::all_of(all.begin(), all.end(),
                       [](const LivePtr& live) { return live->ready.load(); });
  });
}

void Indexer::BuildLoop(const std::stop_token& stop) {
  for (;;) {
    LivePtr next;
    {
      std::unique_lock lock(build_mutex_);
      build_wake_.wait(lock, stop, [&] {
        for (const LivePtr& live : AllLive()) {
          if (!live->ready) next = live;
        }
        return next != nullptr;
      });
    }
    if (stop.stop_requested()) return;
    if (auto built = Build(next, stop); !built && !stop.stop_requested()) {
      spdlog::error("building index {} on {}: {}; trying again", next->definition.name(),
                    collection_.spec.ToString(), built.error().ToString());
      store_->options().clock->SleepFor(std::chrono::seconds(1), stop);
    }
    std::lock_guard lock(build_mutex_);
    build_wake_.notify_all();
  }
}

Result<void> Indexer::Build(const LivePtr& index, const std::stop_token& stop) {
  ObjectKey after;
  size_t scanned = 0;
  for (bool more = true; more;) {
    if (stop.stop_requested()) return {};
    LARDER_ASSIGN_OR_RETURN(more, BuildChunk(*index, after, scanned));
    index->scanned.store(scanned);
  }
  Transaction transaction = store_->Begin();
  transaction.PutIndexRecord(
      collection_.id, {index->id, index->definition.name(), index->definition.definition(), true});
  LARDER_RETURN_IF_ERROR(store_->Commit(std::move(transaction), Durability::kRelaxed));
  index->ready.store(true);
  return {};
}

// Under the write lock, so that no commit changes an object between its reading here and the
// writing of its keys.
Result<bool> Indexer::BuildChunk(const Live& index, ObjectKey& after, size_t& scanned) {
  std::lock_guard write_lock(write_mutex_);
  Transaction transaction = store_->Begin();
  size_t in_chunk = 0;
  LARDER_RETURN_IF_ERROR(store_->Scan(collection_.id, {}, after, [&](const ObjectPtr& object) {
    for (const std::string& value : index.definition.Values(*object)) {
      transaction.PutIndexKey(collection_.id, index.id, value, object->key(), object->uid());
    }
    after = object->key();
    return ++in_chunk < kBuildChunk;
  }));
  scanned += in_chunk;
  if (!transaction.Empty()) {
    LARDER_RETURN_IF_ERROR(store_->Commit(std::move(transaction), Durability::kRelaxed));
  }
  return in_chunk == kBuildChunk;
}

}  // namespace larder
