// The indexed cache of one collection: what client-go calls Indexer, on disk, with decoded objects
// in memory.
//
// Reads may come from any thread and see a consistent state: a list by index and the objects beside
// it are of one snapshot. Writes come from the collection's one committer, through a Writer, into
// the committer's own transaction.
//
//   LARDER_ASSIGN_OR_RETURN(auto node, IndexDefinition::ByField("node", "spec.nodeName"));
//   LARDER_ASSIGN_OR_RETURN(auto pods, Indexer::Open(store, hot, spec, {node}));
//   pods->GetByKey({"default", "web-0"});  // Result<ObjectPtr>, kNotFound
//   pods->ByIndex("node", "node-1");       // Result<std::vector<ObjectPtr>>
//
// In a collection that is stored encrypted, index keys hold keyed hashes of the values: lookups
// work as ever, and the disk shows nothing.
//
// An index declared on a filled collection is built in the background, without blocking; until it
// is ready a lookup says kNotReady or scans, as the caller chooses.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "indexer/hot_tier.h"
#include "indexer/index_definition.h"
#include "indexer/index_set.h"
#include "storage/store.h"

namespace larder {

enum class WhenNotReady { kFail, kScan };

// The index that every collection has without declaring it, as in client-go: objects by their
// namespace, answered from the order of the rows. Who declares one of this name gets his own.
inline constexpr std::string_view kNamespaceIndex = "namespace";

class Indexer {
 public:
  // `store` and `hot` must outlive the indexer; `hot` may be null. Finds or makes the collection,
  // declares the indexes, starts filling those that are new or changed.
  //
  // Indexes of an earlier run that are not among these are kept for whoever declares them later
  // (AddIndexers), and are then ready at once: over labels and fields they are kept in step
  // meanwhile, unseen; over a user's function until the first object changes. What nobody declares
  // for StoreOptions::collection_ttl is dropped. `encrypt`: as for Store::OpenCollection.
  static Result<std::unique_ptr<Indexer>> Open(Store* store, HotTier* hot,
                                               const CollectionSpec& spec,
                                               std::vector<IndexDefinition> indexes,
                                               bool encrypt = false);
  // For reading only, over a store that may be somebody else's (Store::OpenReadOnly): the indexes
  // are those stored. Nothing is kept in memory, because nothing says when it changes.
  static Result<std::unique_ptr<Indexer>> Attach(Store* store, const CollectionInfo& collection);
  ~Indexer();
  Indexer(const Indexer&) = delete;
  Indexer& operator=(const Indexer&) = delete;

  const CollectionInfo& collection() const { return collection_; }
  Store* store() const { return store_; }

  // A moment of the collection: reads through one view agree with each other.
  struct View {
    SnapshotPtr snapshot;
    uint64_t sequence = 0;  // the last commit in it, at least (HotTier)
    uint64_t moment = 0;    // which indexes are complete in it
  };
  View TakeView() const;

  // Reading. Who gets many in one pass, and keeps none, is quicker with a Reader.
  Result<ObjectPtr> GetByKey(const ObjectKey& key) const;
  Result<ObjectPtr> GetByKey(const ObjectKey& key, const View& view) const;
  // The same of an object that an index names in this view: that it is not there is damage, which
  // is said instead of hidden.
  Result<ObjectPtr> GetIndexed(std::string_view index, const ObjectKey& key,
                               const View& view) const;
  // Every object of `ns` (empty: all), in key order, one at a time: memory does not grow with the
  // collection.
  Result<void> ForEach(std::string_view ns, const ObjectKey& after,
                       const Store::ObjectVisitor& visit, const View& view) const;
  Result<void> ForEach(std::string_view ns, const Store::ObjectVisitor& visit) const {
    return ForEach(ns, {}, visit, TakeView());
  }
  Result<size_t> Count(std::string_view ns = {}) const;

