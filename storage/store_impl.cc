#include "storage/store_impl.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/process.h"
#include "storage/keys.h"
#include "storage/records.h"
#include "storage/snapshots.h"

namespace larder {
namespace {

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }

// With what the engine's [Larder] section says, and with the options that were left in the store's
// directory where the caller has none. A file that this version does not understand must not keep a
// controller from starting: it is reported and left alone.
StoreOptions Effective(StoreOptions options) {
  if (options.engine.Empty() && !options.engine.rocksdb_defaults && !options.in_memory) {
    const std::string path = AppliedOptionsPath(options.path);
    std::error_code error;
    if (std::filesystem::exists(path, error)) {
      auto applied = EngineOptions::Load(path);
      if (applied) {
        options.engine = *std::move(applied);
      } else {
        spdlog::error("{}; the store is opened without these options", applied.error().message);
      }
    }
  }
  const EngineOptions& engine = options.engine;
  options.compression = engine.LarderFlag("value_compression", options.compression);
  options.value_compression_level = static_cast<int>(engine.LarderNumber(
      "value_compression_level", static_cast<uint64_t>(options.value_compression_level)));
  options.dictionary_bytes = engine.LarderNumber("dictionary_bytes", options.dictionary_bytes);
  options.max_log_bytes = engine.LarderNumber("max_log_bytes", options.max_log_bytes);
  options.memtable_percent =
      static_cast<unsigned>(engine.LarderNumber("memtable_percent", options.memtable_percent));
  options.sync_interval =
      std::max(kLeastSyncInterval,
               std::chrono::milliseconds(engine.LarderNumber(
                   "sync_interval_ms", static_cast<uint64_t>(options.sync_interval.count()))));
  return options;
}

}  // namespace

Store::Impl::Impl(StoreOptions options_in, Database::Mode mode, rocksdb::Env* env)
    : options(Effective(std::move(options_in))),
      mode_(mode),
      env_(env),
      damage_(std::make_shared<Damage>(options.path, writable(), options.clock)),
      engine_(options.engine),
      dictionaries_({
          .save = [this](const std::string& resource,
                         const Dictionary& dictionary) -> Result<void> {
            // Synced before any value may name it.
            Transaction::Rep rep(&families_);
            rep.Put(Family::kMeta, records::DictionaryKey(dictionary.id(), resource),
                    dictionary.Serialize());
            return Commit(rep, Durability::kSync);
          },
          .load = [this](CollectionId collection, const ObjectKey& key) -> Result<ObjectParts> {
            const std::string row = keys::Object(collection, key);
            const auto db = database();
            if (!db) return MakeError(ErrorCode::kNotReady, "the store is not open");
            rocksdb::PinnableSlice value;
            rocksdb::ReadOptions read;
            read.fill_cache = false;
            if (!(*db)->Get(read, db->family(Family::kObjects), row, &value).ok()) {
              return MakeError(ErrorCode::kNotFound, "no row {}", row);
            }
            // Also one of a collection that is not known to be encrypted: a dictionary is made of
            // pieces of objects and stored in the clear.
            LARDER_ASSIGN_OR_RETURN(const ValueHead head, DecodeHead(row, ToView(value), nullptr));
            if (head.encrypted) return MakeError(ErrorCode::kForbidden, "{} is encrypted", row);
            ObjectParts parts;
            LARDER_RETURN_IF_ERROR(DecodeParts(row, ToView(value), decode_options(), parts));
            return parts;
          },
          .clock = options.clock,
          .dictionary_bytes = options.dictionary_bytes,
          .level = options.value_compression_level,
      }),
      recompress_(this) {}

Store::Impl::~Impl() {
  for (std::jthread* thread : {&janitor_, &syncer_}) {
    thread->request_stop();
    if (thread->joinable()) thread->join();
  }
  dictionaries_.Stop();
  mailbox_.Close(*this);
  // A clean close leaves nothing to a later sync.
  // After a failed write there is nothing to sync: RocksDB refuses, and a build with assertions
  // aborts.
  if (database_ && writable() && unsynced_.load() && !failed_.load()) (void)Sync();
}

