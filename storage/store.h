// The store: a controller's cache and pending work in one RocksDB directory.
//
// What it guarantees:
//  1. A Transaction is atomic over objects, index keys, queue items and cursors: after any crash
//  all of it is
//     there or none, and what is there is a prefix of the order of commits.
//  2. Every read is verified (magic, length, checksum, FlatBuffers Verifier); damage is kCorruption
//  naming key
//     and collection, never wrong data.
//  3. One process owns a store; a second Open fails with kLocked and names the owner's pid. Readers
//  open
//     it live with OpenReadOnly and do not disturb the owner.
//
// Thread-safe. Durability: see Durability. Errors: kNoSpace keeps reads alive and writes succeed
// again when there is room; after any failed Commit nothing of that transaction is visible. Once a
// read or a compaction met damage, Health() says so until the store is opened anew; what is not
// damaged is read and written as before.
//
//   LARDER_ASSIGN_OR_RETURN(auto store, Store::Open({.path = "/var/lib/me/store"}));
//   LARDER_ASSIGN_OR_RETURN(CollectionInfo pods, store->OpenCollection(spec));
//   Transaction tx = store->Begin();
//   tx.PutObject(pods.id, *encoded);
//   tx.SetCursor(pods.id, cursor);
//   LARDER_RETURN_IF_ERROR(store->Commit(std::move(tx), Durability::kRelaxed));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "schema/object.h"
#include "storage/collection.h"
#include "storage/options.h"

namespace rocksdb {
class Env;
}

namespace larder {

// An object ready to be written: compressed, sealed with its checksum. Made by Store::Encode on any
// thread.
struct EncodedObject {
  ObjectKey key;
  std::string value;
};

// What is readable of a stored object without decompressing anything.
struct ObjectHead {
  std::string uid;
  std::string resource_version;
};

// Assigned when an index is declared on a collection; a changed definition gets a new one.
using IndexId = uint32_t;

struct IndexRecord {
  IndexId id = 0;
  std::string name;
  std::string definition;  // "field:spec.nodeName", "label:app", "func:byOwner@2"
  bool ready = false;      // false while it is being filled
};

struct IndexEntry {
  std::string value;
  ObjectKey key;
  std::string uid;
};

// Which entries of one value: those of a namespace (empty: all), behind a key (empty name: from the
// start).
struct IndexRange {
  std::string ns{};
  ObjectKey after{};
};

// A piece of work as stored. `generation` makes each stored copy distinct, so that acknowledging an
// older one can never remove a newer one.
struct QueueRecord {
  int64_t added_ms = 0;
  int64_t not_before_ms = 0;
  int32_t priority = 0;
  uint32_t failures = 0;
  bool dead = false;
  std::string last_error{};
};

struct StoredQueueItem {
  std::string item;
  uint64_t generation = 0;
  QueueRecord record;
};

// A row of a queue whose record cannot be read.
struct DamagedQueueItem {
  std::optional<std::string> item;  // from the row's key; nullopt: that cannot be read either
  uint64_t generation = 0;
  Error error;
};

class Store;

// Writes that happen together or not at all. Not thread-safe; cheap to make.
class Transaction {
 public:
  Transaction(Transaction&&) noexcept;
  Transaction& operator=(Transaction&&) noexcept;
  ~Transaction();

  void PutObject(CollectionId collection, const EncodedObject& object);
  void DeleteObject(CollectionId collection, const ObjectKey& key);
  void PutIndexKey(CollectionId collection, IndexId index, std::string_view value,
                   const ObjectKey& key, std::string_view uid);
  void DeleteIndexKey(CollectionId collection, IndexId index, std::string_view value,
                      const ObjectKey& key);
  void SetCursor(CollectionId collection, const Cursor& cursor);
  void PutIndexRecord(CollectionId collection, const IndexRecord& record);
  // Removes an index's keys and its record.
  void DropIndex(CollectionId collection, IndexId index);

  void PutQueueItem(std::string_view queue, std::string_view item, uint64_t generation,
                    const QueueRecord& record);
  void DeleteQueueItem(std::string_view queue, std::string_view item, uint64_t generation);

