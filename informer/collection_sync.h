// The write side of one collection: takes what a Reflector hears, and commits it.
//
// Two threads meet in a DeltaFifo: the reflector's parses, compares and compresses, the committer's
// writes. One batch is one commit: objects, index keys, queue items, handlers' rows and the cursor.
// When the committer is behind, the reflector's calls block, and TCP holds the server back.
//
// A list is differential: an object whose uid and resourceVersion are stored already is only marked
// as seen, and what was not seen at the end of the list is swept: those are the deletes that nobody
// watched, reported with the last known state. The marks are 10 to 12 bytes an object, in memory; a
// crash in mid-list leaves the collection marked as unfinished, and the next start lists again.
//
// A failed commit fails every later call with its error until Start() is called again: nothing is
// skipped, the cursor stays.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "indexer/indexer.h"
#include "informer/change.h"
#include "informer/key_set.h"
#include "informer/stored_heads.h"
#include "queue/delta_fifo.h"
#include "reflector/target.h"

namespace larder {

// Who hears of changes: within their commit, and after it.
class ChangeSink {
 public:
  virtual ~ChangeSink() = default;
  // Adds what belongs into the same commit. Called under the collection's write lock.
  virtual Result<void> Stage(Indexer::Writer& writer, const ObjectChange& change) = 0;
  virtual void Publish(bool committed) = 0;
  // The collection is complete up to its cursor.
  virtual void Synced() = 0;
  // And the server goes on from there (Target::InSync).
  virtual void InSync() {}
};

struct CollectionSyncOptions {
  Durability durability = Durability::kRelaxed;
  // One commit. What it brings, old and new states, must fit several times into the buffer of a
  // handler (HandlerOptions::buffer_bytes): a larger one would send handlers that keep up to the
  // disk, and is no faster.
  size_t max_batch_objects = 128;
  size_t max_batch_bytes = size_t{1} << 20;
  // Applied to each object before it is stored; null: none. Its name and version are in the
  // collection's spec.
  std::function<Result<ObjectPtr>(const ObjectPtr&)> transform;
  // Told of every failed commit, on the thread that made it; null: nobody is. A stream that is
  // quiet by then makes no call that could return the error.
  std::function<void(const Error&)> on_failure;
  Clock* clock = RealClock();
  // False: nobody commits but CommitWaiting(), and calls that would have to wait for it call it
  // themselves. For a simulation, where nothing may depend on which thread is faster.
  bool own_thread = true;
};

struct CollectionSyncStats {
  uint64_t commits = 0;
  uint64_t added = 0, updated = 0,
           deleted = 0;    // rows, by what happened to them
  uint64_t unchanged = 0;  // objects of a relist that were equal
  uint64_t objects = 0;    // stored now
  uint64_t bytes = 0;      // of their JSON
  std::optional<Error> error;
};

class CollectionSync final : public Target {
 public:
  CollectionSync(Indexer* indexer, ChangeSink* sink, CollectionSyncOptions options);
  ~CollectionSync() override;

  // Reads how much is stored: from a note that every commit keeps, or, where
  // there is none, by counting. Before Start.
  Result<void> LoadSize();
  // Ends the committer after what it has; blocked calls return kCancelled.
  void Stop();

  Result<Position> Start() override;
  Result<void> Rewound() override;
  Result<void> BeginList(std::string_view why) override;
  Result<void> ListItem(ObjectPtr object) override;
  Result<bool> ListItemUnchanged(const ObjectKey& key, std::string_view uid,
                                 std::string_view resource_version) override;
  Result<bool> StoredIsNewer(const ObjectKey& key, std::string_view resource_version) override;
  Result<bool> UnseenIsNewer(std::string_view resource_version) override;
  Result<void> EndList(std::string_view resource_version) override;
  Result<void> Event(EventType type, ObjectPtr object) override;
  Result<void> Bookmark(std::string_view resource_version) override;
  void InSync() override { sink_->InSync(); }

  // Returns when all that was given so far is committed, or why it is not.
  Result<void> Flush();
  // Without a thread of its own: commits what waits. A failure is what the next call returns.
  void CommitWaiting();
  // Is everything that was given so far committed?
  bool Idle() const { return fifo_.Idle(); }
  // Complete up to the cursor since Start (or a list since then)?
  Cursor cursor() const;
  CollectionSyncStats Stats() const;
  // Waits until everything up to this version is committed; kTimeout; kCancelled, also by Stop.
  Result<void> WaitUntil(std::string_view resource_version, Clock::Steady deadline,
                         const std::stop_token& stop) const;

 private:
  void CommitLoop(const std::stop_token& stop);
  void CommitAndSettle(DeltaFifo::Batch& batch);
  Result<void> Put(Delta delta, std::string_view resource_version);
  // Without a thread nobody else would.
  void MakeRoom();
  // Takes what is encoded out of the deltas: nobody commits them a second time.
  Result<void> CommitBatch(DeltaFifo::Batch& batch);
  Result<void> StageDelta(Indexer::Writer& writer, Delta& delta, CollectionSyncStats& done);
  Result<void> StageChange(Indexer::Writer& writer, const Indexer::Change& change,
                           const Delta& delta, CollectionSyncStats& done);
  // Commits a cursor with nothing else, after all that is in the queue.
  Result<void> CommitCursor(Cursor next, Durability durability);
  Result<void> PutObject(DeltaType type, ObjectPtr object, bool in_list,
                         std::string_view resource_version);
  Result<void> Sweep();
  // The next of what is stored and was not in the list, at most so many as are swept at a time.
  Result<std::vector<ObjectKey>> Unseen(const ObjectKey& after) const;
  Result<void> Failure() const;
  void SetCursorState(const Cursor& cursor);
  Result<ObjectPtr> Transformed(const ObjectPtr& object) const;

  Indexer* const indexer_;
  ChangeSink* const sink_;
  const CollectionSyncOptions options_;
  std::stop_source stop_;
  DeltaFifo fifo_;

  KeySet seen_;  // by the list under way; the reflector's thread only
  std::optional<std::vector<ObjectKey>> unseen_;  // all, where they are few; the same thread's
  StoredHeads stored_;  // beside which it is compared; the reflector's thread only
  // Of the list under way. Set by the reflector's thread before it puts what they are about.
  std::atomic<bool> first_list_{false};     // nothing was ever complete
  std::atomic<bool> rows_may_exist_{true};  // false: the collection was empty when the list began
  std::atomic<bool> compare_{true};         // false: versions prove nothing, write everything
  std::optional<Witness> newest_;           // of the list; the reflector's thread only

  mutable Mutex mutex_;
  mutable std::condition_variable_any changed_;
  Cursor cursor_ LARDER_GUARDED_BY(mutex_);  // as committed
  CollectionSyncStats stats_ LARDER_GUARDED_BY(mutex_);
  std::jthread committer_;  // last
};

}  // namespace larder
