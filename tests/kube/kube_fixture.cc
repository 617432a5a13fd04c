#include "tests/kube/kube_fixture.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>

#include "client/subprocess.h"

namespace larder {

bool Eventually(const std::function<bool()>& reached) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (!reached()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

std::string KubeTest::Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

ClientConfig KubeTest::Admin() {
  ClientConfig config = ForUrl(Environment("LARDER_CONFORMANCE_URL"));
  config.token = Environment("LARDER_CONFORMANCE_TOKEN");
  config.ca_file = Environment("LARDER_CONFORMANCE_CA");
  return config;
}

std::string KubeTest::Kube(std::vector<std::string> words) {
  ProgramSpec program;
  program.argv = {Environment("LARDER_KUBE"), words.front(), Environment("LARDER_KUBE_DIR")};
  program.argv.insert(program.argv.end(), words.begin() + 1, words.end());
  program.timeout = std::chrono::minutes(2);
  Result<std::string> output = RunProgram(program, {});
  EXPECT_TRUE(output) << words.front() << ": " << output.error().ToString();
  std::string text = output.value_or("");
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::unique_ptr<HttpTransport> KubeTest::Connect(const ClientConfig& config) {
  auto transport = MakeTransport(config);
  EXPECT_TRUE(transport) << transport.error().ToString();
  return transport ? *std::move(transport) : nullptr;
}

void KubeTest::SetUp() {
  if (Environment("LARDER_KUBE").empty()) GTEST_SKIP() << "no server: run ./dev kube test";
  spdlog::set_level(spdlog::level::err);
  transport_ = Connect(Admin());
  client_ = std::make_unique<ApiClient>(*transport_);
  const auto uid = ClusterUid(*transport_);
  ASSERT_TRUE(uid) << uid.error().ToString();
  cluster_uid_ = *uid;
  static int counter = 0;
  ns_ = "kube-" + std::to_string(getpid()) + "-" + std::to_string(++counter);
  const auto made = client_->Create(*LookupResource("namespaces"), {{"metadata", {{"name", ns_}}}});
  ASSERT_TRUE(made) << made.error().ToString();
  resource_ = *LookupResource("configmaps");
  options_.ns = ns_;
  // Failures are over quickly here, and so is the waiting for them.
  options_.backoff.maximum = std::chrono::milliseconds(500);
}

void KubeTest::TearDown() {
  Stop();
  if (!client_) return;
  for (const char* used : {"configmaps", "leases", "pods"}) {
    (void)client_->DeleteCollection(*LookupResource(used), {.ns = ns_},
                                    {.grace_period_seconds = 0});
  }
  (void)client_->Delete(*LookupResource("namespaces"), {"", ns_});
}

Json KubeTest::ConfigMap(const std::string& name, const std::string& value) const {
  return {{"metadata", {{"name", name}, {"namespace", ns_}}}, {"data", {{"k", value}}}};
}

void KubeTest::Make(const std::string& name) {
  const auto made = client_->Create(*LookupResource("configmaps"), ConfigMap(name));
  ASSERT_TRUE(made) << made.error().ToString();
}

void KubeTest::MakeMany(const std::string& prefix, int count) {
  for (int i = 0; i < count; ++i) Make(prefix + "-" + std::to_string(i));
}

void KubeTest::Change(const std::string& name, const std::string& value) {
  const auto changed = client_->Patch(*LookupResource("configmaps"), {ns_, name},
                                      PatchType::kJsonMerge, {{"data", {{"k", value}}}});
  ASSERT_TRUE(changed) << changed.error().ToString();
}

void KubeTest::Delete(const std::string& name) {
  const auto deleted = client_->Delete(*LookupResource("configmaps"), {ns_, name});
  ASSERT_TRUE(deleted) << deleted.error().ToString();
}

MirrorTarget::Content KubeTest::Content() {
  MirrorTarget::Content content;
  const auto list = client_->ListAll(resource_, {.ns = ns_,
                                                 .label_selector = options_.label_selector,
                                                 .field_selector = options_.field_selector});
  // A server that is being restarted has no content to compare with yet.
  if (!list) return {{"error", {list.error().ToString(), ""}}};
  for (const ObjectPtr& object : list->items) {
    content[object->key().ToString()] = {std::string(object->uid()),
                                         std::string(object->resource_version())};
  }
  return content;
}

bool KubeTest::Equal(const MirrorTarget& target) {
  if (Eventually([&] { return target.Is(Content()); })) return true;
  const auto error = Status().last_error;
  ADD_FAILURE() << "has " << target.Objects().size() << " objects, the server " << Content().size()
                << "; " << ToString(Status().state) << (error ? ", " + error->ToString() : "");
  return false;
}

void KubeTest::Run(MirrorTarget* target, HttpTransport* transport) {
  Stop();
  options_.resource = resource_;
  options_.name = resource_.ToString();
  auto made = Reflector::Create(options_, transport ? transport : transport_.get(), target);
  ASSERT_TRUE(made) << made.error().ToString();
  reflector_ = *std::move(made);
  thread_ = std::jthread([this](const std::stop_token& stop) { outcome_ = reflector_->Run(stop); });
}

std::chrono::steady_clock::duration KubeTest::Stop() {
  const auto before = std::chrono::steady_clock::now();
  thread_ = std::jthread();
  return std::chrono::steady_clock::now() - before;
}

bool KubeTest::Reaches(const std::function<bool(const ReflectorStatus&)>& reached) {
  return Eventually([&] { return reached(Status()); });
}

void KubeTest::ExpireHistory() {
  // The watch cache of a new process begins at the version of its own first list.
  Kube({"stop", "apiserver"});
  Kube({"start", "apiserver"});
}

}  // namespace larder
