#include "storage/store.h"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/process.h"
#include "storage/directory.h"
#include "storage/keys.h"
#include "storage/notes.h"
#include "storage/owner_lock.h"
#include "storage/records.h"
#include "storage/store_impl.h"
#include "storage/testing.h"
#include "storage/transaction_rep.h"

namespace larder {
namespace {

// For what must not reach the disk, beside the store's own memory_limit: one part of so many.
constexpr size_t kKeeperShare = 8;

bool IsAboutAMissingFile(const Error& error) {
  return error.message.find(std::strerror(ENOENT)) != std::string::npos;
}

int64_t ToMilliseconds(Clock::Wall time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

}  // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->StartThreads([this] {
    if (auto dropped = CollectGarbage(); !dropped) {
      spdlog::warn("collecting unused collections: {}", dropped.error().ToString());
    }
  });
}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  return OpenOn(options, nullptr);
}

Result<std::unique_ptr<Store>> Store::OpenOn(const StoreOptions& options, rocksdb::Env* env) {
  auto impl = std::make_unique<Impl>(options, Database::Mode::kOwner, env);
  LARDER_RETURN_IF_ERROR(impl->Open());
  std::unique_ptr<Store> store(new Store(std::move(impl)));
  return store;
}

Result<std::unique_ptr<Store>> OpenStoreOnEnv(const StoreOptions& options, rocksdb::Env* env) {
  return Store::OpenOn(options, env);
}

Result<std::unique_ptr<Store>> Store::OpenReadOnly(const StoreOptions& options, Reading reading) {
  using Mode = Database::Mode;
  const auto open = [&](Mode mode) -> Result<std::unique_ptr<Store>> {
    auto impl = std::make_unique<Impl>(options, mode, nullptr);
    LARDER_RETURN_IF_ERROR(impl->Open());
    return std::unique_ptr<Store>(new Store(std::move(impl)));
  };
  // RocksDB's secondary takes files that are missing for ones that the owner has replaced.
  if (LockOwner(options.path) == 0) {
    auto store = open(Mode::kFrozen);
    bool owned = !store && LockOwner(options.path) != 0;
    // An owner in another container cannot be told. Where it replaces files while they are opened,
    // another one is missing the next time; one that is lost stays the same.
    if (!store && !owned && IsAboutAMissingFile(store.error())) {
      const std::string missing = store.error().message;
      store = open(Mode::kFrozen);
      owned = !store && IsAboutAMissingFile(store.error()) && store.error().message != missing;
    }
    if (!owned && (!store || reading == Reading::kOnce)) return store;
  }
  return open(Mode::kReader);
}

const StoreOptions& Store::options() const { return impl_->options; }

Result<void> Store::CatchUp() {
  if (impl_->writable()) return {};
  return impl_->CatchUp();
}

Result<void> Store::Health() const { return impl_->Health(); }

Result<Store*> Store::KeeperOf(const Resource& resource) {
  if (!impl_->Encrypted(resource.ToString()) || impl_->cipher() || options().in_memory) return this;
  MutexLock lock(impl_->keeper_mutex);
  if (!impl_->keeper) {
    StoreOptions memory = options();
    memory.path += " (in memory)";
    memory.in_memory = true;
    memory.disk_limit = 0;
    memory.memory_limit /= kKeeperShare;
    LARDER_ASSIGN_OR_RETURN(impl_->keeper, Open(memory));
  }
  return impl_->keeper.get();
}

Error Store::NoteDamage(Error error) const { return impl_->Noted(std::move(error)); }

