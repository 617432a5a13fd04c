// What a work queue knows: which items are ready, delayed, in process or dead, and which
// generations of them are on disk. The rules of the queue without its locks, its clock and its
// store: time comes in as an argument, writes go out as a QueueWrites, so that every interleaving
// of workers, writer, loader and committer is a sequence of calls.
//
// Not thread-safe: WorkQueue calls it under its lock.
//
// What must hold between the calls, for a durable queue
// -----------------------------------------------------
// Each copy of an item on disk has a generation of its own, never used again. A node's `stored` is
// the generation that stands for its pending work, `taken` the one that stands for its run in
// process.
//
//  1. Work is on disk or in the dirty list. A node with pending work has a stored generation that
//  describes it, or is
//     dirty. A node that is only in process has a taken generation, or is dirty.
//  2. Only what is finished or replaced is deleted. A generation is put among the deletes when its
//  run is done, or when
//     another generation or the dirty list took over its work; and it has then left the node.
//  3. A delete never overtakes. When a delete is collected and its item is dirty, the item's write
//  goes into the same
//     transaction. So "failed, try again, done" never leaves a moment without the item on disk.
//  4. Nobody deletes what he does not know. An acknowledgement names the generation that its run
//  took at Get. What
//     another commit wrote meanwhile has another generation and stays.
//
// The interleavings that matter, by these rules:
//  - Done while the item's write is on its way: the generation was given out when the write was
//  collected, so Done
//    queues the delete of just that generation; the writer sends it after the write, never before.
//  - The write on its way fails: Restore makes the nodes dirty again that still carry the lost
//  generation. A run that
//    ended meanwhile needs nothing, its delete removes nothing.
//  - An event's commit (Adopt) while the item is in process: the new generation becomes `stored`,
//  the run's stays
//    `taken`; Done deletes the latter only, and the item runs once more.
//  - An event's commit before Done, made known after it: the node is gone, Adopt makes a new one. A
//  crash in
//    between finds the generation on disk.
//  - An event's commit that fails: nothing was written, nothing was told to this class, nothing to
//  undo.
//  - A dead letter read by the loader after its item was added anew and done: it is out of date and
//    is only deleted.
//  - A record read by the loader while its item was added anew: they merge as two adds do; the
//  older generation is
//    deleted behind the write of the merged one (rule 3).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "queue/node_table.h"
#include "queue/queue_counters.h"
#include "queue/queue_node.h"
#include "storage/store.h"

namespace larder::internal {

// One transaction's worth of changes to the queue's records.
struct QueueWrites {
  std::vector<StoredQueueItem> puts;
  std::vector<std::pair<std::string, uint64_t>> deletes;

  bool empty() const { return puts.empty() && deletes.empty(); }
};

// A moment on both clocks, to turn due times into what is stored and back.
struct TimePoint {
  Nanos steady = 0;
  int64_t wall_ms = 0;
};

class QueueState {
 public:
  // How an item is asked for, or how it was stored.
  struct Request {
    Nanos due = 0;  // at or before now: ready at once
    int32_t priority = 0;
    uint32_t failures = 0;
  };

  struct Retry {
    Nanos due = 0;
    std::optional<int32_t> priority;  // none: that of the run in process
    uint32_t requeues = 0;            // what the rate limiter counted
    std::optional<uint32_t> max_retries;
    std::string_view error;
  };

  // What the loader found on disk for one item: all generations merged.
  struct Loaded {
    std::string item;
    QueueRecord record;
    uint64_t generation = 0;
    std::vector<uint64_t> older;
  };

  explicit QueueState(bool durable) : durable_(durable) {
    if (durable) done_while_loading_.emplace();
  }