  // A change that waits for a handler. `known` is the encoded object within `value`, where there is
  // one: its dictionary must stay.
  void PutDelta(CollectionId collection, std::string_view handler, const ObjectKey& key,
                std::string_view value, std::string_view known = {});
  void DeleteDelta(CollectionId collection, std::string_view handler, const ObjectKey& key);

  // A small named value of a folder above ("handler/...", "controller/..."): durable names,
  // revisions.
  void PutNote(std::string_view name, std::string_view value);
  void DeleteNote(std::string_view name);

  bool Empty() const;
  size_t ByteSize() const;

  struct Rep;  // for storage/ itself
  Rep& rep() const { return *rep_; }

 private:
  friend class Store;
  explicit Transaction(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

// One consistent view: an index read and the object read beside it agree. Cheap; holds old files
// while it lives, so do not keep it for hours.
class Snapshot;
using SnapshotPtr = std::shared_ptr<const Snapshot>;

class Store {
 public:
  static Result<std::unique_ptr<Store>> Open(const StoreOptions& options);
  // Reads a store that another process may own, without disturbing it. CatchUp() moves it forward.
  // A store that nobody owns is held to the same checks as by an owner: a file that is damaged or
  // missing is an error, not a store with less in it.
  enum class Reading { kOnce, kFollowing };  // CatchUp() is for the second
  static Result<std::unique_ptr<Store>> OpenReadOnly(const StoreOptions& options,
                                                     Reading reading = Reading::kOnce);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Where objects of this resource are kept: here; or, where they may reach the disk only encrypted
  // and there is no key, in a store in memory that ends with this one.
  Result<Store*> KeeperOf(const Resource& resource);

  // Collections. OpenCollection finds the one with this fingerprint or makes it. `encrypt`: what is
  // written from now on is encrypted, though StoreOptions::encrypted_resources does not name it.
  Result<CollectionInfo> OpenCollection(const CollectionSpec& spec, bool encrypt = false);
  Result<std::vector<CollectionInfo>> Collections() const;
  Result<Cursor> GetCursor(CollectionId collection) const;
  Result<void> DropCollection(CollectionId collection);
  // Drops collections that nobody opened within collection_ttl; returns how many.
  Result<size_t> CollectGarbage();

  // Writing.
  Transaction Begin() const;
  // Is it of this store's Begin()? Another one's commit does not write here.
  bool Began(const Transaction& transaction) const;
  Result<void> Commit(Transaction transaction, Durability durability);
  // Begins to write what is in memory out as tables, so that the next start has less of the log to
  // read. Returns at once; a failure shows in Health().
  void StartFlush();
  // Syncs everything committed so far.
  Result<void> Sync();
  Result<EncodedObject> Encode(CollectionId collection, const Object& object) const;
  // The same for an object that is stored now as `stored`: itself, or an earlier version of it.
  // Where the two differ in nothing but the resourceVersion the row is read and not made anew,
  // which takes a fraction of the time.
  Result<EncodedObject> EncodeFrom(CollectionId collection, const Object& object,
                                   const Object& stored) const;

  // The object that Encode made `value` of, for this key.
  Result<ObjectPtr> Decode(CollectionId collection, const ObjectKey& key,
                           std::string_view value) const;

  // Reading. A null snapshot means now. One that was taken while the store was away, to be opened
  // again, reads nothing, also later: every call is an error.
  SnapshotPtr TakeSnapshot() const;
  Result<ObjectPtr> Get(CollectionId collection, const ObjectKey& key,
                        const SnapshotPtr& snapshot = nullptr) const;  // kNotFound
  Result<ObjectHead> GetHead(CollectionId collection, const ObjectKey& key,
                             const SnapshotPtr& snapshot = nullptr) const;
  // Visits objects in key order, from `after` (exclusive; empty name: from the start) within `ns`
  // (empty: all). The visitor returns false to stop. `known` gives what the caller has of a row
  // already, as it is in the snapshot, so that it is not decoded again; null: nothing.
  using ObjectVisitor = std::function<bool(const ObjectPtr&)>;
  using KnownObject = std::function<ObjectPtr(const ObjectKey&)>;
  Result<void> Scan(CollectionId collection, std::string_view ns, const ObjectKey& after,
                    const ObjectVisitor& visit, const SnapshotPtr& snapshot = nullptr,
                    const KnownObject& known = {}) const;
  using HeadVisitor = std::function<bool(const ObjectKey&, const ObjectHead&)>;
  Result<void> ScanHeads(CollectionId collection, std::string_view ns, const HeadVisitor& visit,
                         const SnapshotPtr& snapshot = nullptr, const ObjectKey& after = {}) const;
  using IndexVisitor = std::function<bool(const IndexEntry&)>;
  // Entries with exactly `value`, or all entries of the index where `value` is nullopt, in order of
  // value and key. With a value, `range` narrows them down.
  Result<void> ScanIndex(CollectionId collection, IndexId index,
                         std::optional<std::string_view> value, const IndexVisitor& visit,
                         const SnapshotPtr& snapshot = nullptr, const IndexRange& range = {}) const;
  // How a value is spelled in index keys of this collection: as it is, or, where the collection is
  // stored encrypted, as a keyed hash; kForbidden without the key. IndexKeyName is empty, or says
  // with which key.
  Result<std::string> IndexToken(CollectionId collection, std::string_view value) const;
  std::string IndexKeyName(CollectionId collection) const;
  Result<std::vector<IndexRecord>> IndexRecords(CollectionId collection) const;
  // Removes an index's keys and its record.
  Result<void> DropIndex(CollectionId collection, IndexId index);

  // Work. ScanQueue visits in order of item, then generation, starting behind `after` (empty: the
  // start). A row that cannot be read is shown to `damaged`, and the scan goes on; where that is
  // null it ends there, with kCorruption. Either way the damage shows in Health(). A whole block
  // that cannot be read ends the scan.
  using QueueVisitor = std::function<bool(const StoredQueueItem&)>;
  using DamagedQueueVisitor = std::function<bool(const DamagedQueueItem&)>;
  Result<void> ScanQueue(std::string_view queue, std::string_view after, const QueueVisitor& visit,
                         const DamagedQueueVisitor& damaged = nullptr) const;
  Result<std::vector<std::string>> Queues(const SnapshotPtr& snapshot = nullptr) const;

  // Changes that wait for a handler, in key order, starting behind `after` (empty name: the start).
  Result<std::optional<std::string>> GetDelta(CollectionId collection, std::string_view handler,
                                              const ObjectKey& key) const;
  using DeltaVisitor = std::function<bool(const ObjectKey&, std::string_view value)>;
  Result<void> ScanDeltas(CollectionId collection, std::string_view handler, const ObjectKey& after,
                          const DeltaVisitor& visit, const SnapshotPtr& snapshot = nullptr) const;
  Result<void> DropDeltas(CollectionId collection, std::string_view handler);
  // The handlers that changes of this collection wait for.
  Result<std::vector<std::string>> DeltaHandlers(CollectionId collection) const;

  Result<std::optional<std::string>> GetNote(std::string_view name) const;

  // A reader (OpenReadOnly) moves to what the owner has written by now. Nothing to do for the
  // owner.
  Result<void> CatchUp();
  // What somebody should know of, for /readyz: damage that was met (kCorruption, with what to do),
  // a disk that fails reads, or the failure that keeps writes from succeeding.
  Result<void> Health() const;
  // For the folders above, which find damage that storage cannot see: an index key without its
  // object. It shows in Health(). Returns the error.
  Error NoteDamage(Error error) const;
  // Waits until dictionaries that are being trained are in use: for tests and benchmarks.
  void WaitForDictionaries();

  const StoreOptions& options() const;

  class Impl;
  // For storage/ itself: see storage/maintenance.h for what else can be done with a store.
  Impl& impl() const { return *impl_; }

 private:
  friend Result<std::unique_ptr<Store>> OpenStoreOnEnv(const StoreOptions& options,
                                                       rocksdb::Env* env);
  static Result<std::unique_ptr<Store>> OpenOn(const StoreOptions& options, rocksdb::Env* env);
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace larder
