// One registered handler: its buffer, its thread, and what waits for it on disk.
//
// Numbered, because the order of things matters here:
//  1. Stage() is called for each change under the collection's write lock, before the commit;
//     Publish() after it. A filter narrows the change first, so that what is merged later is exact.
//     Rows are narrowed once more when they are read: those kept while nobody of the name was there
//     have met no filter.
//  2. While the buffer has room and nothing waits on disk, a change goes through memory. A durable
//     handler's change is written as a row too, in the change's own commit, and the row is removed
//     once the handler has returned.
//  3. When the buffer is full, the listener spills: from then on every change goes to disk only,
//     merged per key, until the handler has drained all rows. So per key nothing in memory is newer
//     than anything on disk.
//  4. Spilling ends under the write lock, when no row is left: no change can slip between the look
//     and the switch.
//  5. What is stored already (at registration, and at a resync) is read in small pieces, under the
//     write lock, into the end of the buffer. So per key it is in order with the changes, memory
//     does not grow with the collection, and no snapshot is held while the handler works.
//  6. The first such stream lasts until the first list is complete. Changes of keys that it has not
//     come to are left out, because it will show their outcome; while it is at the end of what is
//     stored (idle), and there is room, they go through memory and the stream moves on with them.
//     So a slow handler costs no disk during the first list. It goes on beside rows, a piece after
//     each page of them: keys that it has not come to have none. (Another stream waits until there
//     are none at all.) Its end is told after one round over the rows that stood then: so also a
//     handler that never catches up is synced, and its name known.
//     Rows are not needed before the stream is over: until then a durable name is not known, and a
//     restart begins the stream again.
//     So a handler that blocks stalls nobody: its buffer is bounded, and its rows are bounded by
//     the number of objects that it knows or that are stored.
//     A raised revision of a known name is no first stream: the name stays known as it was, its
//     rows stay, and no change is left out, so that neither a delete that waits nor the way back to
//     the revision before loses anything. What is stored is told again behind the rows, and then
//     the revision is remembered.
//  7. A handler that gathers (EventHandler::MaxDelay) has dealt with a change when its Flush has
//     returned, not before: every acknowledgement comes after one, and so do the rows on disk.
//     Rows are read when everything told so far is acknowledged: only then do they begin with the
//     state that the handler knows.
//  8. A thread cannot be ended from outside. When a handler does not return in time, Stop() leaves
//     its thread behind: detached, with the listener in its hands, and without a further look at
//     the indexer, the store or the clock, which may be gone by then. It ends with the handler's
//     call.
//
// Lock order: the collection's write lock, then mutex_. No handler runs under either; a filter runs
// under the first. listener.cc has what others call, listener_delivery.cc the handler's thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "indexer/indexer.h"
#include "informer/change.h"
#include "informer/durable_names.h"
#include "informer/event_handler.h"
#include "informer/pending_deltas.h"

namespace larder {

struct ListenerStats {
  uint64_t delivered = 0;
  uint64_t merged = 0;   // changes that joined a row which waited already
  uint64_t spilled = 0;  // changes that went to disk only
  uint64_t exceptions = 0;
  uint64_t resyncs = 0;             // begun
  size_t buffered = 0;              // changes in memory
  size_t buffered_bytes = 0;        // and their objects
  size_t rows = 0;                  // keys whose change is on disk and not acknowledged
  std::chrono::milliseconds lag{};  // since the oldest change that waits came; 0: none waits
  bool spilling = false;
  std::optional<Error> error;
};

class Listener final : public std::enable_shared_from_this<Listener> {
 public:
  Listener(Indexer* indexer, DurableNames* names, std::shared_ptr<EventHandler> handler,
           HandlerOptions options, std::string name, Clock* clock);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Reads what the store knows of a durable name. `complete`: the collection is
  // served already, so there is no first list to come. Before Start, under the
  // collection's write lock, so that what is stored now and what is staged from
  // now on are all there is.
  Result<void> Open(bool complete);
  void Start();
  // In the place of Start, for a simulation: delivers what waits, on this thread, until a stop is
  // requested, and acknowledges it.
  Result<void> DeliverWaiting(const std::stop_token& stop);
  // Ends the thread; what was not delivered waits on disk for a durable
  // handler. Called by the handler itself, it returns at once and the thread
  // ends with the call. False: the handler has not returned by `deadline`, and
  // its thread was left behind, by this call or by another. Several may call it
  // at once.
  bool Stop(Clock::Steady deadline = Clock::Steady::max());
  void RequestStop() { thread_.request_stop(); }
  // Does its thread do nothing more? Stop() returns at once then.
  bool HasEnded() const {
    MutexLock lock(mutex_);
    return ended_;
  }
  bool OnOwnThread() const { return thread_id_.load() == std::this_thread::get_id(); }
  // Removes what is on disk of it; a durable name is known no more. What its thread still does
  // brings neither back, and touches nothing of the next handler of that name. Under the
  // collection's write lock, with no change to be staged for it after that.
  Result<void> Forget();

  Result<void> Stage(Indexer::Writer& writer, const ObjectChange& change);
  void Publish(bool committed);
  // The first list is committed whole.
  void ListComplete();

  // Has the handler returned from everything that belongs to the first list?
  bool HasSynced() const { return synced_.load(); }
  ListenerStats Stats() const;
  const std::string& name() const { return name_; }
  const HandlerOptions& options() const { return options_; }

