// The inside of a Store. Internal to storage/.
//
// The locks are taken in the order in which LARDER_ACQUIRED_AFTER puts them. None is held while a
// commit waits for the disk, but those of a dictionary's drop.
#pragma once

#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "storage/cipher.h"
#include "storage/damage.h"
#include "storage/database.h"
#include "storage/dictionary_book.h"
#include "storage/family_handles.h"
#include "storage/mailbox_owner.h"
#include "storage/owner_lock.h"
#include "storage/recompress.h"
#include "storage/store.h"
#include "storage/transaction_rep.h"
#include "storage/workload_recorder.h"

namespace larder {

inline std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

class Snapshot {
 public:
  explicit Snapshot(std::shared_ptr<Database> database)
      : database_(std::move(database)),
        snapshot_(!database_ || database_->mode() == Database::Mode::kReader
                      ? nullptr
                      : (*database_)->GetSnapshot()) {}
  ~Snapshot() {
    if (snapshot_) (*database_)->ReleaseSnapshot(snapshot_);
  }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  const std::shared_ptr<Database>& database() const { return database_; }
  const rocksdb::Snapshot* get() const { return snapshot_; }

 private:
  std::shared_ptr<Database> database_;  // null: there was none
  // Null for a secondary, which stands still between CatchUp calls.
  const rocksdb::Snapshot* snapshot_;
};

class Store::Impl final : public RowPolicy {
 public:
  Impl(StoreOptions options, Database::Mode mode, rocksdb::Env* env);
  ~Impl() override;

  Result<void> Open();
  // Once the store is there to be called back by the janitor; nothing for a reader.
  void StartThreads(std::function<void()> collect_garbage);
  Result<void> Commit(Transaction::Rep& rep, Durability durability);
  Result<void> Sync();
  void StartFlush();
  // Changes what RocksDB can change while it runs; a database that is opened again keeps it.
  Result<LiveChange> ChangeEngine(const EngineOptions& engine);
  // Reads dictionaries and collections again, where another process writes.
  Result<void> Reload();

  // The database as it is now; a reopen after a fatal error replaces it. Null only where that
  // failed.
  std::shared_ptr<Database> database() const {
    ReaderLock lock(open_mutex_);
    return database_;
  }
  bool writable() const { return mode_ == Database::Mode::kOwner; }
  FamilyHandles* families() { return &families_; }

  struct Reader {
    std::shared_ptr<Database> database;
    rocksdb::ReadOptions options;
  };
  Reader MakeReader(const SnapshotPtr& snapshot) const;

  Result<std::optional<std::string>> GetMeta(std::string_view key,
                                             const SnapshotPtr& snapshot = nullptr) const;
  using RowVisitor = std::function<bool(std::string_view key, std::string_view value)>;
  // Rows with `prefix`, starting behind `after` (a full key; empty: at the start).
  Result<void> ScanRows(Family family, const std::string& prefix, std::string_view after,
                        const RowVisitor& visit, const SnapshotPtr& snapshot,
                        bool fill_cache) const;
  Result<bool> HasRow(Family family, std::string_view key, const SnapshotPtr& snapshot) const;
  // The first key at or behind `from`; nullopt at the end.
  Result<std::optional<std::string>> FirstRow(Family family, std::string_view from,
                                              const SnapshotPtr& snapshot) const;
  // Adds to a corruption the files that may hold the row.
  Error WithFiles(Error error, Family family, std::string_view key) const;

  // What is known of a collection without reading anything.
  struct Collection {
    std::string resource;
    std::string fingerprint;
    bool encrypted = false;
    DictionaryBook::Page* page = nullptr;  // null: no dictionaries for it
  };
  // Null: there is none. Looked for with every object: a copy of it would cost more than the look.
  std::shared_ptr<const Collection> FindCollection(CollectionId collection) const;
  bool Encrypted(const std::string& resource) const;
  void Remember(const CollectionInfo& info);
  void Forget(CollectionId collection);
  void MarkOpened(CollectionId collection);
  bool IsOpened(CollectionId collection) const;

  DecodeOptions decode_options() const override {
    return {&dictionaries_, cipher_ ? &*cipher_ : nullptr};
  }
  bool EncodingOf(CollectionId collection, EncodeOptions& encode) const override;
  // The same for a collection already found; false where it may not be stored at all.
  bool EncodingOf(const Collection& collection, EncodeOptions& encode) const;
  OwnerAnswers& answers() { return answers_; }
  // kForbidden where the first row is encrypted with a key that is not among ours.
  Result<void> CheckKeyFits(CollectionId collection) const;
  const Cipher* cipher() const { return cipher_ ? &*cipher_ : nullptr; }
  DictionaryBook& dictionaries() { return dictionaries_; }
  // Dropping dictionaries, while values that name them may still be on their way to a commit:
  // begin, look through what is stored, then end with those that nothing names. A commit from
  // before is waited for, so that it is found; one in between keeps its dictionary; one after the
  // end brings it back. Snapshots from before go on reading what names it. Returns those dropped.
  void BeginDrop(const std::vector<DictionaryId>& ids) LARDER_REQUIRES(drop_mutex);
  Result<std::vector<DictionaryId>> EndDrop(const std::set<DictionaryId>& in_use)
      LARDER_REQUIRES(drop_mutex);

