// An informer on a simulated cluster, with a store that outlives it: stop it, start it again, look
// what it heard.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apiserver/simulator.h"
#include "client/config.h"
#include "informer/shared_informer.h"
#include "tests/storage/failing_disk.h"

namespace larder {

// Records every call as "add x/a", "update x/a 1→2", "delete x/a", in order.
class RecordingHandler final : public EventHandler {
 public:
  void OnAdd(const ObjectPtr& object, bool is_in_initial_list) override;
  void OnUpdate(const ObjectPtr& old, const ObjectPtr& now) override;
  void OnDelete(const ObjectPtr& last_known, bool inferred) override;

  // Blocks the next calls until Unblock.
  void Block();
  void Unblock();
  void ThrowOn(const std::string& key);

  std::vector<std::string> Calls() const;
  size_t Count(const std::string& prefix) const;
  // The newest version it heard for a key; "deleted"; empty: nothing.
  std::string Last(const std::string& key) const;
  // Waits until `done` holds for the calls so far.
  bool WaitFor(const std::function<bool(const RecordingHandler&)>& done) const;

 private:
  void Record(std::string call, const std::string& key, std::string state);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool blocked_ = false;
  std::string throw_on_;
  std::vector<std::string> calls_;
  std::vector<std::pair<std::string, std::string>> states_;
};

class InformerTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Opens store, hot tier and transport: what informers share.
  void OpenParts();
  InformerContext Context() const {
    return {store_.get(), hot_.get(), transport_.get(), simulator_->ClusterUid(), registry_};
  }
  // Opens store, transport and informer as a process would at its start.
  void Open(InformerOptions options = {});
  // Start and wait until synced.
  void Sync();
  // Ends everything but the simulator and the directory.
  void Close();

  void CreatePod(const std::string& name, const std::string& node = "n1");
  void TouchPod(const std::string& name);
  void DeletePod(const std::string& name);
  // Waits until the informer has committed everything the simulator did to pods.
  void CatchUp();
  uint64_t Lists() const { return simulator_->StatsOf("pods").lists; }

  std::filesystem::path directory_;
  testing::FailingDisk disk_;  // does not, until it is told to
  std::unique_ptr<apiserver::Simulator> simulator_;
  std::unique_ptr<HttpTransport> transport_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<HotTier> hot_;
  prometheus::Registry* registry_ = nullptr;
  std::unique_ptr<SharedInformer> informer_;
};

}  // namespace larder