Result<void> Store::Impl::Open() {
  LARDER_RETURN_IF_ERROR(LoadCipher());
  LARDER_RETURN_IF_ERROR(OpenDatabase());
  LARDER_RETURN_IF_ERROR(CheckFormat());
  return Reload();
}

void Store::Impl::StartThreads(std::function<void()> collect_garbage) {
  if (!writable()) return;
  syncer_ = std::jthread([this](const std::stop_token& stop) { SyncLoop(stop); });
  janitor_ = std::jthread([this, collect_garbage = std::move(collect_garbage)](
                              const std::stop_token& stop) { JanitorLoop(stop, collect_garbage); });
}

Result<void> Store::Impl::LoadCipher() {
  if (!options.encryption_key_file.empty()) {
    LARDER_ASSIGN_OR_RETURN(cipher_, Cipher::FromFile(options.encryption_key_file));
  } else if (!options.encryption_key_variable.empty()) {
    LARDER_ASSIGN_OR_RETURN(cipher_, Cipher::FromEnvironment(options.encryption_key_variable));
  }
  // A core dump would put the key and the decrypted objects on the disk.
  if (cipher_) LeaveNoCoreDump();
  return {};
}

Result<void> Store::Impl::CheckKeyFits(CollectionId collection) const {
  Result<void> fits;
  LARDER_RETURN_IF_ERROR(ScanRows(
      Family::kObjects, keys::CollectionPrefix(collection), {},
      [&](std::string_view key, std::string_view value) {
        const auto object = DecodeValue(key, value, decode_options());
        if (!object && object.error().code == ErrorCode::kForbidden) {
          fits = MakeError(ErrorCode::kForbidden,
                           "store {} was written with another key ({}); put that one behind the "
                           "new one in the file of keys, or start with an empty store",
                           options.path, object.error().message);
        }
        return false;
      },
      nullptr, /*fill_cache=*/false));
  return fits;
}

Result<void> Store::Impl::OpenDatabase() {
  LARDER_ASSIGN_OR_RETURN(auto database,
                          Database::Open(options, mode_, env_, &recompress_, damage_, owner_lock_));
  families_.Learn(*database);
  if (writable() && !options.in_memory) SweepLeftovers(options.path);
  WriterLock lock(open_mutex_);
  database_ = std::move(database);
  return {};
}

Result<void> Store::Impl::CatchUp() {
  LARDER_ASSIGN_OR_RETURN(const bool followed, database()->CatchUp());
  if (!followed) LARDER_RETURN_IF_ERROR(OpenDatabase());
  return Reload();
}

Result<void> Store::Impl::CheckFormat() {
  LARDER_ASSIGN_OR_RETURN(const auto stored, GetMeta(kFormatKey));
  if (!stored) {
    if (!writable()) {
      return MakeError(ErrorCode::kNotReady, "store {} is still being made", options.path);
    }
    return WriteFormat();
  }
  int format = 0;
  std::from_chars(stored->data(), stored->data() + stored->size(), format);
  if (format > kFormat) return NewerFormat(options.path, *stored);
  if (format < 1) {
    return MakeError(ErrorCode::kCorruption, "store {} has the unreadable format \"{}\"",
                     options.path, keys::EscapePart(*stored));
  }
  if (format == kFormat || !writable()) return {};
  // From 1 to 2 no row changes: one of format 1 has no mark, and that is what it would say. The
  // number keeps out a larder that does not know the mark and would leave it in rows that it hands
  // out.
  spdlog::info("store {}: format {} becomes format {}", options.path, format, kFormat);
  return WriteFormat();
}

Result<void> Store::Impl::WriteFormat() {
  Transaction::Rep rep(&families_);
  rep.Put(Family::kMeta, kFormatKey, std::to_string(kFormat));
  return Commit(rep, Durability::kSync);
}

Result<void> Store::Impl::Reload() {
  LARDER_RETURN_IF_ERROR(LoadDictionaries());
  return LoadCollections();
}