  // client-go's Indexer. ByIndex: the objects with this value; IndexKeys: their keys; Index: the
  // objects that share a value with this one; ListIndexFuncValues: every value there is.
  Result<std::vector<ObjectPtr>> ByIndex(std::string_view index, std::string_view value,
                                         WhenNotReady when_not_ready = WhenNotReady::kScan) const;
  Result<std::vector<ObjectKey>> IndexKeys(std::string_view index, std::string_view value,
                                           WhenNotReady when_not_ready = WhenNotReady::kScan) const;
  Result<std::vector<ObjectPtr>> Index(std::string_view index, const Object& like) const;
  Result<std::vector<std::string>> ListIndexFuncValues(std::string_view index) const;
  // Key and uid of each, without touching the objects, one at a time, in key order; with `range`,
  // only a part of them.
  Result<void> ForEachIndexed(std::string_view index, std::string_view value,
                              const Store::IndexVisitor& visit, const View& view,
                              const IndexRange& range = {}) const;
  std::vector<IndexDefinition> GetIndexers() const;
  // May be called at any time; new ones are built in the background.
  Result<void> AddIndexers(std::vector<IndexDefinition> indexes);

  struct BuildProgress {
    std::string index;
    bool ready = false;
    size_t scanned = 0;
    uint64_t exceptions = 0;     // of its function
    std::optional<Error> error;  // why it does not get on; it is tried again
  };
  std::vector<BuildProgress> Progress() const;
  // Waits until every declared index is ready, but for functions that nobody gave
  // (IndexDefinition::FromStored), which are not built; false when `timeout` passed first.
  bool WaitUntilReady(std::chrono::milliseconds timeout) const;

  // An object made ready to be written: compressed, its index values computed. On any thread, so
  // that the committer only writes.
  struct Prepared {
    EncodedObject encoded;
    IndexSetPtr indexes;  // that `values` are of
    std::vector<std::vector<std::string>> values;
  };
  Result<Prepared> Prepare(const Object& object) const;

  // Writing, for the committer. One Writer at a time; it holds the collection's write lock.
  enum class Outcome {
    kAdded,      // was not there
    kUpdated,    // replaced an older version
    kRecreated,  // same name, another uid: the old one is gone, this is new
    kDeleted,
    kUnchanged,  // nothing written: already there, older than what is there, or a delete of what is
                 // not there
  };
  struct Change {
    Outcome outcome = Outcome::kUnchanged;
    ObjectPtr old;  // the version that was replaced or deleted
  };
  class Writer {
   public:
    ~Writer();
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    // What the caller knows of the row that may stand there already.
    enum class Expect {
      kOlder,   // nothing: an equal or newer version there is left alone
      kAbsent,  // that there is none: it is not looked for, and takes no other's room in memory
      kAny,     // that versions cannot be compared (a rewound server): only the same text is left
    };
    // Adds to the transaction: the object, its index keys, the removal of those that no longer
    // hold.
    Result<Change> Upsert(const ObjectPtr& object, const EncodedObject& encoded,
                          Expect expect = Expect::kOlder);
    Result<Change> Upsert(const ObjectPtr& object, const Prepared& prepared,
                          Expect expect = Expect::kOlder);
    // `uid` and `resource_version` (may be empty) guard against deleting a newer object of the same
    // name.
    Result<Change> Delete(const ObjectKey& key, std::string_view uid,
                          std::string_view resource_version);
    void SetCursor(const Cursor& cursor);
    // Changes that wait for a handler; Get sees what this writer put.
    Result<std::optional<std::string>> GetDelta(std::string_view handler,
                                                const ObjectKey& key) const;
    // `known` is the encoded object within `value`, where there is one.
    void PutDelta(std::string_view handler, const ObjectKey& key, std::string value,
                  std::string_view known = {});
    void DeleteDelta(std::string_view handler, const ObjectKey& key);
    // A state of an object that this writer replaces or removes, encoded: for a handler's row.
    // `stored` is what Upsert or Delete returned as the old version: `state` itself, or an earlier
    // one. The last one is kept, because one change is mostly asked for by several handlers.
    Result<std::string_view> EncodeOld(const ObjectPtr& state, const ObjectPtr& stored);
    Transaction& transaction() { return transaction_; }
    // Writes everything in one batch and makes it visible. Once.
    Result<void> Commit(Durability durability);

