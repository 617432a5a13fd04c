// The work queue: client-go's, and it survives.
//
// Four words from client-go hold here, too. Fair: items are handed out in the order in which they
// came, within a priority. Stingy: an item is never processed twice at once; added again before a
// worker took it, it is processed once; added again while in process, once more after Done. Many
// producers and many workers. Shutdown is announced to all of them. An item has one pending run at
// a time: of several times the earliest counts, of several priorities the highest.
//
// What it guarantees, with a store: an item stays on disk until Done(item) is committed, so that
// after any crash everything pending, delayed, in process or dead comes back, with priority,
// failures and the absolute time before which it must not run (one that passed meanwhile is due at
// once). At least once: a Done that was not committed yet is repeated.
//
// Durability of Add, AddAfter, AddRateLimited: relaxed (written within flush_interval, synced
// within the store's interval; an item that is done before it is written never reaches the disk) or
// sync (on disk before the call returns; concurrent callers share one sync). Items caused by a
// watch event go into the event's own commit: Stage, Committed. Without a store everything is in
// memory only.
//
// Thread-safe. Never calls user code (the rate limiter) under its lock. Errors: a durable add may
// fail with what the store says; the item is queued all the same and its write is tried again, see
// Status().
//
//   LARDER_ASSIGN_OR_RETURN(auto queue, WorkQueue::Open({.name = "pods", .store = store.get()}));
//   while (auto item = queue->Get(stop)) {
//     if (Reconcile(*item)) queue->Forget(*item); else queue->AddRateLimited(*item);
//     queue->Done(*item);
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "queue/queue_counters.h"
#include "queue/queue_item_info.h"
#include "queue/rate_limiter.h"
#include "storage/options.h"
#include "storage/store.h"

namespace prometheus {
class Registry;
}

namespace larder {

struct WorkQueueOptions {
  // Names the queue on disk and in metrics. A durable queue needs one.
  std::string name{};
  // Where items are kept; must outlive the queue. Null: in memory only.
  Store* store = nullptr;
  // For Add and its variants; AddOptions can choose otherwise for one item.
  Durability durability = Durability::kRelaxed;
  // How long a relaxed add or an acknowledgement may wait to be written. Zero: the queue has no
  // thread of its own, loads while it is opened, and writes when Flush() is called.
  std::chrono::milliseconds flush_interval{10};
  // So many times in a row a failed item is tried again; at the next failure AddRateLimited puts it
  // among the dead letters. None: it is tried for ever.
  std::optional<uint32_t> max_retries{};
  // Null: DefaultControllerRateLimiter().
  RateLimiterPtr rate_limiter{};
  // Where workqueue_* metrics go; must outlive the queue. Null: none, and no clock is read on a
  // worker's path.
  prometheus::Registry* metrics = nullptr;
  Clock* clock = RealClock();
};

struct AddOptions {
  // Not before this long from now.
  std::chrono::nanoseconds after{0};
  // Count a failure and wait as the rate limiter says; with `after` set, the shorter of both.
  bool rate_limited = false;
  // Nor before this long from now, whatever the rate limiter says: what a server asked for.
  std::chrono::nanoseconds at_least{0};
  // Higher first; an item that is pending keeps a higher one. None: 0, or for a rate-limited item
  // in process the priority it was taken with, or was added with since.
  std::optional<int32_t> priority{};
  // Why it failed: kept on disk with the item, its beginning only unless it becomes a dead letter.
  std::string_view error{};
  std::optional<Durability> durability{};
};

// An item as a worker gets it.
struct WorkItem {
  std::string item;
  int32_t priority = 0;
  uint32_t failures = 0;
};

struct DeadLetter {
  std::string item;
  uint32_t failures = 0;
  int32_t priority = 0;
  int64_t died_ms = 0;
  std::string last_error;
};

class WorkQueue {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr Duration kForever = Duration::max();
  // Items are keys or other small values.
  static constexpr size_t kMaxItemBytes = 32768;

