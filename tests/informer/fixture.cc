#include "tests/informer/fixture.h"

#include <algorithm>
#include <stdexcept>

#include "storage/testing.h"

namespace larder {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

std::string PodJson(const std::string& name, const std::string& node) {
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
         R"(","namespace":"x","labels":{"app":"web"}},"spec":{"nodeName":")" + node + R"("}})";
}

}  // namespace

void RecordingHandler::Record(std::string call, const std::string& key, std::string state) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !blocked_; });
  calls_.push_back(std::move(call));
  states_.emplace_back(key, std::move(state));
  changed_.notify_all();
  if (key == throw_on_) throw std::runtime_error("asked to throw");
}

void RecordingHandler::OnAdd(const ObjectPtr& object, bool is_in_initial_list) {
  const std::string key = object->key().ToString();
  Record("add " + key + (is_in_initial_list ? " initial" : ""), key,
         std::string(object->resource_version()));
}

void RecordingHandler::OnUpdate(const ObjectPtr& old, const ObjectPtr& now) {
  const std::string key = now->key().ToString();
  Record("update " + key + " " + std::string(old->resource_version()) + "→" +
             std::string(now->resource_version()),
         key, std::string(now->resource_version()));
}

void RecordingHandler::OnDelete(const ObjectPtr& last_known, bool inferred) {
  const std::string key = last_known->key().ToString();
  Record("delete " + key + (inferred ? " inferred" : ""), key, "deleted");
}

void RecordingHandler::Block() {
  std::lock_guard lock(mutex_);
  blocked_ = true;
}

void RecordingHandler::Unblock() {
  std::lock_guard lock(mutex_);
  blocked_ = false;
  changed_.notify_all();
}

void RecordingHandler::ThrowOn(const std::string& key) {
  std::lock_guard lock(mutex_);
  throw_on_ = key;
}

std::vector<std::string> RecordingHandler::Calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

size_t RecordingHandler::Count(const std::string& prefix) const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::count_if(calls_.begin(), calls_.end(),
                    [&](const std::string& call) { return call.rfind(prefix, 0) == 0; }));
}

std::string RecordingHandler::Last(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto last = std::find_if(states_.rbegin(), states_.rend(),
                                 [&](const auto& state) { return state.first == key; });
  return last == states_.rend() ? std::string() : last->second;
}

bool RecordingHandler::WaitFor(const std::function<bool(const RecordingHandler&)>& done) const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!done(*this)) {
    std::unique_lock lock(mutex_);
    const size_t seen = calls_.size();
    // A wait with a limit: `done` may look at more than the calls.
    changed_.wait_for(lock, std::chrono::milliseconds(30), [&] { return calls_.size() != seen; });
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

void InformerTest::SetUp() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "larder-informer-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  directory_ = pattern;
  auto simulator = apiserver::Simulator::Start({});
  ASSERT_TRUE(simulator) << simulator.error().ToString();
  simulator_ = *std::move(simulator);
  ASSERT_TRUE(simulator_->CreateNamespace("x"));
}

void InformerTest::TearDown() {
  Close();
  simulator_.reset();
  std::filesystem::remove_all(directory_);
}

void InformerTest::OpenParts() {
  auto store = OpenStoreOnEnv({.path = (directory_ / "store").string()}, disk_.env());
  ASSERT_TRUE(store) << store.error().ToString();
  store_ = *std::move(store);
  hot_ = std::make_unique<HotTier>(HotTierOptions{});
  auto transport = MakeTransport(ForUrl(simulator_->Url()));
  ASSERT_TRUE(transport) << transport.error().ToString();
  transport_ = *std::move(transport);
}

void InformerTest::Open(InformerOptions options) {
  OpenParts();
  options.resource = *LookupResource("pods");
  auto informer = SharedInformer::Open(Context(), std::move(options));
  ASSERT_TRUE(informer) << informer.error().ToString();
  informer_ = *std::move(informer);
}

void InformerTest::Sync() {
  informer_->Start();
  const auto synced = informer_->WaitForSync(RealClock()->Now() + kPatience, {});
  ASSERT_TRUE(synced) << synced.error().ToString();
}

void InformerTest::Close() {
  informer_.reset();
  transport_.reset();
  hot_.reset();
  store_.reset();
}

void InformerTest::CreatePod(const std::string& name, const std::string& node) {
  const auto created = simulator_->Create("pods", PodJson(name, node));
  ASSERT_TRUE(created) << created.error().ToString();
}

void InformerTest::TouchPod(const std::string& name) {
  static int counter = 0;
  const auto patched = simulator_->Patch(
      "pods", "x", name,
      R"({"metadata":{"annotations":{"touched":")" + std::to_string(++counter) + R"("}}})");
  ASSERT_TRUE(patched) << patched.error().ToString();
}

void InformerTest::DeletePod(const std::string& name) {
  const auto deleted = simulator_->Delete("pods", "x", name);
  ASSERT_TRUE(deleted) << deleted.error().ToString();
}

void InformerTest::CatchUp() {
  uint64_t newest = 0;
  for (const apiserver::HistoryEntry& entry : simulator_->History()) {
    if (entry.resource == "pods") newest = entry.version;
  }
  const auto reached =
      informer_->WaitUntil(std::to_string(newest), RealClock()->Now() + kPatience, {});
  ASSERT_TRUE(reached) << reached.error().ToString();
}

}  // namespace larder