Result<CollectionInfo> Store::OpenCollection(const CollectionSpec& spec, bool encrypt) {
  MutexLock lock(impl_->collections_write_mutex);
  const std::string resource = spec.resource.ToString();
  const std::string fingerprint = spec.Fingerprint();
  LARDER_ASSIGN_OR_RETURN(const auto stored_id,
                          impl_->GetMeta(records::FingerprintKey(fingerprint)));
  CollectionInfo info;
  info.spec = spec;
  info.last_opened_ms = ToMilliseconds(options().clock->WallNow());
  if (stored_id) std::from_chars(stored_id->data(), stored_id->data() + stored_id->size(), info.id);
  const auto known = impl_->FindCollection(info.id);
  info.encrypted = encrypt || impl_->Encrypted(resource) || (known && known->encrypted);
  if (info.encrypted && !impl_->cipher()) {
    if (!options().in_memory) {
      return MakeError(
          ErrorCode::kForbidden,
          "{} reach the disk only encrypted: set encryption_key_file, or keep them in memory",
          resource);
    }
    LeaveNoCoreDump();  // that would put them on the disk after all
  }
  Transaction transaction = Begin();
  if (stored_id) {
    LARDER_ASSIGN_OR_RETURN(info.cursor, GetCursor(info.id));
    if (info.encrypted) LARDER_RETURN_IF_ERROR(impl_->CheckKeyFits(info.id));
  } else {
    LARDER_ASSIGN_OR_RETURN(const auto next, impl_->GetMeta(records::kNextIdKey));
    info.id = 1;
    if (next) std::from_chars(next->data(), next->data() + next->size(), info.id);
    transaction.rep_->Put(Family::kMeta, records::kNextIdKey, std::to_string(info.id + 1));
    transaction.rep_->Put(Family::kMeta, records::FingerprintKey(fingerprint),
                          std::to_string(info.id));
  }
  transaction.rep_->Put(Family::kMeta, records::CollectionKey(info.id),
                        records::EncodeCollection(info));
  LARDER_RETURN_IF_ERROR(Commit(std::move(transaction), Durability::kRelaxed));
  impl_->Remember(info);
  impl_->MarkOpened(info.id);
  return info;
}

Result<std::vector<CollectionInfo>> Store::Collections() const {
  std::vector<CollectionInfo> out;
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(impl_->ScanRows(
      Family::kMeta, std::string(records::kCollectionPrefix), {},
      [&](std::string_view, std::string_view value) {
        auto info = records::DecodeCollection(value);
        if (info) {
          if (auto cursor = GetCursor(info->id)) {
            info->cursor = *std::move(cursor);
          } else {
            outcome = tl::unexpected(cursor.error());
          }
          out.push_back(*std::move(info));
        } else {
          outcome = tl::unexpected(info.error());
        }
        return outcome.has_value();
      },
      nullptr, /*fill_cache=*/true));
  if (!outcome) return tl::unexpected(impl_->Noted(std::move(outcome).error()));
  return out;
}

Result<Cursor> Store::GetCursor(CollectionId collection) const {
  LARDER_ASSIGN_OR_RETURN(const auto text, impl_->GetMeta(records::CursorKey(collection)));
  if (!text) return Cursor{};
  return impl_->Noted(records::DecodeCursor(*text));
}

namespace {

Result<void> Drop(Store::Impl& impl, CollectionId collection)
    LARDER_REQUIRES(impl.collections_write_mutex) {
  LARDER_ASSIGN_OR_RETURN(const auto text, impl.GetMeta(records::CollectionKey(collection)));
  if (!text) return MakeError(ErrorCode::kNotFound, "no collection {}", collection);
  LARDER_ASSIGN_OR_RETURN(const CollectionInfo info, records::DecodeCollection(*text));
  Transaction::Rep rep(impl.families());
  const std::string prefix = keys::CollectionPrefix(collection);
  rep.Delete(Family::kMeta, records::CollectionKey(collection));
  rep.Delete(Family::kMeta, records::FingerprintKey(info.spec.Fingerprint()));
  rep.Delete(Family::kMeta, records::CursorKey(collection));
  const std::string indexes = records::IndexKeyPrefix(collection);
  rep.DeleteRange(Family::kMeta, indexes, keys::PrefixEnd(indexes));
  for (const std::string& note : {DurableNamesNote(collection), SizeNote(collection)}) {
    rep.Delete(Family::kMeta, records::NoteKey(note));
  }
  const std::string unused = records::NoteKey(UnusedIndexNotes(collection));
  rep.DeleteRange(Family::kMeta, unused, keys::PrefixEnd(unused));
  for (const Family family : {Family::kObjects, Family::kIndexes, Family::kDeltas}) {
    rep.DeleteRange(family, prefix, keys::PrefixEnd(prefix));
  }
  LARDER_RETURN_IF_ERROR(impl.Commit(rep, Durability::kRelaxed));
  impl.Forget(collection);
  return {};
}

}  // namespace

