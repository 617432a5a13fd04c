// The client against the simulated API server: over TLS, from its kubeconfig.
#include "apiserver/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/api_client.h"
#include "client/discovery.h"
#include "client/event_recorder.h"
#include "client/retry.h"
#include "tests/client/test_util.h"

namespace larder {
namespace {

using ::larder::apiserver::Simulator;
using ::larder::apiserver::SimulatorOptions;
using ::larder::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
const Resource kSimulatedPods{"", "v1", "pods", "Pod", true};
const Resource kSimulatedDeployments{"apps", "v1", "deployments", "Deployment", true};
const Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                     "CustomResourceDefinition", false};

Json ConfigMap(const std::string& name, const std::string& value) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"namespace", "default"}, {"name", name}, {"labels", {{"app", value}}}}},
          {"data", {{"key", value}}}};
}

class SimulatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SimulatorOptions options;
    options.tls = true;
    options.users = {{"admin", "token-admin", {}}, {"guest", "token-guest", {"configmaps"}}};
    options.cluster_uid = "11111111-2222-3333-4444-555555555555";
    auto simulator = Simulator::Start(options);
    ASSERT_TRUE(simulator) << simulator.error().message;
    simulator_ = *std::move(simulator);
    const auto path = simulator_->WriteKubeconfig(dir_.path() + "/config");
    ASSERT_TRUE(path) << path.error().message;
    auto config = LoadKubeconfig(*path);
    ASSERT_TRUE(config) << config.error().message;
    config_ = *config;
    auto transport = MakeTransport(config_);
    ASSERT_TRUE(transport) << transport.error().message;
    transport_ = *std::move(transport);
    client_ = std::make_unique<ApiClient>(*transport_);
  }
  std::string Data(const ObjectPtr& object) {
    return object->ToMutable()["data"]["key"].get<std::string>();
  }

  TempDir dir_;
  std::unique_ptr<Simulator> simulator_;
  ClientConfig config_;
  std::unique_ptr<HttpTransport> transport_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(SimulatorTest, CreatesReadsUpdatesAndDeletes) {
  const auto created = client_->Create(kConfigMaps, ConfigMap("a", "1"));
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_FALSE((*created)->uid().empty());
  const auto twice = client_->Create(kConfigMaps, ConfigMap("a", "1"));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(twice.error().status_json, HasSubstr("AlreadyExists"));

  Json changed = (*created)->ToMutable();
  changed["data"]["key"] = "2";
  const auto updated = client_->Update(kConfigMaps, changed);
  ASSERT_TRUE(updated) << updated.error().message;
  EXPECT_EQ(Data(*updated), "2");
  const auto stale = client_->Update(kConfigMaps, changed);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, ErrorCode::kConflict);

  const auto got = client_->Get(kConfigMaps, {"default", "a"});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ((*got)->resource_version(), (*updated)->resource_version());

  DeleteOptions another;
  another.uid = "another";
  const auto refused = client_->Delete(kConfigMaps, {"default", "a"}, another);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  DeleteOptions exactly;
  exactly.uid = std::string((*got)->uid());
  exactly.resource_version = std::string((*got)->resource_version());
  const auto deleted = client_->Delete(kConfigMaps, {"default", "a"}, exactly);
  ASSERT_TRUE(deleted) << deleted.error().message;
  const auto gone = client_->Get(kConfigMaps, {"default", "a"});
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
}

TEST_F(SimulatorTest, PatchesInEveryForm) {
  ASSERT_TRUE(client_->Create(kConfigMaps, ConfigMap("a", "1")));
  const ObjectKey key{"default", "a"};
  const auto merged =
      client_->Patch(kConfigMaps, key, PatchType::kJsonMerge, {{"data", {{"key", "2"}}}});
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(Data(*merged), "2");
  const Json operations = Json::array({{{"op", "replace"}, {"path", "/data/key"}, {"value", "3"}}});
  const auto patched = client_->Patch(kConfigMaps, key, PatchType::kJsonPatch, operations);
  ASSERT_TRUE(patched) << patched.error().message;
  EXPECT_EQ(Data(*patched), "3");
  const auto applied = client_->Apply(kConfigMaps, ConfigMap("a", "4"), "tester", /*force=*/true);
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(Data(*applied), "4");
  const auto contested = client_->Apply(kConfigMaps, ConfigMap("a", "5"), "another");
  ASSERT_FALSE(contested);
  EXPECT_EQ(contested.error().code, ErrorCode::kConflict);
}

