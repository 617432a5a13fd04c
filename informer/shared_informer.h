// One collection kept in step with the server, shared by all who need it: client-go's
// SharedIndexInformer, on disk.
//
// After a restart it resumes from the stored version: HasSynced() is true as soon as the watch is
// open, nothing is listed, and a controller or a handler with a durable name hears only what
// changed.
//
// Order and consistency, for every handler and queue:
//  1. What a handler hears of one key is in the server's order; changes may be merged, the last
//  state never is.
//  2. When a handler hears of a change, the indexer shows that change or a later one.
//  3. A queue item is in the same commit as the change that causes it: after any crash both are
//  there or neither.
//  4. A handler that blocks, throws or is slow affects nobody else.
//
// Thread-safe. Durability: see CollectionSyncOptions::durability. Errors of the network are in
// Status(), retried for ever.
//
//   LARDER_ASSIGN_OR_RETURN(auto pods, SharedInformer::Open(context, {.resource =
//   *LookupResource("pods")})); pods->AddEventHandler(handler, {}); pods->Start();
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "client/transport.h"
#include "indexer/indexer.h"
#include "indexer/lister.h"
#include "informer/change.h"
#include "informer/collection_sync.h"
#include "informer/durable_names.h"
#include "informer/event_handler.h"
#include "informer/informer_metrics.h"
#include "informer/listener.h"
#include "informer/pending_deltas.h"
#include "queue/work_queue.h"
#include "reflector/reflector.h"
#include "schema/transform.h"

namespace prometheus {
class Registry;
}

namespace larder {

// What informers of one process share. All of it must outlive them.
struct InformerContext {
  Store* store = nullptr;
  HotTier* hot = nullptr;
  HttpTransport* transport = nullptr;
  // UID of namespace kube-system (FetchClusterUid): which cluster this is.
  std::string cluster_uid;
  // Where metrics go (docs/metrics.md); null: none.
  prometheus::Registry* registry = nullptr;
  // For messages and metrics, where a process has several clusters. Empty: not named.
  std::string cluster_name{};
  // Bounds how many informers list at once; null: nothing does.
  ListGate* list_gate = nullptr;
};

struct InformerOptions {
  Resource resource;
  std::string ns;  // empty: all
  std::string label_selector;
  std::string field_selector;
  std::string shard_selector;
  // Metadata only (PartialObjectMetadata): the rest stays on the server.
  bool metadata_only = false;
  std::vector<IndexDefinition> indexes;
  // SetTransform: applied before storing (schema/transform.h).
  Transform transform;
  // For handlers that name none of their own.
  std::chrono::milliseconds resync_period{0};
  // So long a handler that is busy may take to return when the informer is stopped or the handler
  // removed; after it, its thread is left behind (Stop).
  std::chrono::milliseconds handler_grace = std::chrono::seconds(30);
  Durability durability = Durability::kRelaxed;
  // Everything else about the connection: strategy, timeouts. Resource and selectors are taken from
  // above.
  ReflectorOptions reflector;
  Clock* clock = RealClock();
};

// The collection that these options name: canonical, so that two spellings of one selector are one.
// kInvalidArgument for what cannot be watched.
Result<CollectionSpec> SpecOf(const InformerContext& context, const InformerOptions& options);

// Says which queue items a change causes. Runs inside the change's commit: be
// quick, do not call the informer or the queue. What it throws is logged, and
// the change causes no further items.
using Enqueue = std::function<void(std::string_view item, int32_t priority)>;
using EnqueueFunction = std::function<void(const ObjectChange& change, const Enqueue& enqueue)>;

struct EnqueuerOptions {
  // Durable: a name that is new, or whose revision was raised, gets every
  // object once, at this priority. What changed while nobody of this name was
  // there, deletes included, comes when it is added again, under any revision.
  std::string name;
  uint32_t revision = 1;
  int32_t initial_priority = -100;
  // Every object each time it is added, whether the name is known or not: for who must look at all
  // of them because of something that did not outlive the process.
  bool always_initial = false;
};

struct InformerStatus {
  bool synced = false;
  Cursor cursor;
  std::chrono::milliseconds cursor_age{};                 // since the cursor moved
  std::chrono::milliseconds sync_lag{};                   // see SyncLag()
  std::optional<std::chrono::milliseconds> bookmark_age;  // since the last bookmark came
  ReflectorStatus reflector;
  CollectionSyncStats sync;
  std::vector<std::pair<std::string, ListenerStats>> handlers;
};

class SharedInformer final : private ChangeSink {
 public:
  // What may not reach the disk (Store::KeeperOf) is kept in memory and listed at every start: its
  // durable handlers hear everything again, and its enqueuers queue every key.
  static Result<std::unique_ptr<SharedInformer>> Open(const InformerContext& shared,
                                                      InformerOptions options);
  ~SharedInformer() override;

