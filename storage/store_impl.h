// The inside of a Store. Internal to storage/.
//
// Lock order: open_mutex_ before collections_mutex_; neither is held while RocksDB waits for the
// disk in Commit.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>

#include "storage/cipher.h"
#include "storage/database.h"
#include "storage/dictionary_book.h"
#include "storage/recompress.h"
#include "storage/store.h"

namespace larder {

class Snapshot {
 public:
  explicit Snapshot(std::shared_ptr<Database> database)
      : database_(std::move(database)), snapshot_((*database_)->GetSnapshot()) {}
  ~Snapshot() {
    if (snapshot_) (*database_)->ReleaseSnapshot(snapshot_);
  }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  const std::shared_ptr<Database>& database() const { return database_; }
  const rocksdb::Snapshot* get() const { return snapshot_; }

 private:
  std::shared_ptr<Database> database_;
  const rocksdb::Snapshot*
      snapshot_;  // null for a secondary, which stands still between CatchUp calls
};

class Store::Impl final : public ResourceNames {
 public:
  Impl(StoreOptions options, Database::Mode mode, rocksdb::Env* env);
  ~Impl() override;

  Result<void> Open();
  Result<void> Commit(rocksdb::WriteBatch batch, Durability durability);
  Result<void> Sync();

  // The database as it is now; a reopen after a fatal error replaces it.
  std::shared_ptr<Database> database() const {
    std::shared_lock lock(open_mutex_);
    return database_;
  }
  bool writable() const { return mode_ == Database::Mode::kOwner; }

  struct Reader {
    std::shared_ptr<Database> database;
    rocksdb::ReadOptions options;
  };
  Reader MakeReader(const SnapshotPtr& snapshot) const;

  Result<std::optional<std::string>> GetMeta(std::string_view key) const;
  using RowVisitor = std::function<bool(std::string_view key, std::string_view value)>;
  // Rows with `prefix`, starting behind `after` (a full key; empty: at the start).
  Result<void> ScanRows(Family family, const std::string& prefix, std::string_view after,
                        const RowVisitor& visit, const SnapshotPtr& snapshot,
                        bool fill_cache) const;

  DecodeOptions decode_options() const { return {&dictionaries_, cipher_ ? &*cipher_ : nullptr}; }
  const Cipher* cipher() const { return cipher_ ? &*cipher_ : nullptr; }
  // ResourceNames: which resource a collection holds; empty when it is not known.
  std::string ResourceOf(CollectionId collection) const override;
  bool Encrypted(const std::string& resource) const;
  void Remember(const CollectionInfo& info);
  void Forget(CollectionId collection);

  const StoreOptions options;
  // Serialises making and dropping of collections.
  std::mutex collections_write_mutex;
  DictionaryBook& dictionaries() { return dictionaries_; }
  Error Health() const;
  bool healthy() const { return !failed_.load(); }

 private:
  Result<void> OpenDatabase();
  Result<void> CheckFormat();
  Result<void> LoadDictionaries();
  Result<void> LoadCollections();
  Result<void> Recover();
  void RememberFailure(const Error& error);
  void SyncLoop(const std::stop_token& stop);

  const Database::Mode mode_;
  rocksdb::Env* const env_;
  std::optional<Cipher> cipher_;
  mutable std::shared_mutex open_mutex_;         // guards database_
  mutable std::shared_mutex collections_mutex_;  // guards resource_of_
  std::map<CollectionId, std::string> resource_of_;
  DictionaryBook dictionaries_;
  RecompressFactory recompress_;
  std::shared_ptr<Database> database_;
  std::atomic<bool> unsynced_{false};
  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;  // guards failure_ and serialises recovery
  Error failure_;
  std::mutex sync_mutex_;  // only for the wait below
  std::condition_variable_any sync_wake_;
  std::jthread syncer_;  // last: it uses the rest
};

}  // namespace larder