TEST_F(SimulatorTest, RetriesAConflictWithTheNewerObject) {
  ASSERT_TRUE(client_->Create(kConfigMaps, ConfigMap("a", "1")));
  int attempts = 0;
  const auto result = RetryOnConflict([&]() -> Result<ObjectPtr> {
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr read, client_->Get(kConfigMaps, {"default", "a"}));
    Json changed = read->ToMutable();
    changed["data"]["key"] = "mine";
    if (++attempts < 3) {  // somebody else is faster, twice
      LARDER_RETURN_IF_ERROR(client_->Patch(kConfigMaps, {"default", "a"}, PatchType::kJsonMerge,
                                            {{"data", {{"other", std::to_string(attempts)}}}}));
    }
    return client_->Update(kConfigMaps, changed);
  });
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(Data(*result), "mine");
  EXPECT_EQ((*result)->ToMutable()["data"]["other"], "2");
}

TEST_F(SimulatorTest, ListsInPagesAndBySelector) {
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(client_->Create(kConfigMaps,
                                ConfigMap("c" + std::to_string(i), i % 2 == 0 ? "even" : "odd")));
  }
  ListOptions options;
  options.ns = "default";
  options.limit = 3;
  const auto page = client_->List(kConfigMaps, options);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->items.size(), 3u);
  EXPECT_FALSE(page->continue_token.empty());
  const auto all = client_->ListAll(kConfigMaps, options);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->items.size(), 7u);
  EXPECT_EQ(all->items.front()->kind(), "ConfigMap");
  options.label_selector = "app=odd";
  EXPECT_EQ(client_->ListAll(kConfigMaps, options)->items.size(), 3u);
  ASSERT_TRUE(client_->DeleteCollection(kConfigMaps, options));
  options.label_selector.clear();
  EXPECT_EQ(client_->ListAll(kConfigMaps, options)->items.size(), 4u);
}

TEST_F(SimulatorTest, StatusIsWrittenApartFromTheRest) {
  const Json pod = {{"metadata", {{"namespace", "default"}, {"name", "p"}}},
                    {"spec", {{"containers", {{{"name", "c"}, {"image", "i"}}}}}}};
  const auto created = client_->Create(kSimulatedPods, pod);
  ASSERT_TRUE(created) << created.error().message;
  Json changed = (*created)->ToMutable();
  changed["status"]["phase"] = "Running";
  const auto updated = client_->UpdateStatus(kSimulatedPods, changed);
  ASSERT_TRUE(updated) << updated.error().message;
  EXPECT_EQ((*updated)->ToMutable()["status"]["phase"], "Running");
}

TEST_F(SimulatorTest, ForbiddenAndUnauthorizedAreDistinct) {
  ClientConfig guest = config_;
  guest.token = "token-guest";
  const auto guest_transport = *MakeTransport(guest);
  const auto forbidden = ApiClient(*guest_transport).Get(kConfigMaps, {"default", "a"});
  ASSERT_FALSE(forbidden);
  EXPECT_EQ(forbidden.error().code, ErrorCode::kForbidden);
  simulator_->SetUsers({{"admin", "token-new", {}}});  // ours expired
  const auto expired = client_->Get(kConfigMaps, {"default", "a"});
  ASSERT_FALSE(expired);
  EXPECT_EQ(expired.error().code, ErrorCode::kUnauthorized);
  EXPECT_THAT(expired.error().message, Not(HasSubstr("token-admin")));
}