Result<void> Store::DropCollection(CollectionId collection) {
  MutexLock lock(impl_->collections_write_mutex);
  return Drop(*impl_, collection);
}

Result<size_t> Store::CollectGarbage() {
  if (options().collection_ttl.count() == 0) return size_t{0};
  LARDER_ASSIGN_OR_RETURN(const auto collections, Collections());
  const int64_t now = ToMilliseconds(options().clock->WallNow());
  const int64_t ttl = std::chrono::milliseconds(options().collection_ttl).count();
  size_t dropped = 0;
  for (const CollectionInfo& info : collections) {
    if (now - std::max(info.last_opened_ms, info.cursor.updated_ms) < ttl) continue;
    {
      // Somebody may be about to open it: then either that comes first, or it is made anew.
      MutexLock lock(impl_->collections_write_mutex);
      if (impl_->IsOpened(info.id)) continue;
      spdlog::info("dropping collection {} ({}): not used for {}s", info.id, info.spec.ToString(),
                   options().collection_ttl.count());
      const auto outcome = Drop(*impl_, info.id);
      if (!outcome && outcome.error().code == ErrorCode::kNotFound) continue;  // by somebody else
      LARDER_RETURN_IF_ERROR(outcome);
    }
    impl_->ReclaimSpace(info.id);
    ++dropped;
  }
  return dropped;
}

Transaction Store::Begin() const {
  return Transaction(std::make_unique<Transaction::Rep>(impl_->families()));
}

bool Store::Began(const Transaction& transaction) const {
  return transaction.rep_->families == impl_->families();
}

Result<void> Store::Commit(Transaction transaction, Durability durability) {
  return impl_->Commit(*transaction.rep_, durability);
}

void Store::StartFlush() { impl_->StartFlush(); }

Result<void> Store::Sync() { return impl_->Sync(); }

Result<EncodedObject> Store::Encode(CollectionId collection, const Object& object) const {
  const auto known = impl_->FindCollection(collection);
  EncodeOptions encode;
  if (!known || !impl_->EncodingOf(*known, encode)) {
    return MakeError(ErrorCode::kNotFound, "no collection {} in the store {}", collection,
                     options().path);
  }
  EncodedObject encoded;
  encoded.key = object.key();
  thread_local ObjectParts parts;
  if (parts.raw.capacity() > kKeptBufferBytes) std::string().swap(parts.raw);
  TakeApart(object, parts);
  LARDER_ASSIGN_OR_RETURN(EncodedValue value,
                          EncodeValue(keys::Object(collection, encoded.key), parts, encode));
  encoded.value = std::move(value.value);
  if (known->page) {
    impl_->dictionaries().Observe(*known->page, collection, encoded.key, parts.raw.size(),
                                  value.payload_bytes);
  }
  return encoded;
}

Result<ObjectPtr> Store::Decode(CollectionId collection, const ObjectKey& key,
                                std::string_view value) const {
  return impl_->Noted(DecodeValue(keys::Object(collection, key), value, impl_->decode_options()));
}

void Store::WaitForDictionaries() { impl_->dictionaries().WaitIdle(); }

SnapshotPtr Store::TakeSnapshot() const {
  return std::make_shared<const Snapshot>(impl_->database());
}