Result<void> Store::Impl::LoadDictionaries() {
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(ScanRows(
      Family::kMeta, std::string(records::kDictionaryPrefix), {},
      [&](std::string_view key, std::string_view value) {
        const auto name = records::ParseDictionaryKey(key);
        if (!name) {
          outcome = tl::unexpected(name.error());
          return false;
        }
        // A number alone says nothing: where another process owns the store, it may have given that
        // of a dropped dictionary to a new one, or an older store may have been put in its place.
        const DictionaryPtr known = dictionaries_.Find(name->id);
        if (known && known->Serialize() == value) return true;
        auto dictionary = Dictionary::Parse(name->id, value);
        if (!dictionary) {
          outcome = tl::unexpected(dictionary.error());
          return false;
        }
        dictionaries_.Add(name->resource, *std::move(dictionary));
        return true;
      },
      nullptr, /*fill_cache=*/false));
  return outcome;
}

Result<void> Store::Impl::LoadCollections() {
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(ScanRows(
      Family::kMeta, std::string(records::kCollectionPrefix), {},
      [&](std::string_view, std::string_view value) {
        auto info = records::DecodeCollection(value);
        if (!info) {
          outcome = tl::unexpected(info.error());
          return false;
        }
        Remember(*info);
        return true;
      },
      nullptr, /*fill_cache=*/true));
  return outcome;
}

std::shared_ptr<const Store::Impl::Collection> Store::Impl::FindCollection(
    CollectionId collection) const {
  ReaderLock lock(collections_mutex_);
  const auto it = collections_.find(collection);
  if (it == collections_.end()) return nullptr;
  return it->second;
}

bool Store::Impl::Encrypted(const std::string& resource) const {
  return std::find(options.encrypted_resources.begin(), options.encrypted_resources.end(),
                   resource) != options.encrypted_resources.end();
}

void Store::Impl::Remember(const CollectionInfo& info) {
  Collection collection;
  collection.resource = info.spec.resource.ToString();
  collection.fingerprint = info.spec.Fingerprint();
  // A command that compacts or reads the store of a program does not know the program's list.
  collection.encrypted = info.encrypted || Encrypted(collection.resource);
  // No dictionary for what is encrypted: see `load` above.
  if (options.compression && options.dictionary_bytes != 0 && !collection.encrypted) {
    collection.page = dictionaries_.PageOf(collection.resource);
  }
  WriterLock lock(collections_mutex_);
  collections_[info.id] = std::make_shared<const Collection>(std::move(collection));
}

void Store::Impl::Forget(CollectionId collection) {
  WriterLock lock(collections_mutex_);
  collections_.erase(collection);
  opened_.erase(collection);
}

void Store::Impl::MarkOpened(CollectionId collection) {
  WriterLock lock(collections_mutex_);
  opened_.insert(collection);
}

bool Store::Impl::IsOpened(CollectionId collection) const {
  ReaderLock lock(collections_mutex_);
  return opened_.count(collection) != 0;
}

bool Store::Impl::EncodingOf(CollectionId collection, EncodeOptions& encode) const {
  const auto known = FindCollection(collection);
  return known && EncodingOf(*known, encode);
}

bool Store::Impl::EncodingOf(const Collection& collection, EncodeOptions& encode) const {
  if (collection.encrypted && !cipher_ && !options.in_memory) return false;
  encode.compress = options.compression;
  encode.level = options.value_compression_level;
  encode.dictionary = collection.page ? dictionaries_.Current(*collection.page) : nullptr;
  encode.cipher = collection.encrypted ? cipher() : nullptr;
  return true;
}

void Store::Impl::BeginDrop(const std::vector<DictionaryId>& ids) {
  {
    MutexLock lock(dictionary_mutex_);
    dropping_ = {ids.begin(), ids.end()};
  }
  // A commit that looked before may not be written yet.
  WriterLock written(naming_mutex_);
}