TEST_F(SimulatorTest, ProvesItselfByClientCertificate) {
  const auto pair = simulator_->ClientCertificate("admin");
  ASSERT_TRUE(pair) << pair.error().message;
  ClientConfig config = config_;
  config.token.clear();
  config.client_certificate_data = pair->first;
  config.client_key_data = pair->second;
  const auto transport = *MakeTransport(config);
  const auto uid = ClusterUid(*transport);
  ASSERT_TRUE(uid) << uid.error().message;
  EXPECT_EQ(*uid, "11111111-2222-3333-4444-555555555555");
}

TEST_F(SimulatorTest, DiscoversBuiltInsAndNewCrds) {
  FakeClock clock;
  Discovery discovery(*transport_, {.min_refresh_interval = 10s, .clock = &clock});
  const auto deployments = discovery.Resolve("deploy");
  ASSERT_TRUE(deployments) << deployments.error().message;
  EXPECT_EQ(*deployments, kSimulatedDeployments);
  EXPECT_FALSE(discovery.Resolve("widgets"));
  const Json crd = Json::parse(R"({"apiVersion":"apiextensions.k8s.io/v1",
    "kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
    "spec":{"group":"example.com","scope":"Namespaced",
      "names":{"plural":"widgets","singular":"widget","kind":"Widget","shortNames":["wd"]},
      "versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object",
          "x-kubernetes-preserve-unknown-fields":true}}}]}})");
  const auto created = client_->Create(kCrds, crd);
  ASSERT_TRUE(created) << created.error().message;
  clock.Advance(11s);
  const auto widgets = discovery.Resolve("wd");
  ASSERT_TRUE(widgets) << widgets.error().message;
  EXPECT_EQ(*widgets, (Resource{"example.com", "v1", "widgets", "Widget", true}));
  ASSERT_TRUE(client_->Create(
      *widgets, {{"metadata", {{"namespace", "default"}, {"name", "w"}}}, {"spec", {{"n", 1}}}}));
}

TEST_F(SimulatorTest, RecordsEvents) {
  const auto about = client_->Create(kConfigMaps, ConfigMap("a", "1"));
  ASSERT_TRUE(about) << about.error().message;
  EventRecorder::Options options;
  options.component = "tester";
  EventRecorder recorder(*transport_, options);
  for (int i = 0; i < 3; ++i) {
    recorder.Event(**about, EventLevel::kWarning, "Broken", "it does not work");
    ASSERT_TRUE(recorder.Flush(RealClock()->Now() + 10s));
  }
  EXPECT_EQ(recorder.written(), 3u);
  ListOptions where;
  where.ns = "default";
  const auto events = client_->List({"", "v1", "events", "Event", true}, where);
  ASSERT_TRUE(events) << events.error().message;
  ASSERT_EQ(events->items.size(), 1u);
  EXPECT_EQ(events->items[0]->ToMutable()["count"], 3);
}

TEST_F(SimulatorTest, AWatchIsReadAsItHappens) {
  Request request;
  request.path = "/api/v1/namespaces/default/configmaps";
  request.query = {{"watch", "true"}, {"resourceVersion", std::to_string(simulator_->Version())}};
  request.accept_gzip = false;
  const auto watch = transport_->Open(request, {});
  ASSERT_TRUE(watch) << watch.error().message;
  ASSERT_TRUE(client_->Create(kConfigMaps, ConfigMap("a", "1")));
  std::string line;
  while (line.find('\n') == std::string::npos) {
    const auto piece = (*watch)->Read({}, RealClock()->Now() + 10s);
    ASSERT_TRUE(piece) << piece.error().message;
    ASSERT_FALSE(piece->empty());
    line += *piece;
  }
  const Json event = Json::parse(line);
  EXPECT_EQ(event["type"], "ADDED");
  EXPECT_EQ(event["object"]["metadata"]["name"], "a");
}

}  // namespace
}  // namespace larder
