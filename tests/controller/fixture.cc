#include "tests/controller/fixture.h"

#include <httplib.h>

#include <atomic>
#include <stdexcept>

namespace larder {

int RunCounts::Add(const std::string& key) {
  std::lock_guard lock(mutex_);
  order_.push_back(key);
  return ++counts_[key];
}

int RunCounts::Of(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto found = counts_.find(key);
  return found == counts_.end() ? 0 : found->second;
}

std::set<std::string> RunCounts::Keys() const {
  std::lock_guard lock(mutex_);
  std::set<std::string> keys;
  for (const auto& [key, count] : counts_) keys.insert(key);
  return keys;
}

std::vector<std::string> RunCounts::Order() const {
  std::lock_guard lock(mutex_);
  return order_;
}

void RunCounts::Clear() {
  std::lock_guard lock(mutex_);
  counts_.clear();
  order_.clear();
}

void Gate::Wait() {
  std::unique_lock lock(mutex_);
  opened_.wait(lock, [this] { return open_; });
}

void Gate::Open() {
  std::lock_guard lock(mutex_);
  open_ = true;
  opened_.notify_all();
}

void ControllerTest::SetUp() {
  auto environment = testing::Environment::Start();
  ASSERT_TRUE(environment) << environment.error().ToString();
  environment_ = *std::move(environment);
}

void ControllerTest::CreatePod(const std::string& name) {
  const auto created =
      cluster().Create("pods", R"({"metadata":{"namespace":"default","name":")" + name + R"("}})");
  ASSERT_TRUE(created) << created.error().ToString();
}

void ControllerTest::TouchPod(const std::string& name) {
  static std::atomic<int> counter{0};
  const auto patched = cluster().Patch(
      "pods", "default", name,
      R"({"metadata":{"annotations":{"touched":")" + std::to_string(++counter) + R"("}}})");
  ASSERT_TRUE(patched) << patched.error().ToString();
}

std::string ControllerTest::HttpGet(int port, const std::string& path) const {
  const auto answer = httplib::Client("127.0.0.1", port).Get(path);
  return answer ? answer->body : std::string();
}

std::string ControllerTest::Metrics(Manager& manager) const {
  return HttpGet(manager.port(), "/metrics");
}

ManagerOptions ControllerTest::ElectionOptions(const std::string& name) const {
  using std::chrono::milliseconds;
  ManagerOptions options = environment_->Options(name);
  options.config.leader_election = true;
  options.config.leader_election_name = "lock";
  options.config.leader_election_namespace = "default";
  options.config.leader_election_id = name;
  options.config.lease_duration = milliseconds(1000);
  options.config.renew_deadline = milliseconds(600);
  options.config.retry_period = milliseconds(100);
  return options;
}

Result<Outcome> ControllerTest::Count(const ReconcileRequest& request) {
  runs_.Add(request.key.ToString());
  return Outcome::Done();
}

ReconcileFunction ControllerTest::Counting() {
  return [this](ReconcileContext&, const ReconcileRequest& request) { return Count(request); };
}

ControllerTest::RunningPtr ControllerTest::Run(const testing::Environment::Setup& setup) {
  return Run(setup, environment_->Options());
}

ControllerTest::RunningPtr ControllerTest::Run(const testing::Environment::Setup& setup,
                                               const ManagerOptions& options) {
  auto manager = environment_->Run(setup, options);
  if (manager) return *std::move(manager);
  ADD_FAILURE() << manager.error().ToString();
  throw std::runtime_error("no manager");
}

ControllerTest::RunningPtr ControllerTest::RunPods(ReconcileFunction reconcile) {
  return RunPods(std::move(reconcile), environment_->Options());
}

ControllerTest::RunningPtr ControllerTest::RunPods(ReconcileFunction reconcile,
                                                   const ManagerOptions& options) {
  return Run(
      [&](Manager& manager) {
        return ControllerBuilder(manager).For("pods").Complete(std::move(reconcile));
      },
      options);
}

}  // namespace larder
