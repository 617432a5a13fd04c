// A cluster for a controller's tests: a simulated API server, a scratch directory, and managers
// that run against them, all in the test's own process and started in milliseconds.
//
// The cluster outlives managers, as a real one does: stop a manager, change the cluster, start
// another on the same store, and see what it does. Thread-safe but for Start and the destructor.
//
//   auto environment = *larder::testing::Environment::Start();
//   auto manager = *environment->Run([](Manager& manager) {
//     return ControllerBuilder(manager).For("pods").Complete(Reconcile);
//   });
//   environment->cluster().Create("pods", R"({"metadata":{"name":"a","namespace":"default"}})");
//   EXPECT_TRUE(environment->Eventually([&] { return seen == 1; }));
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "apiserver/simulator.h"
#include "base/error.h"
#include "controller/manager.h"

namespace larder::testing {

// A manager that runs on a thread of its own until it is stopped or destroyed.
class RunningManager {
 public:
  explicit RunningManager(std::unique_ptr<Manager> manager);
  ~RunningManager();
  RunningManager(const RunningManager&) = delete;
  RunningManager& operator=(const RunningManager&) = delete;

  Manager& operator*() { return *manager_; }
  Manager* operator->() { return manager_.get(); }

  // As SIGTERM would; returns what Run returned.
  Result<void> Stop();
  // Waits for Run to end by itself.
  Result<void> Join();
  bool Ended() const { return ended_; }

 private:
  std::unique_ptr<Manager> manager_;
  std::stop_source stop_;
  std::atomic<bool> ended_{false};
  Result<void> outcome_;
  std::jthread thread_;
};

class Environment {
 public:
  // Namespace "default" is there.
  static Result<std::unique_ptr<Environment>> Start(apiserver::SimulatorOptions options = {});
  // Removes the directory.
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  apiserver::Simulator& cluster() { return *cluster_; }
  const std::string& directory() const { return directory_; }

  // Objects from YAML, several in one text separated by "---": CustomResourceDefinitions first, as
  // with kubectl create.
  Result<void> CreateYaml(std::string_view yaml);
  Result<void> CreateYamlFile(const std::string& path);

  // For a manager on this cluster, with its store in the scratch directory and any free port. Two
  // managers at once need two `store`s.
  ManagerOptions Options(const std::string& store = "store") const;

  using Setup = std::function<Result<void>(Manager& manager)>;
  // Creates it, calls `setup`, and runs it; returns when its stores are in sync.
  Result<std::unique_ptr<RunningManager>> Run(const Setup& setup);
  Result<std::unique_ptr<RunningManager>> Run(const Setup& setup, ManagerOptions options);

  // Waits until `condition` holds; false when the time is over.
  static bool Eventually(const std::function<bool()>& condition,
                         std::chrono::milliseconds patience = std::chrono::seconds(30));

 private:
  Environment() = default;

  std::string directory_;
  std::unique_ptr<apiserver::Simulator> cluster_;
};

}  // namespace larder::testing