Result<std::vector<DictionaryId>> Store::Impl::EndDrop(const std::set<DictionaryId>& in_use) {
  MutexLock lock(dictionary_mutex_);
  std::vector<DictionaryId> out;
  Transaction::Rep rep(&families_);
  for (const auto& [resource, dictionary] : dictionaries_.All()) {
    const DictionaryId id = dictionary->id();
    if (dropping_.count(id) == 0 || in_use.count(id) != 0) continue;
    rep.Delete(Family::kMeta, records::DictionaryKey(id, resource));
    out.push_back(id);
  }
  dropping_.clear();
  if (out.empty()) return out;
  LARDER_RETURN_IF_ERROR(Commit(rep, Durability::kRelaxed));
  for (const DictionaryId id : out) dictionaries_.SetDropped(id, true);
  return out;
}

std::vector<DictionaryId> Store::Impl::KeepDictionaries(Transaction::Rep& rep) {
  MutexLock lock(dictionary_mutex_);
  std::vector<DictionaryId> back;
  for (const DictionaryId id : rep.dictionaries) {
    dropping_.erase(id);
    const auto dropped = dictionaries_.Dropped(id);
    if (!dropped) continue;
    const auto& [resource, dictionary] = *dropped;
    rep.Put(Family::kMeta, records::DictionaryKey(id, resource), dictionary->Serialize());
    back.push_back(id);
  }
  return back;
}

Result<void> Store::Impl::Commit(Transaction::Rep& rep, Durability durability) {
  if (!writable()) {
    return MakeError(ErrorCode::kUnsupported, "store {} is open for reading only", options.path);
  }
  if (::getpid() != owner_) {
    return MakeError(ErrorCode::kLocked,
                     "store {} is owned by the process with pid {}, of which this one is a fork",
                     options.path, owner_);
  }
  LARDER_RETURN_IF_ERROR(CheckBudget(rep));
  RememberBackgroundFailure();
  if (failed_.load()) LARDER_RETURN_IF_ERROR(Recover());
  if (rep.dictionaries.empty()) return Write(rep, durability);
  ReaderLock naming(naming_mutex_);
  const std::vector<DictionaryId> back = KeepDictionaries(rep);
  LARDER_RETURN_IF_ERROR(Write(rep, durability));
  for (const DictionaryId id : back) dictionaries_.SetDropped(id, false);
  return {};
}

Result<void> Store::Impl::Write(Transaction::Rep& rep, Durability durability) {
  const auto db = database();
  // One that another thread has just opened for reading only would hide why.
  if (!db || db->mode() != Database::Mode::kOwner) return tl::unexpected(Unavailable());
  rocksdb::WriteOptions write;
  write.sync = durability == Durability::kSync;
  const rocksdb::Status status = (*db)->Write(write, &rep.batch);
  if (!status.ok()) {
    Error error = FromRocks(status, fmt::format("cannot write to the store {}", options.path));
    RememberFailure(error);
    return tl::unexpected(std::move(error));
  }
  if (!write.sync) unsynced_.store(true);
  if (recorder_.active()) recorder_.Commit(rep.batch.Data(), write.sync);
  return {};
}

Result<void> Store::Impl::Sync() {
  if (options.in_memory) return {};
  const auto db = database();
  RememberBackgroundFailure();
  // After a failed write RocksDB's log must not be touched again: the store is reopened first.
  if (!db || failed_.load() || db->mode() != Database::Mode::kOwner) {
    return tl::unexpected(Unavailable());
  }
  unsynced_.store(false);
  const rocksdb::Status status = (*db)->FlushWAL(/*sync=*/true);
  if (!status.ok()) {
    unsynced_.store(true);
    Error error = FromRocks(status, fmt::format("cannot sync the store {}", options.path));
    RememberFailure(error);
    return tl::unexpected(std::move(error));
  }
  return {};
}

Result<LiveChange> Store::Impl::ChangeEngine(const EngineOptions& engine) {
  const auto db = database();
  if (!db || db->mode() != Database::Mode::kOwner) {
    return MakeError(ErrorCode::kNotReady, "store {} is not open for writing", options.path);
  }
  MutexLock lock(engine_mutex_);
  return ChangeDatabaseOptions(*db, engine, engine_);
}

Store::Impl::Reader Store::Impl::MakeReader(const SnapshotPtr& snapshot) const {
  Reader reader;
  reader.database = snapshot ? snapshot->database() : database();
  if (snapshot) reader.options.snapshot = snapshot->get();
  return reader;
}

