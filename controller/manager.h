// The manager: everything that a process with controllers needs, started and ended in order.
//
// It owns the store, the connection, the informers, the controllers, leader election, and the
// server for /metrics, /healthz and /readyz. Create opens the store and reads the credentials; it
// asks nothing of the server, so that a process whose server is away starts, and waits.
//
// Run, in this order: serve health; find out which cluster it is; open the informers and attach the
// queues; sync; attach what mappings queue; with leader election wait for the lease; work. On a
// stop: hand out no more keys; wait for running reconciles up to shutdown_timeout, then ask them to
// end; give up the lease; end the informers. What was under way is in the store and goes on at the
// next start.
//
// A lost lease stops the work before another can hold it: running reconciles are asked to end at
// once, writes through the client are refused from then on, and Run returns an error, so that the
// process ends and starts again. A reconcile that ignores its stop for longer than that ends the
// process (ManagerOptions::on_stuck).
//
// Thread-safe; controllers, watches and runnables are added before Run.
//
//   LARDER_ASSIGN_OR_RETURN(ManagerConfig config, ManagerConfig::Load(argc, argv));
//   LARDER_ASSIGN_OR_RETURN(auto manager, Manager::Create({.config = config}));
//   LARDER_RETURN_IF_ERROR(ControllerBuilder(*manager).For("pods").Complete(Reconcile));
//   return manager->Run(StopOnSignals());
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "client/config.h"
#include "controller/cached_client.h"
#include "controller/config.h"
#include "controller/controller.h"
#include "controller/health_server.h"
#include "controller/leader_elector.h"
#include "informer/factory.h"
#include "storage/store.h"

namespace larder {

struct ManagerOptions {
  ManagerConfig config{};
  // Where the server is, for those who know better than a kubeconfig.
  std::optional<ClientConfig> client{};
  Clock* clock = RealClock();
  // Has the last word on every informer: list strategy, time-outs, durability.
  std::function<void(InformerOptions&)> tweak{};
  // Called when reconciles go on though their time is over. Null: logs what hangs, syncs the store
  // and ends the process with status 1, also where the log or the disk hangs.
  std::function<void()> on_stuck{};
};

// Something that runs as long as the manager does. A return before the stop, with an error, ends
// the manager.
struct Runnable {
  std::string name{};
  std::function<Result<void>(const std::stop_token& stop)> run{};
  bool needs_leader_election = true;
};

class Manager {
 public:
  static Result<std::unique_ptr<Manager>> Create(ManagerOptions options);
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // What ControllerBuilder::Complete calls.
  Result<void> Add(Controller::Definition definition);
  Result<void> Add(Runnable runnable);
  // Keeps this resource in the store, for reads through client().
  Result<void> Watch(ResourceName resource, SourceOptions options = {});
  void AddHealthCheck(std::string name, HealthCheck check);
  void AddReadyCheck(std::string name, HealthCheck check);

  // Blocks until the stop, or until something ends it. Once.
  Result<void> Run(const std::stop_token& stop);

  CachedClient& client();
  EventRecorder& events();
  Store& store();
  // For metrics of one's own.
  prometheus::Registry& registry();
  // While Run runs; null before.
  SharedInformerFactory* informers();
  // By name, while Run runs; null: none, or not made yet.
  Controller* FindController(const std::string& name);
  const ManagerConfig& config() const;
  // Of the health server; 0: none.
  int port() const;

  // True without leader election once controllers work; with it, while the lease is certainly ours.
  bool IsLeader() const;
  // Waits until the stores are in sync, but for those that the server refuses (401, 403) while it
  // grants others. kTimeout, kCancelled.
  Result<void> WaitForSync(Clock::Steady deadline, const std::stop_token& stop = {});
  // Waits until controllers work (in sync, and leading where that is asked for). One whose sources
  // are not all in sync has no turn until they are.
  Result<void> WaitUntilWorking(Clock::Steady deadline, const std::stop_token& stop = {});

  class Impl;

 private:
  explicit Manager(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// A token that is stopped by SIGTERM or SIGINT; a second signal ends the process at once. Blocks
// these signals in the calling thread and those started later: call it first in main.
std::stop_token StopOnSignals();

// The rest of a main(): loads the configuration, prints --help or what is wrong, sets up logging,
// creates the manager, calls `setup` on it, runs until a signal. Returns the exit status.
int RunManager(int argc, const char* const* argv,
               const std::function<Result<void>(Manager& manager)>& setup);

}  // namespace larder