  // Before or after Start, not after Stop (kCancelled). The registration is for
  // RemoveEventHandler and HasSynced.
  using Registration = std::shared_ptr<Listener>;
  Result<Registration> AddEventHandler(std::shared_ptr<EventHandler> handler,
                                       HandlerOptions options = {});
  // Returns when the handler is not running any more, but for a handler that
  // removes itself. A durable name is forgotten: registered again, it gets
  // everything once. That is so before its last call has returned: no change is
  // missed by a name that counts as known. kNotFound; kTimeout: it is removed,
  // but has not returned from its last call within the grace (Stop). Another
  // error: it is removed, but its name is still known, or rows of it are left,
  // which the next start removes.
  Result<void> RemoveEventHandler(const Registration& registration);
  // Ends the handler as the end of the process would: a durable name that was known stays known
  // under its revision, and what is not acknowledged, or changes, is kept for it. Not from within
  // the handler (kInvalidArgument). kNotFound, kTimeout as above.
  Result<void> ReleaseEventHandler(const Registration& registration);
  // Ends what is kept for a durable name that is registered no more. kConflict:
  // it is registered.
  Result<void> ForgetHandler(const std::string& durable_name);
  // `queue` must outlive the informer and have the informer's own store for the
  // items to be in the change's commit; else they are added right after it.
  Result<void> AddEnqueuer(WorkQueue* queue, EnqueuerOptions options, EnqueueFunction function);
  // The names of enqueuers that were added once and are not there now: their changes are kept.
  std::vector<std::string> AbsentEnqueuers() const;
  // Ends what is kept for one of them: added again, it is new. kNotFound: none is kept.
  Result<void> ForgetEnqueuer(const std::string& name);

  // Starts listing or watching; returns at once.
  void Start();
  // Ends everything in order: the stream, the commits, the handlers. May not be started again.
  //
  // No thread can be ended against its will. Handlers that do not return within the grace are left
  // behind and returned here by name; the log says with which object each is busy. Such a handler
  // hears nothing more, nothing of ours is touched when it does return, and its last change counts
  // as not acknowledged. What the handler itself uses must stay alive: often the process should
  // end.
  std::vector<std::string> Stop();
  // The same with another end of the grace than handler_grace from now.
  std::vector<std::string> StopBy(Clock::Steady deadline);
  // Begins to end the stream and returns at once; Stop() does the rest.
  void RequestStop();
  bool IsStarted() const;
  bool IsStopped() const { return stopped_.load(); }

  // Complete, and the connection has been up since the start (or the resume was checked).
  bool HasSynced() const;
  Result<void> WaitForSync(Clock::Steady deadline, const std::stop_token& stop) const;
  // Waits until this version is committed here: for reading one's own write.
  Result<void> WaitUntil(std::string_view resource_version, Clock::Steady deadline,
                         const std::stop_token& stop) const {
    return sync_->WaitUntil(resource_version, deadline, stop);
  }
  std::string LastSyncResourceVersion() const { return sync_->cursor().resource_version; }
  // Since when the cursor has not moved. A quiet collection's moves with the
  // server's bookmarks.
  std::chrono::milliseconds CursorAge() const;
  // For how long the cache may be behind the server: 0 while the watch is open
  // and everything that arrived is committed; else the time since it last was
  // so, also before this process began.
  std::chrono::milliseconds SyncLag() const;
  InformerStatus Status() const;
  // Brings the metrics up to date; it happens twice a second by itself.
  void PublishMetrics();

  // client-go's Store is the part of the indexer without indexes.
  Indexer& GetStore() { return *indexer_; }
  Indexer& GetIndexer() { return *indexer_; }
  const Indexer& GetIndexer() const { return *indexer_; }
  Lister GetLister() const { return Lister(indexer_.get()); }
  Result<void> AddIndexers(std::vector<IndexDefinition> indexes) {
    return indexer_->AddIndexers(std::move(indexes));
  }
  // The same for several who declare what they need: one that is there already as it is asked for
  // is fine, another definition under its name is kAlreadyExists.
  Result<void> EnsureIndexers(std::vector<IndexDefinition> indexes);
  // Called when the server turns out to be another cluster, from the informer's thread, which it
  // may stop, but not destroy. Open a new informer then.
  void SetAnotherClusterHandler(std::function<void()> handler);
  // Called with every failure of a list or a watch, from the informer's thread,
  // before the wait that follows it; it may stop the informer, but not destroy
  // it. The failure is in Status(), the log and the metrics in any case.
  void SetWatchErrorHandler(std::function<void(const Error&)> handler);