  // Opens a queue, durable when options.store is set. What is stored streams in behind the call:
  // the first Get is served before all is loaded. kAlreadyExists: this process has the queue open
  // already.
  static Result<std::unique_ptr<WorkQueue>> Open(WorkQueueOptions options);
  // For a queue in memory, which cannot fail to open. REQUIRES: options.store is null.
  explicit WorkQueue(WorkQueueOptions options = {});
  // Shuts down and writes what is not written yet.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // After ShutDown a durable queue stores what is added for its next start; one in memory refuses
  // it (kCancelled).
  Result<void> Add(std::string_view item);
  Result<void> AddWithOptions(std::string_view item, const AddOptions& options);
  Result<void> AddWithPriority(std::string_view item, int32_t priority);
  Result<void> AddAfter(std::string_view item, Duration delay);
  // For a failed item, before its Done.
  Result<void> AddRateLimited(std::string_view item, std::string_view error = {});

  // Waits for an item. nullopt: a stop was requested, the time is over, or the queue is shut down
  // and has handed out all that was ready.
  std::optional<std::string> Get(const std::stop_token& stop = {}, Duration timeout = kForever);
  std::optional<WorkItem> GetWithPriority(const std::stop_token& stop = {},
                                          Duration timeout = kForever);
  // The run of this item is over, well or not: call it for every item that Get returned.
  void Done(std::string_view item);

  // The item succeeded (or is given up): its failures no longer count.
  void Forget(std::string_view item);
  uint32_t NumRequeues(std::string_view item) const;

  // Items ready for a worker.
  size_t Len() const;

  void ShutDown();
  // ShutDown, then waits until no item is in process, or ShutDown is called. Workers must go on
  // calling Done.
  void ShutDownWithDrain();
  bool ShuttingDown() const;

  // Items of an event's transaction. Not thread-safe; give it to Committed after the commit, or
  // drop it when the commit failed.
  class Staged {
   public:
    size_t size() const { return entries_.size(); }

   private:
    friend class WorkQueue;
    struct Entry {
      std::string item;
      uint64_t generation;  // 0: it is in no store
      int32_t priority;
    };
    std::vector<Entry> entries_;
  };
  // Puts the item into `transaction`, so that it is stored if and only if the change that causes it
  // is. Workers see it when Committed is called. A transaction of another store than the queue's
  // does not get it: Committed then adds it as a relaxed Add does. kInvalidArgument: it is too
  // long, and was put nowhere; the second form then returns nothing staged.
  Result<void> Stage(Transaction& transaction, std::string_view item, int32_t priority,
                     Staged* staged);
  Staged Stage(Transaction& transaction, std::string_view item, int32_t priority = 0);
  void Committed(Staged staged);

  // Dead letters. All wait until the queue is loaded.
  std::vector<DeadLetter> DeadLetters() const;
  // Back to work, with its priority and no failures. kNotFound: no such dead letter.
  Result<void> Requeue(std::string_view item);
  Result<void> Drop(std::string_view item);

  // Of adds that do not choose.
  Durability durability() const;
  // Writes all that is not written yet.
  Result<void> Flush(Durability durability = Durability::kRelaxed);
  // Waits until everything stored is in the queue. kCancelled: a stop was requested.
  Result<void> WaitUntilLoaded(const std::stop_token& stop = {}) const;

  struct QueueStatus {
    bool loaded = true;
    size_t unwritten = 0;
    // The last load when it failed, or the last write while something is unwritten. A load that the
    // disk failed is tried again. An item whose record is damaged is named and handed out at once;
    // where a whole block of a table is, what is stored behind it is not handed out.
    std::optional<Error> error;
  };
  QueueStatus Status() const;
  QueueCounters Counters() const;
  // Everything in the queue, by item: for inspection, not for work.
  std::vector<QueueItemInfo> Items() const;
  // Brings the metrics up to date; the queue does it twice a second by itself.
  void PublishMetrics();

 private:
  friend class WorkQueueTestPeer;
  class Impl;
  explicit WorkQueue(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace larder