namespace {

// Gets one row and hands its bytes to `use` before they are released.
template <typename Use>
auto GetRow(const Store::Impl& impl, Family family, const std::string& key,
            const SnapshotPtr& snapshot, const Use& use) -> decltype(use(std::string_view())) {
  const auto reader = impl.MakeReader(snapshot);
  if (!reader.database) return tl::unexpected(impl.Unavailable());
  rocksdb::PinnableSlice value;
  const rocksdb::Status status =
      (*reader.database)->Get(reader.options, reader.database->family(family), key, &value);
  if (impl.recorder().active()) impl.recorder().Get(family, key);
  if (status.IsNotFound()) return MakeError(ErrorCode::kNotFound, "no row {}", key);
  if (!status.ok()) {
    return tl::unexpected(impl.Noted(FromRocks(status, fmt::format("reading row {}", key))));
  }
  auto result = use(std::string_view(value.data(), value.size()));
  if (!result && result.error().code == ErrorCode::kCorruption) {
    result = tl::unexpected(impl.Noted(impl.WithFiles(std::move(result).error(), family, key)));
  }
  return result;
}

// What the rows of a scan begin with, and behind which it starts (empty: at the first).
std::pair<std::string, std::string> ObjectRange(CollectionId collection, std::string_view ns,
                                                const ObjectKey& after) {
  std::string prefix =
      ns.empty() ? keys::CollectionPrefix(collection) : keys::NamespacePrefix(collection, ns);
  std::string start = after.name.empty() ? std::string() : keys::Object(collection, after);
  if (start < prefix) start.clear();
  return {std::move(prefix), std::move(start)};
}

}  // namespace

Result<EncodedObject> Store::EncodeFrom(CollectionId collection, const Object& object,
                                        const Object& stored) const {
  EncodeOptions encode;
  const bool same = &object == &stored;
  if (!impl_->EncodingOf(collection, encode) || !(same || DifferOnlyInVersion(object, stored))) {
    return Encode(collection, object);
  }
  const ObjectKey key = object.key();
  const std::string row = keys::Object(collection, key);
  // What stands there may be another version, or be in the clear or under a key that is to go.
  const auto reuse = [&](std::string_view value) -> Result<std::optional<std::string>> {
    LARDER_ASSIGN_OR_RETURN(const ValueHead head, DecodeHead(row, value, encode.cipher));
    if (head.head.uid != stored.uid() || head.head.resource_version != stored.resource_version() ||
        !head.current_key || head.encrypted != (encode.cipher != nullptr)) {
      return std::nullopt;
    }
    if (same) return std::string(value);
    return ReplaceHead(row, value,
                       {std::string(object.uid()), std::string(object.resource_version())});
  };
  auto value = GetRow(*impl_, Family::kObjects, row, nullptr, reuse);
  // Where the row cannot be read, this need not fail: the object is at hand.
  if (!value || !*value) return Encode(collection, object);
  return EncodedObject{key, **std::move(value)};
}

Result<ObjectPtr> Store::Get(CollectionId collection, const ObjectKey& key,
                             const SnapshotPtr& snapshot) const {
  const std::string row = keys::Object(collection, key);
  return GetRow(*impl_, Family::kObjects, row, snapshot, [&](std::string_view value) {
    return DecodeValue(row, value, impl_->decode_options());
  });
}

Result<ObjectHead> Store::GetHead(CollectionId collection, const ObjectKey& key,
                                  const SnapshotPtr& snapshot) const {
  const std::string row = keys::Object(collection, key);
  return GetRow(*impl_, Family::kObjects, row, snapshot,
                [&](std::string_view value) -> Result<ObjectHead> {
                  LARDER_ASSIGN_OR_RETURN(ValueHead head, DecodeHead(row, value, nullptr));
                  return std::move(head.head);
                });
}

Result<void> Store::Scan(CollectionId collection, std::string_view ns, const ObjectKey& after,
                         const ObjectVisitor& visit, const SnapshotPtr& snapshot,
                         const KnownObject& known) const {
  const auto [prefix, start] = ObjectRange(collection, ns, after);
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(impl_->ScanRows(
      Family::kObjects, prefix, start,
      [&](std::string_view key, std::string_view value) {
        if (known) {
          const auto parsed = keys::ParseObject(key);
          const ObjectPtr object = parsed ? known(*parsed) : nullptr;
          if (object) return visit(object);
        }
        auto object = DecodeValue(key, value, impl_->decode_options());
        if (!object) {
          outcome =
              tl::unexpected(impl_->WithFiles(std::move(object).error(), Family::kObjects, key));
          return false;
        }
        return visit(*object);
      },
      snapshot, /*fill_cache=*/false));
  return impl_->Noted(std::move(outcome));
}

