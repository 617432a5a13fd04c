#include "storage/store_impl.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "storage/keys.h"
#include "storage/records.h"
#include "storage/transaction_rep.h"

namespace larder {
namespace {

constexpr int kFormat = 1;

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }
std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

}  // namespace

Store::Impl::Impl(StoreOptions options_in, Database::Mode mode, rocksdb::Env* env)
    : options(std::move(options_in)),
      mode_(mode),
      env_(env),
      dictionaries_(
          [this](const std::string& resource, const Dictionary& dictionary) -> Result<void> {
            // Synced before any value may name it.
            Transaction::Rep rep(database());
            rep.Put(Family::kMeta, records::DictionaryKey(dictionary.id(), resource),
                    dictionary.Serialize());
            return Commit(std::move(rep.batch), Durability::kSync);
          }),
      recompress_(this, &dictionaries_, nullptr) {}

Store::Impl::~Impl() {
  if (syncer_.joinable()) {
    syncer_.request_stop();
    syncer_.join();
  }
  // A clean close leaves nothing to a later sync.
  if (database_ && writable() && unsynced_.load()) (void)Sync();
}

Result<void> Store::Impl::Open() {
  if (!options.encryption_key_file.empty()) {
    LARDER_ASSIGN_OR_RETURN(Cipher cipher, Cipher::FromFile(options.encryption_key_file));
    cipher_ = std::move(cipher);
    recompress_.set_cipher(&*cipher_);
  }
  LARDER_RETURN_IF_ERROR(OpenDatabase());
  LARDER_RETURN_IF_ERROR(CheckFormat());
  LARDER_RETURN_IF_ERROR(LoadDictionaries());
  LARDER_RETURN_IF_ERROR(LoadCollections());
  if (writable()) {
    syncer_ = std::jthread([this](const std::stop_token& stop) { SyncLoop(stop); });
  }
  return {};
}

Result<void> Store::Impl::OpenDatabase() {
  LARDER_ASSIGN_OR_RETURN(auto database, Database::Open(options, mode_, env_, &recompress_));
  std::lock_guard lock(open_mutex_);
  database_ = std::move(database);
  return {};
}

Result<void> Store::Impl::CheckFormat() {
  LARDER_ASSIGN_OR_RETURN(const auto stored, GetMeta(records::kFormatKey));
  if (!stored) {
    if (!writable()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} is a RocksDB directory but not a larder store", options.path);
    }
    Transaction::Rep rep(database());
    rep.Put(Family::kMeta, records::kFormatKey, std::to_string(kFormat));
    return Commit(std::move(rep.batch), Durability::kSync);
  }
  int format = 0;
  std::from_chars(stored->data(), stored->data() + stored->size(), format);
  if (format > kFormat) {
    return MakeError(
        ErrorCode::kUnsupported,
        "store {} has format {}, and this larder reads formats up to {}; use a newer larder",
        options.path, *stored, kFormat);
  }
  if (format < 1) {
    return MakeError(ErrorCode::kCorruption, "store {} has the unreadable format \"{}\"",
                     options.path, keys::EscapePart(*stored));
  }
  return {};
}

Result<void> Store::Impl::LoadDictionaries() {
  const std::string prefix = "dictionary/";
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(ScanRows(
      Family::kMeta, prefix, {},
      [&](std::string_view key, std::string_view value) {
        std::string_view rest = key.substr(prefix.size());
        DictionaryId id = 0;
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), id);
        auto resource = keys::UnescapePart(rest.substr(static_cast<size_t>(end - rest.data()) + 1));
        if (error != std::errc() || !resource) {
          outcome = MakeError(ErrorCode::kCorruption, "stored key {} is damaged", key);
          return false;
        }
        auto dictionary = Dictionary::Parse(id, value);
        if (!dictionary) {
          outcome = tl::unexpected(dictionary.error());
          return false;
        }
        dictionaries_.Add(*resource, *std::move(dictionary));
        return true;
      },
      nullptr, /*fill_cache=*/false));
  return outcome;
}