   private:
    friend class Indexer;
    explicit Writer(Indexer* indexer);
    using Values = std::vector<std::vector<std::string>>;
    Result<ObjectPtr> Current(const ObjectKey& key);  // null: not there
    Result<Change> Put(const ObjectPtr& object, const EncodedObject& encoded, const Values* values,
                       Expect expect);
    Result<void> StageIndexes(const Object* old, const Object* now, const Values* now_values,
                              const ObjectKey& key);
    void Stage(const ObjectKey& key, ObjectPtr object, bool if_room = false);
    void DropUnknown();
    void ForgetDropped();

    Indexer* const indexer_;
    MutexLock lock_;
    const IndexSetPtr indexes_;  // no index is added while we hold the lock
    Transaction transaction_;
    bool looked_for_unknown_ = false;
    bool dropped_ = false;                 // indexes, with this transaction
    std::vector<HotTier::Change> staged_;  // the last state of each key, in order of first touch
    std::unordered_map<std::string, size_t> staged_at_;
    std::unordered_map<std::string, std::optional<std::string>> staged_deltas_;
    ObjectPtr encoded_of_;  // what EncodeOld encoded last
    std::string encoded_;
  };
  std::unique_ptr<Writer> BeginWrite() { return std::unique_ptr<Writer>(new Writer(this)); }

 private:
  friend class Reader;
  Indexer(Store* store, HotTier* hot, CollectionInfo collection);
  Result<void> AdoptStored(std::vector<IndexDefinition>& declared);
  Result<bool> UnusedForLong(const IndexRecord& record);
  Result<void> ForgetUnused(IndexId index) LARDER_REQUIRES(write_mutex_);
  void SetIndexes(std::vector<LiveIndexPtr> live) LARDER_REQUIRES(write_mutex_);
  std::string StoredDefinition(const IndexDefinition& definition) const;
  Result<LiveIndexPtr> Find(std::string_view index) const;
  IndexSetPtr Indexes() const;
  Error NotReady(const LiveIndex& index) const;
  Result<ObjectPtr> Read(const ObjectKey& key, uint64_t sequence,
                         const SnapshotPtr& snapshot) const;
  bool IsNamespaceIndex(std::string_view index) const;
  Result<void> ForEachInNamespace(std::string_view ns, const Store::IndexVisitor& visit,
                                  const View& view, const IndexRange& range) const;
  // The index where its keys are not complete in this view and the caller would rather look at
  // every object; null: ask the index.
  Result<LiveIndexPtr> FindToScan(std::string_view index, WhenNotReady when_not_ready,
                                  const View& view) const;
  Result<std::vector<ObjectPtr>> ByIndexIn(std::string_view index, std::string_view value,
                                           WhenNotReady when_not_ready, const View& view) const;
  Result<std::vector<ObjectPtr>> ScanFor(const LiveIndex& index, std::string_view value,
                                         const View& view) const;
  void BuildLoop(const std::stop_token& stop);
  Result<void> Build(const LiveIndexPtr& index, const std::stop_token& stop);
  // Puts the index keys of the next objects, up to kBuildChunk; false when there are no more.
  Result<bool> BuildChunk(LiveIndex& index);

  Store* const store_;
  HotTier* const hot_;
  CollectionInfo collection_;
  Mutex write_mutex_;  // one writer: a commit or a chunk of a build
  mutable SharedMutex mutex_ LARDER_ACQUIRED_AFTER(write_mutex_);
  IndexSetPtr indexes_ LARDER_GUARDED_BY(mutex_);
  std::atomic<uint64_t> moment_{0};  // counts indexes that became ready
  IndexId next_index_id_ LARDER_GUARDED_BY(write_mutex_) = 1;
  mutable Mutex build_mutex_;  // for the waits below, and LiveIndex::error
  mutable std::condition_variable_any build_wake_;
  std::jthread builder_;  // last: it uses the rest
};

}  // namespace larder