  Result<void> Health() const;
  // Remembers damage for Health(). Every error of a read passes through here.
  Error Noted(Error error) const { return damage_->Note(std::move(error)); }
  template <typename T>
  Result<T> Noted(Result<T> result) const {
    if (!result) return tl::unexpected(Noted(std::move(result).error()));
    return result;
  }
  // What is recorded is every commit and read from here on; storage/trace.h.
  WorkloadRecorder& recorder() const { return recorder_; }
  Result<TraceSummary> StopRecording();

  // Of a reader: goes on to what the owner has committed by now.
  Result<void> CatchUp();
  // Why there is no database to read from.
  Error Unavailable() const;
  // For what copies files.
  Result<void> RequireOnDisk() const;
  // Bytes in the store's directory, snapshots not counted.
  uint64_t DiskBytes() const;
  // Lets RocksDB give back what a dropped collection took, in the background.
  void ReclaimSpace(CollectionId collection);
  // How often the database had to be opened again after a failure.
  uint64_t reopened() const { return reopened_.load(); }

  const StoreOptions options;
  // Serialises making and dropping of collections.
  Mutex collections_write_mutex;
  // Held from BeginDrop through EndDrop: a second drop that begins in between would forget what
  // commits have kept from the first.
  Mutex drop_mutex LARDER_ACQUIRED_AFTER(collections_write_mutex);
  // Of what must not reach the disk; made when it is asked for (Store::KeeperOf).
  Mutex keeper_mutex;
  std::unique_ptr<Store> keeper LARDER_GUARDED_BY(keeper_mutex);

 private:
  Result<void> LoadCipher();
  Result<void> OpenDatabase();
  Result<void> CheckFormat();
  Result<void> WriteFormat();
  Result<void> LoadDictionaries();
  Result<void> LoadCollections();
  // Returns those that the commit brings back.
  std::vector<DictionaryId> KeepDictionaries(Transaction::Rep& rep);
  Result<void> Write(Transaction::Rep& rep, Durability durability);
  Result<void> WriteHealth() const;
  Result<void> CheckBudget(const Transaction::Rep& rep) const;
  void RememberFailure(const Error& error);
  // The same for one of RocksDB's own threads, of which it has told.
  void RememberBackgroundFailure();
  Result<void> Recover();
  bool TryResume(Database& database);
  bool HasRoom(Database& database);
  Result<void> ResumeOrReopen() LARDER_REQUIRES(failure_mutex_);
  Result<void> Reopen() LARDER_REQUIRES(failure_mutex_);
  void AllowCompactions(Database& database, bool allowed) const;
  void SyncLoop(const std::stop_token& stop);
  void JanitorLoop(const std::stop_token& stop, const std::function<void()>& collect_garbage);

  const Database::Mode mode_;
  const pid_t owner_ = ::getpid();  // a fork of it does not own the store
  rocksdb::Env* const env_;
  const std::shared_ptr<Damage> damage_;
  std::optional<Cipher> cipher_;
  FamilyHandles families_;
  mutable SharedMutex open_mutex_ LARDER_ACQUIRED_AFTER(failure_mutex_);
  // Shared by commits that name dictionaries, until they are written.
  SharedMutex naming_mutex_ LARDER_ACQUIRED_AFTER(drop_mutex);
  Mutex dictionary_mutex_ LARDER_ACQUIRED_AFTER(naming_mutex_);
  std::set<DictionaryId> dropping_ LARDER_GUARDED_BY(dictionary_mutex_);
  Mutex engine_mutex_ LARDER_ACQUIRED_AFTER(open_mutex_);
  EngineOptions engine_ LARDER_GUARDED_BY(engine_mutex_);  // what the database has now
  mutable SharedMutex collections_mutex_ LARDER_ACQUIRED_AFTER(open_mutex_);
  std::map<CollectionId, std::shared_ptr<const Collection>> collections_
      LARDER_GUARDED_BY(collections_mutex_);
  std::set<CollectionId> opened_ LARDER_GUARDED_BY(collections_mutex_);
  DictionaryBook dictionaries_;
  RecompressFactory recompress_;
  const std::shared_ptr<OwnerLock> owner_lock_ = std::make_shared<OwnerLock>();
  std::shared_ptr<Database> database_ LARDER_GUARDED_BY(open_mutex_);
  std::atomic<bool> unsynced_{false};
  std::atomic<bool> flush_due_{false};  // StartFlush was asked for, and could not be begun yet
  std::atomic<bool> over_budget_{false};
  std::atomic<uint64_t> reopened_{0};
  std::atomic<bool> failed_{false};
  // Also serialises recovery.
  mutable Mutex failure_mutex_ LARDER_ACQUIRED_AFTER(dictionary_mutex_);
  Error failure_ LARDER_GUARDED_BY(failure_mutex_);
  Clock::Steady next_recovery_ LARDER_GUARDED_BY(failure_mutex_){};
  // Of a database that failed and was closed: the sequence number of its last commit.
  std::optional<uint64_t> committed_through_ LARDER_GUARDED_BY(failure_mutex_);
  // They were not there when it was opened again: no recovery ends that.
  bool commits_lost_ LARDER_GUARDED_BY(failure_mutex_) = false;
  mutable WorkloadRecorder recorder_;
  Mailbox mailbox_;  // of the syncer
  OwnerAnswers answers_;
  Mutex wait_mutex_;  // only for the waits of the two threads
  std::condition_variable_any wake_;
  std::jthread syncer_;  // last: these use the rest
  std::jthread janitor_;
};

}  // namespace larder
