// The manager's parts and the order in which they end. For controller/ itself.
#pragma once

#include <prometheus/registry.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "controller/manager.h"
#include "controller/resyncer.h"

namespace larder {

class Manager::Impl {
 public:
  explicit Impl(ManagerOptions options);
  ~Impl();

  // Opens what needs no server.
  Result<void> Open();
  Result<void> Run(const std::stop_token& stop);

  // Starting, in the order of Run.
  Result<void> Serve();
  Result<void> FindCluster(const std::stop_token& stop);
  Result<Resource> Resolve(const ResourceName& name, const std::stop_token& stop);
  // Asks again while the server is away, or, with `whatever_it_says`, until it says no error.
  template <typename Ask>
  auto UntilAnswered(const Ask& ask, bool whatever_it_says, const std::stop_token& stop)
      -> decltype(ask());
  Result<void> MakeControllers(const std::stop_token& stop);
  // What a controller works on, opened before anything is queued.
  struct Opened {
    const Source* source;
    Resource resource;
    std::vector<SharedInformer*> informers;  // one for each namespace
  };
  struct Prepared {
    Controller* controller = nullptr;
    Resource owner;  // For's
    std::vector<Opened> sources;
    // A source is kept in memory alone, so there is nothing to compare it with at the next start:
    // that an object of it was deleted meanwhile shows only in what it belonged to.
    bool forgetful = false;
  };
  Result<Prepared> MakeController(Controller::Definition definition, const std::stop_token& stop);
  // Changes are queued from now on. Those of For and Owns before the informers start, in the
  // commits of their first lists. Those of Watches (`mapped`) when all are in sync: a mapping that
  // reads what is not listed yet finds nothing, and would be done with its object for good. What
  // changes until then is kept for a source that is known; a new one gets every object.
  Result<void> AttachSources(bool mapped);
  Result<void> Attach(const Prepared& to, const Opened& opened);
  // Of controllers and sources that an earlier run had: nobody comes for what is kept for them. The
  // store is ours alone, and all of ours are attached.
  void ForgetFormerSources();
  Result<std::vector<SharedInformer*>> OpenInformers(const Source& source,
                                                     const Resource& resource);
  // Of all that is opened. kCancelled: a stop was requested.
  Result<void> WaitForIndexes(const std::stop_token& stop);
  Result<void> OpenWatches(const std::stop_token& stop);
  Result<void> Sync(const std::stop_token& stop);
  // Waits for the lease, and holds it from then on. None: without leader election.
  Result<std::optional<Leadership>> Lead(const std::stop_token& stop);
  Result<void> Work(const std::stop_token& stop);
  void StartControllers(bool leaders);
  void StartRunnables(bool leaders, const std::stop_token& stop);
  // Ending.
  void EndWork(bool lost_lease);
  // Until when the work may go on; past: not any more.
  Clock::Steady LeadsUntil() const;
  // Until when work that was asked to end may go on: nobody else holds the lease before.
  Clock::Steady LeaseEnds() const;
  // Until all have ended or the deadline came; false when the lease was lost first.
  bool WaitWhileHolding(Clock::Steady deadline);
  // For controllers, runnables and resyncs; false when `deadline` came first.
  bool WaitForWork(Clock::Steady deadline);
  bool WaitForRunnables(Clock::Steady deadline);
  void Stuck();
  void LogStuck();
  std::vector<internal::Resyncer*> Resyncers() const;
  void Finish();

  // None goes before the manager does.
  std::vector<Controller*> Controllers() const;
  SharedInformerFactory* Factory() const;

  // Ends Run with this reason; the first one counts.
  void Fail(Error reason);
  Result<void> MayWrite() const;
  WorkQueueOptions QueueOptions(const Controller::Definition& definition);
  EnqueueFunction BehindWhileNotLeading(EnqueueFunction function, int32_t priority);
  void PublishLeadership();

  const ManagerOptions options;
  const ManagerConfig& config;
  Clock* const clock;

  // Destroyed in reverse: controllers before informers' queues, informers before the store.
  prometheus::Registry registry;
  ClientConfig client_config;
  std::unique_ptr<Store> store;
  std::unique_ptr<HotTier> hot;
  std::unique_ptr<HttpTransport> transport;
  std::unique_ptr<HttpTransport> election_transport;
  std::unique_ptr<LeaderElector> elector;
  std::unique_ptr<CachedClient> client;
  std::unique_ptr<EventRecorder> events;
  std::unique_ptr<HealthServer> health;
  std::string cluster_uid;
  std::vector<std::unique_ptr<Controller>> controllers LARDER_GUARDED_BY(mutex);
  std::unique_ptr<SharedInformerFactory> factory LARDER_GUARDED_BY(mutex);  // its queues outlive it

  mutable Mutex mutex;
  std::condition_variable_any changed;
  std::vector<Controller::Definition> definitions LARDER_GUARDED_BY(mutex);
  std::vector<Runnable> runnables LARDER_GUARDED_BY(mutex);
  std::vector<Source> watches LARDER_GUARDED_BY(mutex);
  bool started LARDER_GUARDED_BY(mutex) = false;
  bool synced LARDER_GUARDED_BY(mutex) = false;
  bool working LARDER_GUARDED_BY(mutex) = false;
  size_t running LARDER_GUARDED_BY(mutex) = 0;  // runnables
  std::optional<Error> failure LARDER_GUARDED_BY(mutex);
  // Why the start waits: for the server, for indexes.
  std::optional<Error> not_answered LARDER_GUARDED_BY(mutex);
  std::string not_built LARDER_GUARDED_BY(mutex);

  std::vector<SharedInformer*> all_informers;  // Run's; some more than once
  std::vector<Prepared> prepared;              // Run's
  // Run's: how many enqueuers of this name an informer has.
  std::map<std::pair<const SharedInformer*, std::string>, int> alike;
  std::stop_source ending;                             // of Run itself
  std::stop_source work;                               // of runnables, resyncs and the election
  std::unique_ptr<internal::Resyncer> resyncer;        // of controllers that need the lease
  std::unique_ptr<internal::Resyncer> early_resyncer;  // of those that do not
  std::vector<std::jthread> threads;                   // runnables
  std::jthread election;
};

}  // namespace larder