  // Makes the item pending; one that is pending already keeps the earlier time and the higher
  // priority. A dead one lives again. Returns the node.
  const QueueNode& Add(std::string_view item, uint32_t hash, Nanos now, const Request& request);
  // The same after a failure. Returns false when the retries are used up: the item is dead.
  bool AddRetry(std::string_view item, uint32_t hash, const TimePoint& now, const Retry& retry);
  // The next ready item goes into process. nullptr: none.
  const QueueNode* Take(Nanos now);
  // The run is over. Does nothing for an item that is not in process.
  void Finish(std::string_view item, uint32_t hash, Nanos now);
  void Forget(std::string_view item, uint32_t hash);
  uint32_t Failures(std::string_view item, uint32_t hash) const;
  // Makes ready what is due.
  void Promote(Nanos now);
  // From now on what is added waits for the next start, and delayed items stay delayed.
  void Close() { closed_ = true; }

  // A record that is on disk joins what is known: after an event's commit.
  void Adopt(std::string_view item, uint32_t hash, Nanos now, const Request& record,
             uint64_t generation);
  // The same for what the loader read.
  void Load(const Loaded& loaded, const TimePoint& now);
  // Nothing more is loaded.
  void EndLoading() { done_while_loading_.reset(); }

  // Fills `writes` with up to about `limit` deletes and writes; those that belong together stay
  // together. `generation` is called for each write. Returns how many items came off the dirty list
  // in its order.
  size_t Collect(size_t limit, const TimePoint& now, const std::function<uint64_t()>& generation,
                 QueueWrites* writes);
  // `writes` could not be committed.
  void Restore(QueueWrites writes);
  // `puts` are synced.
  void MarkSynced(const std::vector<StoredQueueItem>& puts);
  size_t unwritten() const { return dirty_.size() + deletes_.size(); }
  size_t dirty() const { return dirty_.size(); }
  size_t deletes() const { return deletes_.size(); }

  struct Dead {
    std::string item;
    uint32_t failures = 0;
    int32_t priority = 0;
    int64_t died_ms = 0;
    std::string last_error;
  };
  std::vector<Dead> DeadItems() const;
  // nullopt: the item is not dead.
  std::optional<int32_t> DeadPriority(std::string_view item, uint32_t hash) const;
  bool DropDead(std::string_view item, uint32_t hash);

  // Everything known, by item.
  std::vector<QueueItemInfo> Items(const TimePoint& now) const;

  size_t ready() const { return ready_.size(); }
  size_t processing() const { return counters_.processing; }
  bool has_delayed() const { return !closed_ && !delayed_.empty(); }
  // REQUIRES: has_delayed().
  Nanos next_due() const { return delayed_.NextDue(); }

  QueueCounters& counters() { return counters_; }
  QueueCounters SnapshotCounters() const;

 private:
  struct Grave {
    std::string last_error;
    int64_t died_ms = 0;
  };

  QueueNode* FindOrInsert(std::string_view item, uint32_t hash);
  void Schedule(QueueNode* node, Nanos now, Nanos due);
  void Unschedule(QueueNode* node);
  bool Merge(QueueNode* node, Nanos now, const Request& request);
  void Revive(QueueNode* node);
  void Bury(QueueNode* node, std::string_view error, int64_t died_ms);
  void EraseIfUnused(QueueNode* node);

  bool Describes(const QueueNode& node, Nanos now, const Request& record) const;
  void MarkDirty(QueueNode* node);
  void Clean(QueueNode* node);
  void Delete(const QueueNode& node, uint64_t generation);
  bool IsDueNow(const QueueNode& node, Nanos now) const;
  void CollectPut(QueueNode* node, const TimePoint& now,
                  const std::function<uint64_t()>& generation, QueueWrites* writes);

  const bool durable_;
  bool closed_ = false;
  NodeTable nodes_;
  ReadyLists ready_;
  DelayHeap delayed_;
  NodeList in_process_;  // the one that runs longest first
  DirtyList dirty_;
  std::vector<std::pair<std::string, uint64_t>> deletes_;
  std::unordered_map<const QueueNode*, Grave> graves_;
  // Why those failed last that are tried again: kept for whoever looks at the disk.
  std::unordered_map<const QueueNode*, std::string> errors_;
  // Whose dead letter, where the loader still comes to one, is out of date.
  std::optional<std::unordered_set<std::string>> done_while_loading_;
  QueueCounters counters_;
};

}  // namespace larder::internal