Result<void> Store::ScanHeads(CollectionId collection, std::string_view ns,
                              const HeadVisitor& visit, const SnapshotPtr& snapshot,
                              const ObjectKey& after) const {
  const auto [prefix, start] = ObjectRange(collection, ns, after);
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(impl_->ScanRows(
      Family::kObjects, prefix, start,
      [&](std::string_view row, std::string_view value) {
        auto key = keys::ParseObject(row);
        auto head = DecodeHead(row, value, nullptr);
        if (!key || !head) {
          outcome = tl::unexpected(!key ? key.error() : head.error());
          return false;
        }
        return visit(*key, head->head);
      },
      snapshot, /*fill_cache=*/false));
  return impl_->Noted(std::move(outcome));
}

Result<void> Store::ScanIndex(CollectionId collection, IndexId index,
                              std::optional<std::string_view> value, const IndexVisitor& visit,
                              const SnapshotPtr& snapshot, const IndexRange& range) const {
  std::string prefix = keys::IndexPrefix(collection, index);
  std::string start;
  if (value) {
    prefix = keys::IndexValuePrefix(collection, index, *value);
    if (!range.after.name.empty()) start = keys::Index(collection, index, *value, range.after);
    if (!range.ns.empty()) prefix += range.ns + "/";
    if (start < prefix) start.clear();
  }
  Result<void> outcome;
  IndexEntry entry;
  LARDER_RETURN_IF_ERROR(impl_->ScanRows(
      Family::kIndexes, prefix, start,
      [&](std::string_view key, std::string_view uid) {
        outcome = keys::ParseIndex(key, entry);
        if (!outcome) return false;
        entry.uid = uid;
        return visit(entry);
      },
      snapshot, /*fill_cache=*/true));
  return impl_->Noted(std::move(outcome));
}

Result<std::optional<std::string>> Store::GetDelta(CollectionId collection,
                                                   std::string_view handler,
                                                   const ObjectKey& key) const {
  const auto row =
      GetRow(*impl_, Family::kDeltas, keys::Delta(collection, handler, key), nullptr,
             [](std::string_view value) -> Result<std::string> { return std::string(value); });
  if (row) return std::optional<std::string>(*row);
  if (row.error().code == ErrorCode::kNotFound) return std::optional<std::string>();
  return tl::unexpected(row.error());
}

Result<std::string> Store::IndexToken(CollectionId collection, std::string_view value) const {
  const auto known = impl_->FindCollection(collection);
  // Whether it may be shown nobody knows.
  if (!known) return MakeError(ErrorCode::kNotFound, "there is no collection {}", collection);
  if (!known->encrypted) return std::string(value);
  if (impl_->cipher()) return impl_->cipher()->Blind(value);
  if (options().in_memory) return std::string(value);
  return MakeError(ErrorCode::kForbidden,
                   "indexes over {} hold keyed hashes: set encryption_key_file to look into them",
                   known->resource);
}

std::string Store::IndexKeyName(CollectionId collection) const {
  const auto known = impl_->FindCollection(collection);
  if (!known || !known->encrypted || !impl_->cipher()) return {};
  return impl_->cipher()->KeyName();
}

Result<std::vector<IndexRecord>> Store::IndexRecords(CollectionId collection) const {
  std::vector<IndexRecord> out;
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(impl_->ScanRows(
      Family::kMeta, records::IndexKeyPrefix(collection), {},
      [&](std::string_view, std::string_view value) {
        auto record = records::DecodeIndex(value);
        if (!record) {
          outcome = tl::unexpected(std::move(record).error());
          return false;
        }
        out.push_back(*std::move(record));
        return true;
      },
      nullptr, /*fill_cache=*/true));
  if (!outcome) return tl::unexpected(impl_->Noted(std::move(outcome).error()));
  return out;
}

Result<void> Store::DropIndex(CollectionId collection, IndexId index) {
  Transaction transaction = Begin();
  transaction.DropIndex(collection, index);
  return Commit(std::move(transaction), Durability::kRelaxed);
}

}  // namespace larder