Result<std::optional<std::string>> Store::Impl::GetMeta(std::string_view key,
                                                        const SnapshotPtr& snapshot) const {
  const Reader reader = MakeReader(snapshot);
  if (!reader.database) return tl::unexpected(Unavailable());
  std::string value;
  const rocksdb::Status status =
      (*reader.database)
          ->Get(reader.options, reader.database->family(Family::kMeta), ToSlice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return tl::unexpected(Noted(FromRocks(status, fmt::format("reading {}", key))));
  return std::optional<std::string>(std::move(value));
}

Result<void> Store::Impl::ScanRows(Family family, const std::string& prefix, std::string_view after,
                                   const RowVisitor& visit, const SnapshotPtr& snapshot,
                                   bool fill_cache) const {
  Reader reader = MakeReader(snapshot);
  if (!reader.database) return tl::unexpected(Unavailable());
  const std::string end = keys::PrefixEnd(prefix);
  const rocksdb::Slice upper(end);
  reader.options.iterate_upper_bound = &upper;
  reader.options.fill_cache = fill_cache;
  std::unique_ptr<rocksdb::Iterator> it(
      (*reader.database)->NewIterator(reader.options, reader.database->family(family)));
  it->Seek(after.empty() ? rocksdb::Slice(prefix) : ToSlice(after));
  if (!after.empty() && it->Valid() && ToView(it->key()) == after) it->Next();
  uint64_t rows = 0;
  for (; it->Valid(); it->Next()) {
    ++rows;
    if (!visit(ToView(it->key()), ToView(it->value()))) break;
  }
  if (recorder_.active()) recorder_.Scan(family, prefix, rows);
  if (!it->status().ok()) {
    return tl::unexpected(Noted(
        FromRocks(it->status(), fmt::format("reading {} of the store {}", prefix, options.path))));
  }
  return {};
}

Result<bool> Store::Impl::HasRow(Family family, std::string_view key,
                                 const SnapshotPtr& snapshot) const {
  const Reader reader = MakeReader(snapshot);
  if (!reader.database) return tl::unexpected(Unavailable());
  rocksdb::PinnableSlice value;
  if (recorder_.active()) recorder_.Get(family, key);
  const rocksdb::Status status =
      (*reader.database)
          ->Get(reader.options, reader.database->family(family), ToSlice(key), &value);
  if (status.ok() || status.IsNotFound()) return status.ok();
  return tl::unexpected(Noted(FromRocks(status, fmt::format("reading row {}", key))));
}

Result<std::optional<std::string>> Store::Impl::FirstRow(Family family, std::string_view from,
                                                         const SnapshotPtr& snapshot) const {
  const Reader reader = MakeReader(snapshot);
  if (!reader.database) return tl::unexpected(Unavailable());
  const std::unique_ptr<rocksdb::Iterator> it(
      (*reader.database)->NewIterator(reader.options, reader.database->family(family)));
  it->Seek(ToSlice(from));
  if (it->Valid()) return std::optional<std::string>(it->key().ToString());
  if (!it->status().ok()) return tl::unexpected(Noted(FromRocks(it->status(), "reading keys")));
  return std::optional<std::string>();
}

Error Store::Impl::WithFiles(Error error, Family family, std::string_view key) const {
  const auto db = database();
  if (error.code != ErrorCode::kCorruption || !db) return error;
  std::vector<rocksdb::LiveFileMetaData> files;
  (*db)->GetLiveFilesMetaData(&files);
  std::string names;
  for (const rocksdb::LiveFileMetaData& file : files) {
    if (file.column_family_name == kFamilyNames[static_cast<size_t>(family)] &&
        file.smallestkey <= key && key <= file.largestkey) {
      names += (names.empty() ? "" : ", ") + file.name.substr(file.name.find_first_not_of('/'));
    }
  }
  error.message += fmt::format(" (store {}, {})", options.path,
                               names.empty() ? "not in a table yet" : "table " + names);
  return error;
}

}  // namespace larder
