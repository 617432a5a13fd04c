// The indexed cache of one collection: what client-go calls Indexer, on disk, with decoded objects
// in memory.
//
// Reads may come from any thread and see a consistent state: a list by index and the objects beside
// it are of one snapshot. Writes come from the collection's one committer, through a Writer, into
// the committer's own transaction.
//
//   LARDER_ASSIGN_OR_RETURN(auto pods, Indexer::Open(store, hot, spec,
//   {*IndexDefinition::ByField("node", "spec.nodeName")})); pods->GetByKey({"default", "web-0"});
//   // Result<ObjectPtr>, kNotFound pods->ByIndex("node", "node-1");                  //
//   Result<std::vector<ObjectPtr>>
//
// An index declared on a filled collection is built in the background, without blocking; until it
// is ready a lookup says kNotReady or scans, as the caller chooses.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "indexer/hot_tier.h"
#include "indexer/index_definition.h"
#include "storage/store.h"

namespace larder {

enum class WhenNotReady { kFail, kScan };

class Indexer {
 public:
  // `store` and `hot` must outlive the indexer. Finds or makes the collection, declares the
  // indexes, starts filling those that are new or changed, drops those that are no longer declared.
  static Result<std::unique_ptr<Indexer>> Open(Store* store, HotTier* hot,
                                               const CollectionSpec& spec,
                                               std::vector<IndexDefinition> indexes);
  ~Indexer();
  Indexer(const Indexer&) = delete;
  Indexer& operator=(const Indexer&) = delete;

  const CollectionInfo& collection() const { return collection_; }
  Store* store() const { return store_; }

  // A moment of the collection: reads through one view agree with each other.
  struct View {
    SnapshotPtr snapshot;
    uint64_t sequence = 0;
  };
  View TakeView() const;

  // Reading.
  Result<ObjectPtr> GetByKey(const ObjectKey& key) const;
  Result<ObjectPtr> GetByKey(const ObjectKey& key, const View& view) const;
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
  // Key and uid of each, without touching the objects, one at a time.
  Result<void> ForEachIndexed(std::string_view index, std::string_view value,
                              const Store::IndexVisitor& visit, const View& view) const;
  std::vector<IndexDefinition> GetIndexers() const;
  // May be called at any time; new ones are built in the background.
  Result<void> AddIndexers(std::vector<IndexDefinition> indexes);

  struct BuildProgress {
    std::string index;
    bool ready = false;
    size_t scanned = 0;
  };
  std::vector<BuildProgress> Progress() const;
  // Waits until every declared index is ready; false when `timeout` passed first.
  bool WaitUntilReady(std::chrono::milliseconds timeout) const;

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
      kAbsent,  // that there is none: it is not looked for
      kAny,     // that versions cannot be compared (a rewound server): write in any case
    };
    // Adds to the transaction: the object, its index keys, the removal of those that no longer hold.
    Result<Change> Upsert(const ObjectPtr& object, const EncodedObject& encoded,
                          Expect expect = Expect::kOlder);
    // `uid` and `resource_version` (may be empty) guard against deleting a newer object of the same
    // name.
    Result<Change> Delete(const ObjectKey& key, std::string_view uid,
                          std::string_view resource_version);
    void SetCursor(const Cursor& cursor);
    // Changes that wait for a handler; Get sees what this writer put.
    Result<std::optional<std::string>> GetDelta(std::string_view handler,
                                                const ObjectKey& key) const;
    void PutDelta(std::string_view handler, const ObjectKey& key, std::string value);
    void DeleteDelta(std::string_view handler, const ObjectKey& key);
    Transaction& transaction() { return transaction_; }
    // Writes everything in one batch and makes it visible. Once.
    Result<void> Commit(Durability durability);

   private:
    friend class Indexer;
    explicit Writer(Indexer* indexer);
    Result<ObjectPtr> Current(const ObjectKey& key);  // null: not there
    void StageIndexes(const Object* old, const Object* now, const ObjectKey& key);

    Indexer* const indexer_;
    std::unique_lock<std::mutex> lock_;
    Transaction transaction_;
    std::vector<HotTier::Change> staged_;  // the last state of each key, in order of first touch
    std::unordered_map<std::string, size_t> staged_at_;
    std::unordered_map<std::string, std::optional<std::string>> staged_deltas_;
  };
  std::unique_ptr<Writer> BeginWrite() { return std::unique_ptr<Writer>(new Writer(this)); }

 private:
  struct Live {
    IndexDefinition definition;
    IndexId id = 0;
    std::atomic<bool> ready{false};
    std::atomic<size_t> scanned{0};
    Live(IndexDefinition definition_in, IndexId id_in, bool ready_in)
        : definition(std::move(definition_in)), id(id_in), ready(ready_in) {}
  };
  using LivePtr = std::shared_ptr<Live>;

  Indexer(Store* store, HotTier* hot, CollectionInfo collection);
  Result<LivePtr> Find(std::string_view index) const;
  std::vector<LivePtr> AllLive() const;
  void BuildLoop(const std::stop_token& stop);
  Result<void> Build(const LivePtr& index, const std::stop_token& stop);
  // Puts the index keys of up to kBuildChunk objects behind `after`; false when there are no more.
  Result<bool> BuildChunk(const Live& index, ObjectKey& after, size_t& scanned);

  Store* const store_;
  HotTier* const hot_;
  CollectionInfo collection_;
  std::mutex write_mutex_;           // one writer: a commit or a chunk of a build
  mutable std::shared_mutex mutex_;  // guards indexes_; taken after write_mutex_
  std::vector<LivePtr> indexes_;
  IndexId next_index_id_ = 1;
  mutable std::mutex build_mutex_;  // only for the waits below
  mutable std::condition_variable_any build_wake_;
  std::jthread builder_;  // last: it uses the rest
};

}  // namespace larder
