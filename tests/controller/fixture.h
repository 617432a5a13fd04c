// A simulated cluster with a controller of pods on it, which counts its runs.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "controller/builder.h"
#include "testing/environment.h"

namespace larder {

// Which keys were reconciled, how often, in which order.
class RunCounts {
 public:
  // How often it was, this one included.
  int Add(const std::string& key);
  int Of(const std::string& key) const;
  std::set<std::string> Keys() const;
  std::vector<std::string> Order() const;
  void Clear();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> counts_;
  std::vector<std::string> order_;
};

// Holds whoever waits until it is opened.
class Gate {
 public:
  void Wait();
  void Open();

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

class ControllerTest : public ::testing::Test {
 protected:
  using RunningPtr = std::unique_ptr<testing::RunningManager>;

  void SetUp() override;

  apiserver::Simulator& cluster() { return environment_->cluster(); }
  void CreatePod(const std::string& name);
  void TouchPod(const std::string& name);
  std::string Metrics(Manager& manager) const;
  std::string HttpGet(int port, const std::string& path) const;
  static bool Eventually(const std::function<bool()>& condition) {
    return testing::Environment::Eventually(condition);
  }

  // A candidate for the lease "lock" in "default", with a store of its own. As short as leases can
  // be in seconds that the API has; renewals are much faster.
  ManagerOptions ElectionOptions(const std::string& name) const;
  // A reconcile that counts its runs and is done.
  Result<Outcome> Count(const ReconcileRequest& request);
  ReconcileFunction Counting();
  RunningPtr Run(const testing::Environment::Setup& setup);
  RunningPtr Run(const testing::Environment::Setup& setup, const ManagerOptions& options);
  // A controller named "pods" for all pods.
  RunningPtr RunPods() { return RunPods(Counting()); }
  RunningPtr RunPods(const ManagerOptions& options) { return RunPods(Counting(), options); }
  RunningPtr RunPods(ReconcileFunction reconcile);
  RunningPtr RunPods(ReconcileFunction reconcile, const ManagerOptions& options);

  // Before what writes to it.
  RunCounts runs_;
  std::unique_ptr<testing::Environment> environment_;
};

}  // namespace larder