Result<void> Store::Impl::LoadCollections() {
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(ScanRows(
      Family::kMeta, "collection/", {},
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

std::string Store::Impl::ResourceOf(CollectionId collection) const {
  std::shared_lock lock(collections_mutex_);
  const auto it = resource_of_.find(collection);
  return it == resource_of_.end() ? std::string() : it->second;
}

bool Store::Impl::Encrypted(const std::string& resource) const {
  return std::find(options.encrypted_resources.begin(), options.encrypted_resources.end(),
                   resource) != options.encrypted_resources.end();
}

void Store::Impl::Remember(const CollectionInfo& info) {
  std::lock_guard lock(collections_mutex_);
  resource_of_[info.id] = info.spec.resource.ToString();
}

void Store::Impl::Forget(CollectionId collection) {
  std::lock_guard lock(collections_mutex_);
  resource_of_.erase(collection);
}

Result<void> Store::Impl::Commit(rocksdb::WriteBatch batch, Durability durability) {
  if (!writable()) {
    return MakeError(ErrorCode::kUnsupported, "store {} is open for reading only", options.path);
  }
  if (failed_.load()) LARDER_RETURN_IF_ERROR(Recover());
  rocksdb::WriteOptions write;
  write.sync = durability == Durability::kSync;
  const rocksdb::Status status = (*database())->Write(write, &batch);
  if (!status.ok()) {
    Error error = FromRocks(status, fmt::format("cannot write to the store {}", options.path));
    RememberFailure(error);
    return tl::unexpected(std::move(error));
  }
  if (!write.sync) unsynced_.store(true);
  return {};
}

Result<void> Store::Impl::Sync() {
  unsynced_.store(false);
  const rocksdb::Status status = (*database())->FlushWAL(/*sync=*/true);
  if (!status.ok()) {
    unsynced_.store(true);
    Error error = FromRocks(status, fmt::format("cannot sync the store {}", options.path));
    RememberFailure(error);
    return tl::unexpected(std::move(error));
  }
  return {};
}

void Store::Impl::RememberFailure(const Error& error) {
  std::lock_guard lock(failure_mutex_);
  if (!failed_.exchange(true))
    spdlog::error("{}; reads go on, writes are tried again", error.message);
  failure_ = error;
}

Error Store::Impl::Health() const {
  std::lock_guard lock(failure_mutex_);
  return failure_;
}

// RocksDB refuses writes after a failed one. Resume() clears what can be cleared; where it cannot,
// or says that it did and writes still fail (seen after a full disk), only a fresh open reads the
// log as it really is on disk.
Result<void> Store::Impl::Recover() {
  std::lock_guard lock(failure_mutex_);
  if (!failed_.load()) return {};
  std::shared_ptr<Database> old = database();
  if ((*old)->Resume().ok()) {
    rocksdb::WriteBatch probe;
    probe.Put(old->family(Family::kMeta), "probe", "");
    rocksdb::WriteOptions write;
    write.sync = true;
    if ((*old)->Write(write, &probe).ok()) {
      failed_.store(false);
      spdlog::info("store {} takes writes again", options.path);
      return {};
    }
  }
  if (options.in_memory) return tl::unexpected(failure_);
  {
    std::lock_guard open_lock(open_mutex_);
    database_.reset();
    // Snapshots and readers hold the old one; it must be closed before the directory can be opened
    // again.
    std::weak_ptr<Database> watch = old;
    old.reset();
    for (int i = 0; i < 200 && !watch.expired(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (std::shared_ptr<Database> held = watch.lock()) {
      database_ = std::move(held);
      return tl::unexpected(failure_);
    }
    auto opened = Database::Open(options, mode_, env_, &recompress_);
    if (!opened) {
      failure_ = opened.error();
      // Nothing to read from either: keep trying with each commit, and let readers fail meanwhile.
      return tl::unexpected(failure_);
    }
    database_ = *std::move(opened);
  }
  failed_.store(false);
  spdlog::info("store {} was opened again and takes writes", options.path);
  return {};
}

void Store::Impl::SyncLoop(const std::stop_token& stop) {
  std::unique_lock lock(sync_mutex_);
  while (!stop.stop_requested()) {
    options.clock->WaitUntil(lock, sync_wake_, options.clock->Now() + options.sync_interval, stop);
    if (unsynced_.load() && !failed_.load()) (void)Sync();
  }
}

Store::Impl::Reader Store::Impl::MakeReader(const SnapshotPtr& snapshot) const {
  Reader reader;
  reader.database = snapshot ? snapshot->database() : database();
  if (snapshot) reader.options.snapshot = snapshot->get();
  return reader;
}

Result<std::optional<std::string>> Store::Impl::GetMeta(std::string_view key) const {
  const auto db = database();
  if (!db) return tl::unexpected(Health());
  std::string value;
  const rocksdb::Status status =
      (*db)->Get(rocksdb::ReadOptions(), db->family(Family::kMeta), ToSlice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return tl::unexpected(FromRocks(status, fmt::format("reading {}", key)));
  return std::optional<std::string>(std::move(value));
}

Result<void> Store::Impl::ScanRows(Family family, const std::string& prefix, std::string_view after,
                                   const RowVisitor& visit, const SnapshotPtr& snapshot,
                                   bool fill_cache) const {
  Reader reader = MakeReader(snapshot);
  if (!reader.database) return tl::unexpected(Health());
  const std::string end = keys::PrefixEnd(prefix);
  const rocksdb::Slice upper(end);
  reader.options.iterate_upper_bound = &upper;
  reader.options.fill_cache = fill_cache;
  std::unique_ptr<rocksdb::Iterator> it(
      (*reader.database)->NewIterator(reader.options, reader.database->family(family)));
  it->Seek(after.empty() ? rocksdb::Slice(prefix) : ToSlice(after));
  if (!after.empty() && it->Valid() && ToView(it->key()) == after) it->Next();
  for (; it->Valid(); it->Next()) {
    if (!visit(ToView(it->key()), ToView(it->value()))) return {};
  }
  if (!it->status().ok()) {
    return tl::unexpected(
        FromRocks(it->status(), fmt::format("reading {} of the store {}", prefix, options.path)));
  }
  return {};
}

}  // namespace larder
