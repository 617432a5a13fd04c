// One registered handler: its buffer, its thread, and what waits for it on disk.
//
// Numbered, because the order of things matters here:
//  1. Stage() is called for each change under the collection's write lock, before the commit;
//  Publish() after it.
//  2. While the buffer has room and nothing waits on disk, a change goes through memory. A durable
//  handler's change is
//     written as a row too, in the change's own commit, and the row is removed once the handler has
//     returned.
//  3. When the buffer is full, the listener spills: from then on every change goes to disk only,
//  merged per key, until the
//     handler has drained all rows. So per key nothing in memory is newer than anything on disk.
//  4. Spilling ends under the write lock, when no row is left: no change can slip between the look
//  and the switch.
// So a handler that blocks stalls nobody: its buffer is bounded, and its rows are bounded by the
// number of keys.
//
// Lock order: the collection's write lock, then mutex_. No user code runs under either.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "indexer/indexer.h"
#include "informer/change.h"
#include "informer/event_handler.h"
#include "informer/pending_deltas.h"

namespace larder {

struct ListenerStats {
  uint64_t delivered = 0;
  uint64_t merged = 0;   // changes that joined a row which waited already
  uint64_t spilled = 0;  // changes that went to disk only
  uint64_t exceptions = 0;
  size_t buffered = 0;  // changes in memory
  bool spilling = false;
  std::optional<Error> error;
};

class Listener {
 public:
  // `complete`: the collection is served already, so the handler starts with what is stored;
  // otherwise it hears the first list as it is committed. Call it under the collection's write
  // lock, so that what is stored now and what is staged from now on are all there is.
  Listener(Indexer* indexer, std::shared_ptr<EventHandler> handler, HandlerOptions options,
           std::string name, Clock* clock);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Reads what the store knows of a durable name. Before Start.
  Result<void> Open(bool complete);
  void Start();
  // Ends the thread; what was not delivered waits on disk for a durable handler.
  void Stop();

  Result<void> Stage(Indexer::Writer& writer, const ObjectChange& change);
  void Publish(bool committed);
  // The first list is committed whole.
  void ListComplete();

  // Has the handler returned from everything that belongs to the first list?
  bool HasSynced() const { return synced_.load(); }
  ListenerStats Stats() const;
  const std::string& name() const { return name_; }

 private:
  struct Pending {
    ObjectChange change;
    uint64_t generation = 0;  // of its row; 0: none
    bool list_end = false;    // not a change: the first list ends here
  };

  void Run(const std::stop_token& stop);
  bool Wait(const std::stop_token& stop);
  void DeliverBuffered(const std::stop_token& stop);
  Result<void> DeliverRows(const std::stop_token& stop);
  Result<void> StreamAll(const std::stop_token& stop, bool resync);
  void Deliver(const ObjectChange& change);
  Result<void> AcknowledgeDelivered();
  Result<void> RememberName();
  void SetError(const Result<void>& outcome);
  Clock::Steady NextResync();

  Indexer* const indexer_;
  const std::shared_ptr<EventHandler> handler_;
  const HandlerOptions options_;
  const std::string name_;
  Clock* const clock_;
  PendingDeltas rows_;

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Pending> buffer_;  // guarded by mutex_, like all below
  size_t buffer_bytes_ = 0;
  std::vector<Pending> staged_;  // of the commit under way
  bool spilling_ = false;
  bool rows_waiting_ = false;  // there may be rows on disk to deliver
  bool stream_all_ = false;    // everything stored is to be delivered as adds first
  std::optional<Indexer::View> stream_view_;
  bool note_due_ = false;  // the durable name is to be remembered when the stream is delivered
  ListenerStats stats_;
  std::atomic<bool> synced_{false};
  std::vector<std::pair<ObjectKey, uint64_t>> delivered_;  // rows to acknowledge; only the thread's
  Clock::Steady resync_at_;
  std::jthread thread_;  // last
};

}  // namespace larder
