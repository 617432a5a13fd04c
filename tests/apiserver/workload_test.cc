#include "apiserver/workload.h"

#include <gmock/gmock.h>

#include <chrono>
#include <ctime>
#include <set>

#include "tests/apiserver/simulator_fixture.h"

namespace larder::apiserver {
namespace {

using namespace std::chrono_literals;

TEST(WorkloadTest, PodsAreOfTheSizeAndShapeOfRealOnes) {
  std::set<std::string> names, namespaces, nodes;
  for (uint64_t i = 0; i < 500; ++i) {
    const std::string text = MakePod(1, i);
    EXPECT_GE(text.size(), 5'000U);
    EXPECT_LE(text.size(), 10'500U);
    const Json pod = Json::parse(text, nullptr, false);
    ASSERT_TRUE(pod.is_object()) << text;
    EXPECT_EQ(pod["kind"], "Pod");
    EXPECT_EQ(pod["metadata"]["managedFields"].size(), 2U);
    EXPECT_EQ(pod["metadata"]["ownerReferences"].size(), 1U);
    EXPECT_EQ(pod["status"]["phase"], "Running");
    EXPECT_EQ(pod["spec"]["containers"].size(), pod["status"]["containerStatuses"].size());
    names.insert(pod["metadata"]["name"].get<std::string>());
    namespaces.insert(pod["metadata"]["namespace"].get<std::string>());
    nodes.insert(pod["spec"]["nodeName"].get<std::string>());
  }
  EXPECT_EQ(names.size(), 500U);
  EXPECT_EQ(namespaces.size(), 20U);
  EXPECT_GT(nodes.size(), 90U);
}

TEST(WorkloadTest, APodIsAFunctionOfSeedAndIndex) {
  EXPECT_EQ(MakePod(7, 42), MakePod(7, 42));
  EXPECT_NE(MakePod(7, 42), MakePod(8, 42));
  EXPECT_NE(MakePod(7, 42), MakePod(7, 43));
  // A revision changes the status and nothing that identifies the pod.
  const Json before = Json::parse(MakePod(7, 42, 0));
  const Json after = Json::parse(MakePod(7, 42, 1));
  EXPECT_NE(before["status"], after["status"]);
  EXPECT_EQ(before["spec"], after["spec"]);
  EXPECT_EQ(before["metadata"]["uid"], after["metadata"]["uid"]);
  const PodSource source({.seed = 7});
  EXPECT_EQ(before["metadata"]["uid"], source.Uid(42, 0));
  EXPECT_EQ(before["metadata"]["name"], source.Key(42).name);
}

class ChurnTest : public SimulatorTest {};

TEST_F(ChurnTest, LoadServesEveryPodAndItsPlaces) {
  ASSERT_TRUE(simulator_->Load(300));
  EXPECT_EQ(simulator_->Count("pods"), 300U);
  EXPECT_EQ(simulator_->Count("nodes"), 100U);
  const ObjectKey key = PodSource({.seed = 1}).Key(123);
  const Result<ObjectPtr> pod = simulator_->Get("pods", key.ns, key.name);
  ASSERT_TRUE(pod);
  Json expected = Json::parse(MakePod(1, 123));
  expected["metadata"]["resourceVersion"] = std::string((*pod)->resource_version());
  EXPECT_EQ((*pod)->ToMutable(), expected);
  // A second load goes on where the first ended.
  ASSERT_TRUE(simulator_->Load(10));
  EXPECT_EQ(simulator_->Count("pods"), 310U);
}

// What estimates how busy a cluster is reads these times.
TEST_F(ChurnTest, ChangesBearTheTimeOfTheClock) {
  ASSERT_TRUE(simulator_->Load(5));
  const uint64_t loaded = simulator_->Version();
  const int64_t before = std::chrono::system_clock::to_time_t(RealClock()->WallNow());
  simulator_->RunChurn(40, {.create = 1, .update = 4, .remove = 0});
  size_t seen = 0;
  for (const auto& [key, version] : simulator_->Snapshot("pods")) {
    if (std::stoull(version.second) <= loaded) continue;
    const size_t slash = key.find('/');
    const auto pod = simulator_->Get("pods", key.substr(0, slash), key.substr(slash + 1));
    ASSERT_TRUE(pod);
    std::tm parts{};
    const Json json = (*pod)->ToMutable();
    const std::string time = json["metadata"]["managedFields"][1].value("time", "");
    ASSERT_NE(strptime(time.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts), nullptr) << time;
    EXPECT_GE(timegm(&parts), before) << time;
    ++seen;
  }
  EXPECT_GT(seen, 5U);
}

// A watch followed from the start ends in the state the server has.
TEST_F(ChurnTest, AWatchFollowedToTheEndGivesTheServersState) {
  ASSERT_TRUE(simulator_->Load(200));
  std::map<std::string, std::pair<std::string, std::string>> seen = simulator_->Snapshot("pods");
  const uint64_t start = simulator_->Version();
  WatchReader watch(address(), "/api/v1/pods?watch=1&resourceVersion=" + std::to_string(start));
  ASSERT_EQ(watch.Code(), 200);
  simulator_->RunChurn(600, {.create = 2, .update = 6, .remove = 2, .seed = 5});
  std::string last = std::to_string(start);
  uint64_t events = 0;
  for (const HistoryEntry& entry : simulator_->History(start)) {
    const Json event = watch.Next();
    ASSERT_TRUE(event.is_object());
    ++events;
    const Json& metadata = event["object"]["metadata"];
    const std::string key =
        metadata["namespace"].get<std::string>() + "/" + metadata["name"].get<std::string>();
    EXPECT_EQ(event["type"], std::string(ToString(entry.type)));
    EXPECT_EQ(key, entry.ns + "/" + entry.name);
    EXPECT_EQ(VersionOf(event["object"]), std::to_string(entry.version));
    if (entry.type == EventType::kDeleted) {
      seen.erase(key);
    } else {
      seen[key] = {entry.uid, VersionOf(event["object"])};
    }
  }
  EXPECT_EQ(events, 600U);
  EXPECT_EQ(seen, simulator_->Snapshot("pods"));
  const ChurnCounts counts = simulator_->ChurnDone();
  EXPECT_GT(counts.created, 60U);
  EXPECT_GT(counts.deleted, 60U);
}

TEST_F(ChurnTest, StatefulPodsComeBackUnderTheirNameWithAnotherUid) {
  ASSERT_TRUE(simulator_->Load(200));
  simulator_->RunChurn(600, {.create = 1, .update = 0, .remove = 1, .seed = 3});
  std::map<std::string, std::set<std::string>> uids;
  for (const HistoryEntry& entry : simulator_->History()) {
    if (entry.resource == "pods") uids[entry.ns + "/" + entry.name].insert(entry.uid);
  }
  size_t recreated = 0;
  for (const auto& [key, values] : uids) recreated += values.size() > 1;
  EXPECT_GT(recreated, 0U);
}

TEST_F(ChurnTest, UpdatesOnTopOfWhatOthersWrote) {
  ASSERT_TRUE(simulator_->Load(1));
  const ObjectKey key = PodSource({.seed = 1}).Key(0);
  ASSERT_TRUE(
      simulator_->Patch("pods", key.ns, key.name, R"({"metadata":{"labels":{"mine":"yes"}}})"));
  simulator_->RunChurn(3, {.create = 0, .update = 1, .remove = 0});
  const Result<ObjectPtr> pod = simulator_->Get("pods", key.ns, key.name);
  ASSERT_TRUE(pod);
  EXPECT_EQ((*pod)->Label("mine"), "yes");
}

TEST_F(ChurnTest, RunsStopsAndIsSteeredOverHttp) {
  EXPECT_EQ(client_->Post("/simulator/load", {{"pods", 50}}).json()["objects"]["pods"], 50);
  EXPECT_EQ(client_->Post("/simulator/churn", {{"rate", 5000}, {"limit", 300}}).code, 200);
  EXPECT_TRUE(simulator_->WaitForChurnLimit());
  const Json done = client_->Get("/simulator/churn").json();
  EXPECT_FALSE(done["running"]);
  EXPECT_EQ(client_->Post("/simulator/churn", {{"rate", 0}}).json()["running"], false);
  const uint64_t version = simulator_->Version();
  EXPECT_EQ(simulator_->Version(), version);
  const ChurnCounts counts = simulator_->ChurnDone();
  EXPECT_EQ(counts.created + counts.updated + counts.deleted, 300U);
}

}  // namespace
}  // namespace larder::apiserver
