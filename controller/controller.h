// One controller: its queue, its workers, and what they do with an outcome.
//
// The queue is durable by the controller's name: after a restart it holds what was pending and what
// changed, and nothing else. A new name, or a raised revision, gets every key once at
// initial_priority, so that live changes go first.
//
// Made by ControllerBuilder and run by the Manager; users hold it for figures, dead letters and to
// add keys by hand. Thread-safe.
//
//   controller->queue().DeadLetters();
//   controller->Trigger({"default", "web-1"});
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "controller/controller_metrics.h"
#include "controller/deadlines.h"
#include "controller/reconciler.h"
#include "controller/source.h"
#include "informer/shared_informer.h"
#include "queue/work_queue.h"

namespace larder {

struct ControllerOptions {
  // How many keys at once. 0: as the manager's configuration says.
  uint32_t max_concurrent_reconciles = 0;
  // A run's stop is requested after this time, and it counts as failed. 0: no limit.
  std::chrono::nanoseconds reconcile_timeout{0};
  // Of keys that changes queue; higher first.
  int32_t priority = 0;
  // Of the keys of a first start, a raised revision, and resyncs.
  int32_t initial_priority = -100;
  // Raise it when the reconcile's logic changed so that every key has to be looked at once more.
  uint32_t revision = 1;
  // None: as the manager's configuration says. 0: keys are tried for ever.
  std::optional<uint32_t> max_retries{};
  // Null: as the manager's configuration says.
  std::function<RateLimiterPtr()> rate_limiter{};
  // None: as the manager's configuration says.
  std::optional<std::chrono::nanoseconds> resync_period{};
  // An exception is an error of its key; false: it ends the process.
  bool recover_panic = true;
  // Runs on every replica, leader or not: for controllers that write nothing to the cluster.
  bool needs_leader_election = true;
  // Of items added by hand, delays and retry counts; items of changes are in the change's commit.
  Durability durability = Durability::kRelaxed;
};

class Controller {
 public:
  struct Definition {
    std::string name;
    std::vector<Source> sources;
    std::vector<Predicate> predicates;  // for all sources
    ControllerOptions options;
    std::shared_ptr<Reconciler> reconciler;
  };
  // What it is run with. All must outlive it.
  struct Environment {
    CachedClient* client = nullptr;
    EventRecorder* events = nullptr;
    prometheus::Registry* registry = nullptr;
    Clock* clock = RealClock();
    // For Requeue().
    std::chrono::nanoseconds base_delay = std::chrono::milliseconds(5);
    std::chrono::nanoseconds max_delay = std::chrono::seconds(1000);
    // False: the lease is lost, and writes are refused. Null: there is none.
    std::function<bool()> leads{};
  };

  Controller(Definition definition, std::unique_ptr<WorkQueue> queue, Environment environment);
  // Stops.
  ~Controller();

  const std::string& name() const { return definition_.name; }
  const Definition& definition() const { return definition_; }
  WorkQueue& queue() { return *queue_; }

  // Reconcile this key, as if it had changed.
  Result<void> Trigger(const ObjectKey& key) { return queue_->Add(key.ToString()); }

  // Before Start: no key is handed out until this is synced. It must outlive the controller's work.
  void WaitFor(const SharedInformer* source) { waits_for_.push_back(source); }
  // Before Start, for objects that have a namespace: a key of one that none of these watches is
  // dropped (a setting was narrowed). Without a call none is.
  void ServeNamespacesOf(const std::vector<SharedInformer*>& informers);
  void Start();
  // Hands out no more keys. Running reconciles go on.
  void BeginStop();
  // Asks running reconciles to end, too.
  void CancelRuns() { runs_.request_stop(); }
  // Waits until none runs; false when `deadline` came first.
  bool WaitUntilIdle(Clock::Steady deadline);
  // The keys in process, for who waited for them in vain.
  std::set<std::string> Running() const;
  void Stop();

 private:
  void Work();
  // False: stopped before.
  bool WaitForSources() const;
  void Process(const WorkItem& item);
  void Drop(const WorkItem& item);
  bool Serves(const std::string& ns) const;
  Result<Outcome> Run(const ObjectKey& key, const WorkItem& item, const ReconcileLog& log);
  Result<Outcome> Call(ReconcileContext& context, const ReconcileRequest& request);
  internal::ControllerMetrics::Result Settle(const WorkItem& item, const ReconcileLog& log,
                                             const Result<Outcome>& outcome);
  // It was ended by us, or its writes were refused, and is no failure of its key.
  bool Interrupted(const Error& error) const;
  void SettleError(const WorkItem& item, const ReconcileLog& log, const Error& error);

  const Definition definition_;
  const Environment environment_;
  const std::unique_ptr<WorkQueue> queue_;
  std::vector<const SharedInformer*> waits_for_;
  std::set<std::string> namespaces_;  // that are served; none, or one that is empty: all
  internal::ControllerMetrics metrics_;
  ItemExponentialRateLimiter requeues_;  // for Requeue(), which is no failure
  std::unique_ptr<internal::Deadlines> deadlines_;
  std::stop_source runs_;     // of the reconciles
  std::stop_source workers_;  // of handing out

  mutable Mutex mutex_;
  std::condition_variable_any idle_;
  uint32_t alive_ LARDER_GUARDED_BY(mutex_) = 0;             // workers
  std::set<std::string> running_ LARDER_GUARDED_BY(mutex_);  // keys
  std::vector<std::jthread> threads_;                        // last
};

}  // namespace larder