  const InformerOptions& options() const { return options_; }

 private:
  friend class ScopedInformer;         // whose handlers are removed from several informers at once
  friend class SharedInformerFactory;  // which stops several

  struct Enqueuer {
    WorkQueue* queue;
    EnqueuerOptions options;
    EnqueueFunction function;
    // Under the informer's mutex_:
    WorkQueue::Staged staged;  // of the commit under way
    bool initial_due = false;  // every stored object is to be enqueued once
    bool enqueued = false;     // and was, but for what comes with its own commit
  };

  SharedInformer(const InformerContext& context, InformerOptions options);
  Result<void> Stage(Indexer::Writer& writer, const ObjectChange& change) override;
  void Publish(bool committed) override;
  void Synced() override;
  void InSync() override;
  void Run(const std::stop_token& stop);
  void KeepForAbsent();
  // Removes rows of which no name is known: of handlers without one, and of those that were killed
  // before theirs was.
  void DropNobodysRows();
  Result<void> EnqueueAll(Enqueuer& enqueuer);
  Result<void> EnqueueKept(Enqueuer& enqueuer);
  // As if it had never been: it may be added again, and a known name's changes are kept until then.
  void ReleaseEnqueuer(const std::string& enqueuer);
  Result<void> RememberEnqueuer(Enqueuer& enqueuer);
  void RememberEnqueuers();
  static void StageItems(Enqueuer& enqueuer, Indexer::Writer& writer, const ObjectChange& change);
  Clock::Steady GraceEnd() const { return options_.clock->Now() + options_.handler_grace; }
  // Those of retired_ that have ended, to be let go without a lock.
  std::vector<Registration> TakeEnded() LARDER_REQUIRES(mutex_);
  // The two halves of StopBy: ends the stream and the commits, and asks the handlers to end, which
  // are returned; waits for them.
  std::vector<Registration> EndStream();
  static std::vector<std::string> EndHandlers(const std::vector<Registration>& listeners,
                                              Clock::Steady deadline);
  // The two halves of RemoveEventHandler: from the first on it is told of no change, after the
  // second it does not run.
  Result<void> Withdraw(const Registration& registration);
  Result<void> WaitForEnd(const Registration& registration) const;
  tl::unexpected<Error> LeftBehind(const Listener& listener) const;
  Result<std::string> HandlerName(const HandlerOptions& options) LARDER_REQUIRES(mutex_);
  void WatchFailed(const Error& error);

  const InformerContext context_;
  const InformerOptions options_;
  std::unique_ptr<Indexer> indexer_;
  std::string taken_;  // the fingerprint: no other informer of this process may have it
  std::unique_ptr<DurableNames> names_;
  std::unique_ptr<CollectionSync> sync_;
  std::unique_ptr<Reflector> reflector_;
  std::unique_ptr<InformerMetrics> metrics_;  // null without a registry

  Mutex indexers_mutex_;  // one EnsureIndexers at a time
  mutable Mutex mutex_;   // taken after the collection's write lock
  mutable std::condition_variable_any changed_;
  std::vector<Registration> listeners_ LARDER_GUARDED_BY(mutex_);
  // Those that removed themselves, until their threads have ended.
  std::vector<Registration> retired_ LARDER_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Enqueuer>> enqueuers_ LARDER_GUARDED_BY(mutex_);
  // Durable names of which nobody is registered now: their changes are kept.
  std::map<std::string, PendingDeltas> absent_ LARDER_GUARDED_BY(mutex_);
  bool started_ LARDER_GUARDED_BY(mutex_) = false;
  // The collection is complete, and handlers were told.
  bool listed_ LARDER_GUARDED_BY(mutex_) = false;
  uint64_t handler_count_ LARDER_GUARDED_BY(mutex_) = 0;
  std::function<void()> another_cluster_ LARDER_GUARDED_BY(mutex_);
  std::function<void(const Error&)> watch_error_ LARDER_GUARDED_BY(mutex_);
  // When the cache was last seen to be up to date.
  mutable Clock::Wall current_at_ LARDER_GUARDED_BY(mutex_);
  std::atomic<bool> stopped_{false};
  std::jthread thread_;
  std::shared_ptr<void> publishing_;  // last: it uses the rest
};

}  // namespace larder