 private:
  struct Pending {
    ObjectChange change;
    uint64_t generation = 0;  // of its row; 0: none
    bool list_end = false;    // not a change: the first list ends here
    Clock::Steady since{};    // when it came
  };
  // kAgain: of a raised revision, adds as of the first one, beside changes as of a resync.
  enum class Stream { kNone, kFirst, kAgain, kResync };

  void Run(const std::stop_token& stop);
  void Work(const std::stop_token& stop);
  bool Wait(const std::stop_token& stop);
  Result<std::optional<std::vector<PendingDeltas::Row>>> ReadRows();
  // False, as of Deliver: leave everything alone.
  Result<bool> DeliverBuffered(const std::stop_token& stop);
  Result<bool> DeliverRows(const std::stop_token& stop, bool one_page);
  Result<bool> DeliverOnce(const std::stop_token& stop);
  // Puts the next piece of the stream into the buffer, when that has room.
  Result<void> ReadStream();
  // Has it keys to tell that wait for nothing but their turn?
  bool FirstStreamIsBehind() const;
  void EndStream() LARDER_REQUIRES(mutex_);
  bool HasRoom() const LARDER_REQUIRES(mutex_);
  bool OnlyListEndIsBuffered() const LARDER_REQUIRES(mutex_);
  void BeginResyncWhenDue();
  // False: the thread was left behind while the handler ran.
  bool Deliver(const ObjectChange& change);
  void Call(const ObjectChange& change);
  // Waits until the handler has dealt with what it heard, for as long as no stop is requested.
  // False, as of Deliver. The handler's error: it has not.
  Result<bool> Flush(const std::stop_token& stop);
  Result<void> CallFlush();
  bool MayGather();
  void AddDelivered(PendingDeltas::Delivered delivered);
  Result<void> AcknowledgeDelivered();
  Result<void> EndRound();
  Result<void> RememberName();
  // Are the name and its rows no more its own, but those of the next handler of that name? Only
  // known under the write lock.
  bool IsForgotten(const Indexer::Writer& write_lock) const;
  std::optional<ObjectChange> NarrowToFilter(const ObjectChange& change);
  void NarrowToFilter(PendingDeltas::Row& row);
  bool Holds(const Object& object);
  void SetError(const Result<void>& outcome);
  Clock::Steady NextResync() const;
  void PushListEnd() LARDER_REQUIRES(mutex_);

  Indexer* const indexer_;
  DurableNames* const names_;
  const std::shared_ptr<EventHandler> handler_;
  const HandlerOptions options_;
  const std::string name_;
  Clock* const clock_;
  PendingDeltas rows_;

  mutable Mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Pending> buffer_ LARDER_GUARDED_BY(mutex_);
  size_t buffer_bytes_ LARDER_GUARDED_BY(mutex_) = 0;
  std::vector<Pending> staged_ LARDER_GUARDED_BY(mutex_);  // of the commit under way
  // Rows that it makes, less those it takes away.
  ptrdiff_t staged_rows_ LARDER_GUARDED_BY(mutex_) = 0;
  bool spilling_ LARDER_GUARDED_BY(mutex_) = false;
  bool rows_waiting_ LARDER_GUARDED_BY(mutex_) = false;  // there may be rows on disk to deliver
  Clock::Steady spilling_since_ LARDER_GUARDED_BY(mutex_){};
  size_t row_count_ LARDER_GUARDED_BY(mutex_) = 0;
  Stream stream_ LARDER_GUARDED_BY(mutex_) = Stream::kNone;
  ObjectKey stream_after_ LARDER_GUARDED_BY(mutex_);  // the last key that was read
  // The first stream has come to the end of what is stored so far.
  bool stream_idle_ LARDER_GUARDED_BY(mutex_) = false;
  bool list_complete_ LARDER_GUARDED_BY(mutex_) = false;  // told while the first stream was read
  bool forgotten_ LARDER_GUARDED_BY(mutex_) = false;      // set under the write lock
  Clock::Steady resync_at_ LARDER_GUARDED_BY(mutex_) = Clock::Steady::max();
  ListenerStats stats_ LARDER_GUARDED_BY(mutex_);
  bool busy_ LARDER_GUARDED_BY(mutex_) = false;  // the handler is being called
  // With this; null: with Flush.
  const ObjectChange* delivering_ LARDER_GUARDED_BY(mutex_) = nullptr;
  bool stopping_ LARDER_GUARDED_BY(mutex_) = false;  // Stop() waits
  bool ended_ LARDER_GUARDED_BY(mutex_) = false;     // the thread does nothing more
  bool started_ LARDER_GUARDED_BY(mutex_) = false;
  // Somebody joins thread_, or has left it behind: nobody else may touch it.
  bool let_go_ LARDER_GUARDED_BY(mutex_) = false;
  // Itself, as long as its detached thread needs it.
  std::shared_ptr<Listener> left_behind_ LARDER_GUARDED_BY(mutex_);
  std::atomic<std::thread::id> thread_id_{};  // of its thread, while that runs
  std::atomic<bool> synced_{false};
  // The thread's, once it runs.
  bool note_due_ = false;  // the durable name is to be remembered when the stream is delivered
  ObjectKey rows_after_;   // the last key that was read in this round over the rows
  // The round meets every row of the first list; and one has.
  bool list_rows_in_round_ = false;
  bool list_rows_told_ = false;
  std::vector<PendingDeltas::Delivered> delivered_;  // to acknowledge
  size_t delivered_bytes_ = 0;                       // of its objects
  const std::chrono::nanoseconds max_delay_;         // the handler's
  size_t unflushed_ = 0;                             // changes that it gathers
  Clock::Steady flush_at_{};                         // when there are any
  std::jthread thread_;                              // last
};

}  // namespace larder
