#include <gmock/gmock.h>

#include "tests/apiserver/simulator_fixture.h"

namespace larder::apiserver {
namespace {

using ::testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kMerge = "application/merge-patch+json";
constexpr const char* kStrategic = "application/strategic-merge-patch+json";
constexpr const char* kApply = "application/apply-patch+yaml";
constexpr const char* kDeployments = "/apis/apps/v1/namespaces/default/deployments";

class WriteTest : public SimulatorTest {
 protected:
  Json MakeDeployment(const std::string& name) {
    const Json body = {
        {"metadata", {{"name", name}}},
        {"spec",
         {{"replicas", 2},
          {"selector", {{"matchLabels", {{"app", name}}}}},
          {"template",
           {{"spec",
             {{"containers", Json::array({{{"name", "a"}, {"image", "one"}},
                                          {{"name", "b"}, {"image", "two"}}})}}}}}}}};
    const HttpAnswer made = client_->Post(kDeployments, body);
    EXPECT_EQ(made.code, 201) << made.body;
    return made.json();
  }
};

std::string At(const char* collection, const std::string& name) {
  return std::string(collection) + "/" + name;
}

TEST_F(WriteTest, CreationFillsInWhatTheServerOwns) {
  const Json made = client_
                        ->Post(kConfigMaps, {{"apiVersion", "v1"},
                                             {"kind", "ConfigMap"},
                                             {"metadata", {{"name", "a"}, {"uid", "mine"}}}})
                        .json();
  EXPECT_EQ(made["metadata"]["namespace"], "default");
  EXPECT_EQ(made["metadata"]["uid"].get<std::string>().size(), 36U);
  EXPECT_EQ(VersionOf(made), Version());
  EXPECT_EQ(made["metadata"]["creationTimestamp"].get<std::string>().size(), 20U);
  EXPECT_FALSE(made["metadata"].contains("generation"));
  EXPECT_EQ(MakeDeployment("d")["metadata"]["generation"], 1);
}

TEST_F(WriteTest, RefusesWhatTheRealServerRefuses) {
  MakeConfigMap("a");
  const HttpAnswer again = client_->Post(kConfigMaps, {{"metadata", {{"name", "a"}}}});
  EXPECT_EQ(again.code, 409);
  EXPECT_EQ(again.json()["reason"], "AlreadyExists");
  EXPECT_EQ(again.json()["message"], "configmaps \"a\" already exists");
  EXPECT_EQ(again.json()["details"]["name"], "a");

  const HttpAnswer nowhere =
      client_->Post("/api/v1/namespaces/nowhere/configmaps", {{"metadata", {{"name", "a"}}}});
  EXPECT_EQ(nowhere.code, 404);
  EXPECT_EQ(nowhere.json()["message"], "namespaces \"nowhere\" not found");

  EXPECT_EQ(client_->Post(kConfigMaps, {{"metadata", {{"name", "Not_A_Name"}}}}).code, 422);
  EXPECT_EQ(client_->Post(kConfigMaps, {{"metadata", Json::object()}}).code, 422);
  EXPECT_EQ(client_->Post(kConfigMaps, {{"kind", "Pod"}, {"metadata", {{"name", "b"}}}}).code, 400);
  EXPECT_EQ(
      client_->Post(kConfigMaps, {{"metadata", {{"name", "b"}, {"namespace", "other"}}}}).code,
      400);
  EXPECT_EQ(client_->Post("/api/v1/nothings", Json::object()).code, 404);
  EXPECT_EQ(client_->Post("/api/v1/pods", Json::object()).code, 405);
  EXPECT_EQ(client_->Get(At(kConfigMaps, "zz")).json()["reason"], "NotFound");
  EXPECT_EQ(
      client_->Post("/api/v1/namespaces", {{"metadata", {{"name", "n"}, {"labels", 1}}}}).code,
      400);
  EXPECT_EQ(client_->Delete(At(kConfigMaps, "a"), {{"preconditions", {{"uid", 1}}}}).code, 400);
  EXPECT_EQ(client_->Patch(At(kConfigMaps, "a"), {{"metadata", nullptr}}, kMerge).code, 400);
}

TEST_F(WriteTest, GeneratesNames) {
  const Json body = {{"metadata", {{"generateName", "web-"}}}};
  const Json first = client_->Post(kConfigMaps, body).json();
  const Json second = client_->Post(kConfigMaps, body).json();
  EXPECT_THAT(first["metadata"]["name"].get<std::string>(), StartsWith("web-"));
  EXPECT_NE(first["metadata"]["name"], second["metadata"]["name"]);
}

TEST_F(WriteTest, UpdateWithAnOldVersionIsAConflict) {
  Json object = MakeConfigMap("a");
  object["data"]["k"] = "2";
  const HttpAnswer updated = client_->Put(At(kConfigMaps, "a"), object);
  EXPECT_EQ(updated.code, 200);
  EXPECT_NE(VersionOf(updated.json()), VersionOf(object));
  object["data"]["k"] = "3";
  const HttpAnswer conflict = client_->Put(At(kConfigMaps, "a"), object);
  EXPECT_EQ(conflict.code, 409);
  EXPECT_EQ(conflict.json()["reason"], "Conflict");
  EXPECT_THAT(conflict.json()["message"].get<std::string>(),
              HasSubstr("the object has been modified"));
  // Without a version it is unconditional.
  object["metadata"].erase("resourceVersion");
  EXPECT_EQ(client_->Put(At(kConfigMaps, "a"), object).code, 200);
  object["metadata"]["uid"] = "11111111-1111-4111-8111-111111111111";
  EXPECT_EQ(client_->Put(At(kConfigMaps, "a"), object).code, 409);
  object["metadata"] = {{"name", "b"}};
  EXPECT_EQ(client_->Put(At(kConfigMaps, "a"), object).code, 400);
  EXPECT_EQ(client_->Put(At(kConfigMaps, "b"), object).code, 404);
}

TEST_F(WriteTest, AWriteThatChangesNothingMakesNoVersion) {
  const Json object = MakeConfigMap("a");
  const std::string before = Version();
  EXPECT_EQ(client_->Put(At(kConfigMaps, "a"), object).code, 200);
  EXPECT_EQ(client_->Patch(At(kConfigMaps, "a"), {{"data", {{"k", "v"}}}}, kMerge).code, 200);
  EXPECT_EQ(Version(), before);
}

TEST_F(WriteTest, GenerationCountsChangesOfTheSpecOnly) {
  MakeDeployment("d");
  const auto generation = [&](const HttpAnswer& answer) {
    return answer.json()["metadata"]["generation"].get<int>();
  };
  EXPECT_EQ(generation(client_->Patch(At(kDeployments, "d"),
                                      {{"metadata", {{"labels", {{"a", "b"}}}}}}, kMerge)),
            1);
  EXPECT_EQ(
      generation(client_->Patch(At(kDeployments, "d"), {{"spec", {{"replicas", 5}}}}, kMerge)), 2);
}

TEST_F(WriteTest, StatusIsASubresource) {
  MakeDeployment("d");
  // The main resource ignores status, the status subresource ignores everything else.
  Json main = client_
                  ->Patch(At(kDeployments, "d"),
                          {{"spec", {{"replicas", 3}}}, {"status", {{"replicas", 9}}}}, kMerge)
                  .json();
  EXPECT_FALSE(main.contains("status"));
  const Json status =
      client_
          ->Patch(At(kDeployments, "d") + "/status",
                  {{"spec", {{"replicas", 4}}}, {"status", {{"replicas", 9}}}}, kMerge)
          .json();
  EXPECT_EQ(status["spec"]["replicas"], 3);
  EXPECT_EQ(status["status"]["replicas"], 9);
  EXPECT_EQ(status["metadata"]["generation"], 2);
  main["metadata"]["resourceVersion"] = VersionOf(status);
  main["status"]["replicas"] = 10;
  EXPECT_EQ(client_->Put(At(kDeployments, "d") + "/status", main).json()["status"]["replicas"], 10);
  EXPECT_EQ(client_->Get(At(kConfigMaps, "a") + "/status").code, 404);
}

TEST_F(WriteTest, ScaleIsASubresource) {
  MakeDeployment("d");
  Json scale = client_->Get(At(kDeployments, "d") + "/scale").json();
  EXPECT_EQ(scale["kind"], "Scale");
  EXPECT_EQ(scale["spec"]["replicas"], 2);
  EXPECT_EQ(scale["status"]["selector"], "app=d");
  scale["spec"]["replicas"] = 7;
  EXPECT_EQ(client_->Put(At(kDeployments, "d") + "/scale", scale).json()["spec"]["replicas"], 7);
  EXPECT_EQ(client_->Get(At(kDeployments, "d")).json()["spec"]["replicas"], 7);
  EXPECT_EQ(client_->Put(At(kDeployments, "d") + "/scale", scale).code, 409);
  EXPECT_EQ(client_->Patch(At(kDeployments, "d") + "/scale", {{"spec", {{"replicas", 1}}}}, kMerge)
                .json()["spec"]["replicas"],
            1);
}

TEST_F(WriteTest, MergePatchReplacesListsAndStrategicPatchMergesThem) {
  MakeDeployment("d");
  const Json patch = {
      {"spec",
       {{"template",
         {{"spec", {{"containers", Json::array({{{"name", "b"}, {"image", "new"}}})}}}}}}}};
  const Json merged = client_->Patch(At(kDeployments, "d"), patch, kStrategic).json();
  const Json containers = merged["spec"]["template"]["spec"]["containers"];
  ASSERT_EQ(containers.size(), 2U);
  EXPECT_EQ(containers[0]["image"], "one");
  EXPECT_EQ(containers[1]["image"], "new");
  const Json replaced = client_->Patch(At(kDeployments, "d"), patch, kMerge).json();
  EXPECT_EQ(replaced["spec"]["template"]["spec"]["containers"].size(), 1U);
  EXPECT_EQ(client_->Patch(At(kDeployments, "d"), patch, "text/plain").code, 415);
}

TEST_F(WriteTest, JsonPatchAppliesOrIsRefused) {
  MakeConfigMap("a");
  const char* const type = "application/json-patch+json";
  const Json good = Json::array({{{"op", "replace"}, {"path", "/data/k"}, {"value", "2"}}});
  EXPECT_EQ(client_->Patch(At(kConfigMaps, "a"), good, type).json()["data"]["k"], "2");
  const Json bad = Json::array({{{"op", "test"}, {"path", "/data/k"}, {"value", "9"}}});
  EXPECT_EQ(client_->Patch(At(kConfigMaps, "a"), bad, type).code, 422);
}

TEST_F(WriteTest, ServerSideApplyOwnsFieldsAndReportsConflicts) {
  const auto apply = [&](const char* manager, const Json& data, const char* more = "") {
    return client_->Patch(At(kConfigMaps, "a") + "?fieldManager=" + manager + more,
                          {{"apiVersion", "v1"},
                           {"kind", "ConfigMap"},
                           {"metadata", {{"name", "a"}}},
                           {"data", data}},
                          kApply);
  };
  EXPECT_EQ(client_->Patch(At(kConfigMaps, "a"), Json::object(), kApply).code, 422);
  EXPECT_EQ(apply("one", {{"x", "1"}, {"y", "1"}}).code, 201);
  // Another manager may add fields, and share equal ones, but not change them.
  EXPECT_EQ(apply("two", {{"z", "1"}, {"y", "1"}}).code, 200);
  const HttpAnswer conflict = apply("two", {{"z", "1"}, {"y", "2"}});
  EXPECT_EQ(conflict.code, 409);
  EXPECT_EQ(conflict.json()["details"]["causes"][0]["reason"], "FieldManagerConflict");
  EXPECT_EQ(conflict.json()["details"]["causes"][0]["field"], ".data.y");
  EXPECT_THAT(conflict.json()["message"].get<std::string>(), HasSubstr("conflict with \"one\""));
  EXPECT_EQ(apply("two", {{"z", "1"}, {"y", "2"}}, "&force=true").json()["data"]["y"], "2");
  // What a manager leaves out goes, if nobody else has it.
  const Json left = apply("one", Json::object()).json();
  EXPECT_FALSE(left["data"].contains("x"));
  EXPECT_EQ(left["data"]["y"], "2");
  // A plain update takes fields over too.
  EXPECT_EQ(
      client_->Patch(At(kConfigMaps, "a") + "?fieldManager=three", {{"data", {{"z", "3"}}}}, kMerge)
          .code,
      200);
  EXPECT_EQ(apply("two", {{"z", "1"}, {"y", "2"}}).code, 409);
}

TEST_F(WriteTest, DeleteAnswersAndHonoursPreconditions) {
  const Json object = MakeConfigMap("a");
  const Json wrong = {{"preconditions", {{"uid", "11111111-1111-4111-8111-111111111111"}}}};
  EXPECT_EQ(client_->Delete(At(kConfigMaps, "a"), wrong).code, 409);
  const Json old = {{"preconditions", {{"resourceVersion", "1"}}}};
  EXPECT_EQ(client_->Delete(At(kConfigMaps, "a"), old).code, 409);
  const Json right = {{"preconditions", {{"uid", object["metadata"]["uid"]}}},
                      {"propagationPolicy", "Background"}};
  const HttpAnswer deleted = client_->Delete(At(kConfigMaps, "a"), right);
  EXPECT_EQ(deleted.code, 200);
  EXPECT_EQ(deleted.json()["status"], "Success");
  EXPECT_EQ(deleted.json()["details"]["uid"], object["metadata"]["uid"]);
  EXPECT_EQ(client_->Delete(At(kConfigMaps, "a")).code, 404);
}

TEST_F(WriteTest, FinalizersHoldADeletedObjectUntilTheyAreGone) {
  ASSERT_EQ(client_
                ->Post(kConfigMaps,
                       {{"metadata", {{"name", "a"}, {"finalizers", Json::array({"x.io/y"})}}}})
                .code,
            201);
  WatchReader watch(address(), std::string(kConfigMaps) + "?watch=1&resourceVersion=" + Version());
  const HttpAnswer deleted = client_->Delete(At(kConfigMaps, "a"));
  EXPECT_EQ(deleted.code, 200);
  EXPECT_TRUE(deleted.json()["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ(Summary(watch.Next()), "MODIFIED default/a");
  EXPECT_EQ(client_->Get(At(kConfigMaps, "a")).code, 200);
  EXPECT_EQ(
      client_->Patch(At(kConfigMaps, "a"), {{"metadata", {{"finalizers", nullptr}}}}, kMerge).code,
      200);
  EXPECT_EQ(Summary(watch.Next()), "DELETED default/a");
  EXPECT_EQ(client_->Get(At(kConfigMaps, "a")).code, 404);
}

TEST_F(WriteTest, DeletesACollectionBySelector) {
  MakeConfigMap("a", {{"app", "web"}});
  MakeConfigMap("b", {{"app", "web"}});
  MakeConfigMap("c");
  const HttpAnswer deleted = client_->Delete(std::string(kConfigMaps) + "?labelSelector=app%3Dweb");
  EXPECT_EQ(deleted.code, 200);
  EXPECT_EQ(deleted.json()["items"].size(), 2U);
  EXPECT_EQ(simulator_->Count("configmaps"), 1U);
}

TEST_F(WriteTest, DeletingANamespaceDeletesWhatIsInIt) {
  ASSERT_TRUE(simulator_->CreateNamespace("team"));
  MakeConfigMap("a", Json::object(), "team");
  ASSERT_EQ(client_
                ->Post("/api/v1/namespaces/team/secrets",
                       {{"metadata", {{"name", "held"}, {"finalizers", Json::array({"x.io/y"})}}}})
                .code,
            201);
  WatchReader namespaces(address(), "/api/v1/namespaces?watch=1&resourceVersion=" + Version());
  EXPECT_EQ(client_->Delete("/api/v1/namespaces/team").code, 200);
  const Json terminating = namespaces.Next();
  EXPECT_EQ(terminating["object"]["status"]["phase"], "Terminating");
  EXPECT_EQ(simulator_->Count("configmaps"), 0U);
  // Held by the secret's finalizer, and closed for new things.
  EXPECT_EQ(client_->Get("/api/v1/namespaces/team").code, 200);
  EXPECT_EQ(
      client_->Post("/api/v1/namespaces/team/configmaps", {{"metadata", {{"name", "b"}}}}).code,
      403);
  EXPECT_EQ(client_
                ->Patch("/api/v1/namespaces/team/secrets/held",
                        {{"metadata", {{"finalizers", nullptr}}}}, kMerge)
                .code,
            200);
  EXPECT_EQ(Summary(namespaces.Next()), "DELETED team");
  EXPECT_EQ(client_->Delete("/api/v1/namespaces/kube-system").code, 403);
}

TEST_F(WriteTest, DryRunChangesNothing) {
  const std::string before = Version();
  EXPECT_EQ(
      client_->Post(std::string(kConfigMaps) + "?dryRun=All", {{"metadata", {{"name", "a"}}}}).code,
      201);
  EXPECT_EQ(Version(), before);
  EXPECT_EQ(client_->Get(At(kConfigMaps, "a")).code, 404);
}

TEST_F(WriteTest, LeasesArePlainObjectsAndUpdateCreatesThem) {
  const std::string leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
  const Json lease = {{"metadata", {{"name", "l"}}}, {"spec", {{"holderIdentity", "me"}}}};
  EXPECT_EQ(client_->Put(leases + "/l", lease).code, 201);
  EXPECT_EQ(client_->Get(leases + "/l").json()["spec"]["holderIdentity"], "me");
}

TEST_F(WriteTest, ConcurrentUpdatesWithVersionsLoseNone) {
  MakeConfigMap("counter");
  ASSERT_TRUE(simulator_->Patch("configmaps", "default", "counter", R"({"data":{"k":"0"}})"));
  constexpr int kThreads = 4;
  constexpr int kEach = 25;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int done = 0; done < kEach;) {
        Json object = client_->Get(At(kConfigMaps, "counter")).json();
        object["data"]["k"] = std::to_string(std::stoi(object["data"]["k"].get<std::string>()) + 1);
        if (client_->Put(At(kConfigMaps, "counter"), object).code == 200) ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(client_->Get(At(kConfigMaps, "counter")).json()["data"]["k"],
            std::to_string(kThreads * kEach));
}

TEST_F(WriteTest, ConcurrentPatchesWithoutAVersionAreAllDone) {
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  for (const char* const type : {kMerge, kApply}) {
    SCOPED_TRACE(type);
    const std::string name = type == kMerge ? "merged" : "applied";
    MakeConfigMap(name);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, own = std::to_string(t)] {
        // Each adds a key of its own with every patch; an apply names the earlier ones again.
        Json patch = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", name}}}};
        for (int i = 0; i < kEach; ++i) {
          patch["data"][own + "-" + std::to_string(i)] = "done";
          const HttpAnswer answer =
              client_->Patch(At(kConfigMaps, name) + "?fieldManager=m" + own, patch, type);
          EXPECT_EQ(answer.code, 200) << answer.body;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // With "k", which it was made with.
    EXPECT_EQ(client_->Get(At(kConfigMaps, name)).json()["data"].size(), 1U + kThreads * kEach);
  }
}

}  // namespace
}  // namespace larder::apiserver
