// The client's writes against the real server: conflicts, apply, subresources, leases, events,
// discovery.
#include <gmock/gmock.h>

#include "client/discovery.h"
#include "client/event_recorder.h"
#include "client/retry.h"
#include "schema/selector.h"
#include "tests/kube/kube_fixture.h"

namespace larder {
namespace {

using ::testing::HasSubstr;

using KubeWrite = KubeTest;

Json ToJson(const ObjectPtr& object) { return object->ToMutable(); }

TEST_F(KubeWrite, ErrorsAreDistinctAndCarryTheStatus) {
  Make("a");
  const auto code = [](const auto& result) { return result.error().code; };
  EXPECT_EQ(code(client_->Create(resource_, ConfigMap("a"))), ErrorCode::kAlreadyExists);
  EXPECT_EQ(code(client_->Get(resource_, {ns_, "none"})), ErrorCode::kNotFound);
  const auto invalid = client_->Create(resource_, ConfigMap("Not_Valid"));
  EXPECT_EQ(code(invalid), ErrorCode::kInvalid);
  EXPECT_THAT(invalid.error().status_json, HasSubstr("metadata.name"));
  Json old = ToJson(*client_->Get(resource_, {ns_, "a"}));
  Change("a", "2");
  EXPECT_EQ(code(client_->Update(resource_, old)), ErrorCode::kConflict);
  EXPECT_EQ(
      code(client_->Delete(resource_, {ns_, "a"}, {.uid = "11111111-1111-4111-8111-111111111111"})),
      ErrorCode::kConflict);
  EXPECT_EQ(code(client_->List(resource_, {.ns = ns_, .resource_version = "999999999999"})),
            ErrorCode::kVersionTooLarge);
}

TEST_F(KubeWrite, ARolesNameMayHoldAnything) {
  const Resource roles{"rbac.authorization.k8s.io", "v1", "roles", "Role", true};
  const ObjectKey key{ns_, "cn=alice@corp.com, ou=a b?"};
  const auto made =
      client_->Create(roles, {{"metadata", {{"namespace", key.ns}, {"name", key.name}}}});
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_EQ((*client_->Get(roles, key))->uid(), (*made)->uid());
  const auto listed = client_->List(
      roles, {.ns = ns_, .field_selector = "metadata.name=" + FieldSelector::Escape(key.name)});
  ASSERT_TRUE(listed) << listed.error().ToString();
  EXPECT_EQ(listed->items.size(), 1U);
  EXPECT_TRUE(client_->Delete(roles, key));
  EXPECT_EQ(client_->Get(roles, key).error().code, ErrorCode::kNotFound);
}

TEST_F(KubeWrite, RetriesAConflictUntilItIsWritten) {
  Make("a");
  int attempts = 0;
  const auto written = RetryOnConflict([&]() -> Result<ObjectPtr> {
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr current, client_->Get(resource_, {ns_, "a"}));
    Json next = ToJson(current);
    if (++attempts == 1) Change("a", "from somebody else");
    next["data"]["mine"] = "1";
    return client_->Update(resource_, next);
  });
  ASSERT_TRUE(written) << written.error().ToString();
  EXPECT_EQ(attempts, 2);
  EXPECT_EQ(ToJson(*written)["data"]["k"], "from somebody else");
}

TEST_F(KubeWrite, AppliesOnTheServer) {
  Json intent = ConfigMap("a", "1");
  const auto applied = client_->Apply(resource_, intent, "one");
  ASSERT_TRUE(applied) << applied.error().ToString();
  intent["data"]["k"] = "2";
  const auto refused = client_->Apply(resource_, intent, "two");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_THAT(refused.error().status_json, HasSubstr("FieldManagerConflict"));
  const auto forced = client_->Apply(resource_, intent, "two", /*force=*/true);
  ASSERT_TRUE(forced) << forced.error().ToString();
  EXPECT_EQ(ToJson(*forced)["data"]["k"], "2");
}

TEST_F(KubeWrite, PatchesInEveryWay) {
  Make("a");
  const auto k = [&](PatchType type, const Json& patch) {
    const auto patched = client_->Patch(resource_, {ns_, "a"}, type, patch);
    return patched ? ToJson(*patched)["data"].value("k", "none") : patched.error().ToString();
  };
  EXPECT_EQ(k(PatchType::kJsonMerge, {{"data", {{"k", "merge"}}}}), "merge");
  EXPECT_EQ(k(PatchType::kStrategic, {{"data", {{"k", "strategic"}}}}), "strategic");
  EXPECT_EQ(k(PatchType::kJsonPatch,
              Json::array({{{"op", "replace"}, {"path", "/data/k"}, {"value", "operation"}}})),
            "operation");
}

TEST_F(KubeWrite, StatusAndScaleAreWrittenApart) {
  const Resource deployments = *LookupResource("deployments");
  const Json labels = {{"app", "a"}};
  const Json deployment = {{"metadata", {{"name", "a"}, {"namespace", ns_}}},
                           {"spec",
                            {{"replicas", 1},
                             {"selector", {{"matchLabels", labels}}},
                             {"template",
                              {{"metadata", {{"labels", labels}}},
                               {"spec", {{"containers", {{{"name", "c"}, {"image", "i"}}}}}}}}}}};
  const auto made = client_->Create(deployments, deployment);
  ASSERT_TRUE(made) << made.error().ToString();
  Json status = ToJson(*made);
  status["status"]["readyReplicas"] = 1;
  status["status"]["replicas"] = 1;
  const auto updated = client_->UpdateStatus(deployments, status);
  ASSERT_TRUE(updated) << updated.error().ToString();
  EXPECT_EQ(ToJson(*updated)["status"]["readyReplicas"], 1);
  ASSERT_TRUE(client_->SetScale(deployments, {ns_, "a"}, 3));
  const auto scale = client_->GetScale(deployments, {ns_, "a"});
  ASSERT_TRUE(scale) << scale.error().ToString();
  EXPECT_EQ(ToJson(*scale)["spec"]["replicas"], 3);
  EXPECT_EQ(ToJson(*scale)["kind"], "Scale");
  ASSERT_TRUE(client_->Delete(deployments, {ns_, "a"}, {.propagation = Propagation::kBackground}));
}

TEST_F(KubeWrite, LeasesAreTakenByOneOnly) {
  const Resource leases = *LookupResource("leases");
  const auto made = client_->Create(leases, {{"metadata", {{"name", "l"}, {"namespace", ns_}}},
                                             {"spec",
                                              {{"holderIdentity", "one"},
                                               {"leaseDurationSeconds", 15},
                                               {"renewTime", "2026-01-02T03:04:05.000006Z"}}}});
  ASSERT_TRUE(made) << made.error().ToString();
  Json lease = ToJson(*made);
  EXPECT_EQ(lease["spec"]["renewTime"], "2026-01-02T03:04:05.000006Z");
  lease["spec"]["holderIdentity"] = "two";
  ASSERT_TRUE(client_->Update(leases, lease));
  lease["spec"]["holderIdentity"] = "three";
  EXPECT_EQ(client_->Update(leases, lease).error().code, ErrorCode::kConflict);
  resource_ = leases;
  MirrorTarget target(cluster_uid_);
  Run(&target);
  EXPECT_TRUE(Equal(target));
}

TEST_F(KubeWrite, RecordsEventsInBothApis) {
  Make("a");
  const auto about = client_->Get(resource_, {ns_, "a"});
  ASSERT_TRUE(about);
  for (const auto api : {EventRecorder::Api::kCoreV1, EventRecorder::Api::kEventsV1}) {
    EventRecorder::Options options;
    options.component = "larder-test";
    options.api = api;
    EventRecorder recorder(*transport_, options);
    for (int i = 0; i < 3; ++i) {
      recorder.Event(**about, EventLevel::kWarning, "Tested", "this is a test", "Test");
    }
    EXPECT_TRUE(recorder.Flush(RealClock()->Now() + std::chrono::seconds(30)));
    EXPECT_EQ(recorder.dropped(), 0U);
    EXPECT_GE(recorder.written(), 1U);
  }
  const auto events = client_->List({"", "v1", "events", "Event", true}, {.ns = ns_});
  ASSERT_TRUE(events) << events.error().ToString();
  ASSERT_EQ(events->items.size(), 2U);
  for (const ObjectPtr& event : events->items) {
    EXPECT_EQ(ToJson(event)["reason"], "Tested");
    EXPECT_EQ(ToJson(event)["involvedObject"]["uid"], std::string((*about)->uid()));
  }
}

TEST_F(KubeWrite, DiscoveryMapsKindsAndNoticesNewDefinitions) {
  Discovery::Options options;
  options.min_refresh_interval = std::chrono::milliseconds(0);
  Discovery discovery(*transport_, options);
  const auto deployments = discovery.Resolve("deploy");
  ASSERT_TRUE(deployments) << deployments.error().ToString();
  EXPECT_EQ(deployments->ToString(), "deployments.apps");
  EXPECT_EQ(deployments->kind, "Deployment");
  const auto nodes = discovery.ForKind("v1", "Node");
  ASSERT_TRUE(nodes) << nodes.error().ToString();
  EXPECT_FALSE(nodes->namespaced);
  const std::string group = ns_ + ".example.com";
  EXPECT_EQ(discovery.Resolve("gadgets." + group).error().code, ErrorCode::kNotFound);
  const Resource definitions = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                "CustomResourceDefinition", false};
  const Json schema = {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}};
  ASSERT_TRUE(client_->Create(
      definitions,
      {{"metadata", {{"name", "gadgets." + group}}},
       {"spec",
        {{"group", group},
         {"scope", "Cluster"},
         {"names", {{"plural", "gadgets"}, {"singular", "gadget"}, {"kind", "Gadget"}}},
         {"versions", Json::array({{{"name", "v1"},
                                    {"served", true},
                                    {"storage", true},
                                    {"schema", {{"openAPIV3Schema", schema}}}}})}}}}));
  EXPECT_TRUE(Eventually([&] {
    const auto found = discovery.Resolve("gadgets." + group);
    return found && !found->namespaced && found->kind == "Gadget";
  }));
  (void)client_->Delete(definitions, {"", "gadgets." + group});
}

}  // namespace
}  // namespace larder
