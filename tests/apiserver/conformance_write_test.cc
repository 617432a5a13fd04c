// Conformance: create, update, patch, apply, delete, CRDs, leases.
#include <gmock/gmock.h>

#include "tests/apiserver/conformance_fixture.h"

namespace larder::apiserver {
namespace {

using ::testing::HasSubstr;
using testing::StartsWith;

class ConformanceWrite : public ConformanceTest {};

TEST_F(ConformanceWrite, CreatesOnce) {
  const Json made = Make("a");
  EXPECT_EQ(made["metadata"]["uid"].get<std::string>().size(), 36U);
  EXPECT_TRUE(CompareResourceVersions(VersionOf(made), "1"));
  const HttpAnswer again = client_->Post(Path("configmaps"), {{"metadata", {{"name", "a"}}}});
  EXPECT_EQ(again.code, 409);
  EXPECT_EQ(again.json()["reason"], "AlreadyExists");
  const HttpAnswer nowhere = client_->Post("/api/v1/namespaces/no-such-namespace/configmaps",
                                           {{"metadata", {{"name", "a"}}}});
  EXPECT_EQ(nowhere.code, 404);
  EXPECT_EQ(nowhere.json()["details"]["kind"], "namespaces");
  EXPECT_EQ(client_->Post(Path("configmaps"), {{"metadata", {{"name", "Not_Valid"}}}}).code, 422);
}

TEST_F(ConformanceWrite, GeneratesNames) {
  const Json made =
      client_->Post(Path("configmaps"), {{"metadata", {{"generateName", "web-"}}}}).json();
  EXPECT_THAT(made["metadata"]["name"].get<std::string>(), StartsWith("web-"));
  EXPECT_EQ(made["metadata"]["name"].get<std::string>().size(), 9U);
}

TEST_F(ConformanceWrite, OldVersionIsAConflict) {
  Json object = Make("a");
  object["data"]["k"] = "2";
  EXPECT_EQ(client_->Put(Path("configmaps", "a"), object).code, 200);
  object["data"]["k"] = "3";
  const HttpAnswer conflict = client_->Put(Path("configmaps", "a"), object);
  EXPECT_EQ(conflict.code, 409);
  EXPECT_EQ(conflict.json()["reason"], "Conflict");
  EXPECT_EQ(conflict.json()["details"]["name"], "a");
  EXPECT_THAT(conflict.json()["message"].get<std::string>(),
              HasSubstr("the object has been modified"));
  const Json patch = {{"metadata", {{"resourceVersion", "1"}}}, {"data", {{"k", "4"}}}};
  EXPECT_EQ(Change("a", patch).code, 409);
}

TEST_F(ConformanceWrite, AWriteThatChangesNothingKeepsTheVersion) {
  const Json object = Make("a");
  EXPECT_EQ(VersionOf(client_->Put(Path("configmaps", "a"), object).json()), VersionOf(object));
  EXPECT_EQ(VersionOf(Change("a", {{"data", {{"k", "v"}}}}).json()), VersionOf(object));
}

TEST_F(ConformanceWrite, MergePatchRemovesWithNull) {
  Make("a");
  const Json patched = Change("a", {{"data", {{"k", nullptr}, {"x", "1"}}}}).json();
  EXPECT_FALSE(patched["data"].contains("k"));
  EXPECT_EQ(patched["data"]["x"], "1");
}

TEST_F(ConformanceWrite, ServerSideApplyReportsConflicts) {
  const auto apply = [&](const char* manager, const Json& data, const char* more = "") {
    return client_->Patch(Path("configmaps", "a") + "?fieldManager=" + manager + more,
                          {{"apiVersion", "v1"},
                           {"kind", "ConfigMap"},
                           {"metadata", {{"name", "a"}}},
                           {"data", data}},
                          "application/apply-patch+yaml");
  };
  EXPECT_EQ(apply("one", {{"x", "1"}, {"y", "1"}}).code, 201);
  EXPECT_EQ(apply("two", {{"z", "1"}, {"y", "1"}}).code, 200);
  const HttpAnswer conflict = apply("two", {{"z", "1"}, {"y", "2"}});
  EXPECT_EQ(conflict.code, 409);
  EXPECT_EQ(conflict.json()["details"]["causes"][0]["reason"], "FieldManagerConflict");
  EXPECT_EQ(conflict.json()["details"]["causes"][0]["field"], ".data.y");
  EXPECT_EQ(apply("two", {{"z", "1"}, {"y", "2"}}, "&force=true").json()["data"]["y"], "2");
  const Json left = apply("one", {{"w", "1"}}).json();
  EXPECT_FALSE(left["data"].contains("x"));
  EXPECT_EQ(left["data"]["y"], "2");
}

// The code and the field that the server refused, or the reason: "422 metadata.labels".
std::string Refusal(const HttpAnswer& answer) {
  const Json status = answer.json();
  const Json causes = status.value("details", Json::object()).value("causes", Json::array());
  std::string text = std::to_string(answer.code) + " ";
  text += causes.empty() ? status.value("reason", "") : causes[0].value("field", "");
  return text;
}

TEST_F(ConformanceWrite, RefusesMalformedObjects) {
  const auto create = [&](const Json& metadata, const Json& type = Json::object()) {
    Json object = type;
    object["metadata"] = metadata;
    return Refusal(client_->Post(Path("configmaps"), object));
  };
  EXPECT_EQ(create(Json::object()), "422 metadata.name");
  EXPECT_EQ(create({{"name", "Upper"}}), "422 metadata.name");
  EXPECT_EQ(create({{"name", "b"}, {"labels", {{"a b", "c"}}}}), "422 metadata.labels");
  EXPECT_EQ(create({{"name", "b"}, {"labels", {{"a", "c d"}}}}), "422 metadata.labels");
  EXPECT_EQ(create({{"name", "b"}, {"namespace", "other"}}), "400 BadRequest");
  EXPECT_EQ(create({{"name", "b"}}, {{"kind", "Secret"}, {"apiVersion", "v1"}}), "400 BadRequest");
  EXPECT_EQ(create({{"name", "b"}}, {{"kind", "ConfigMap"}, {"apiVersion", "v2"}}),
            "400 BadRequest");
  EXPECT_EQ(
      Refusal(client_->Post(Path("configmaps") + "?dryRun=Some", {{"metadata", {{"name", "b"}}}})),
      "422 dryRun");
  EXPECT_EQ(client_->Get(Path("configmaps", "b")).code, 404);
}

TEST_F(ConformanceWrite, RefusesMalformedPatches) {
  Make("a");
  const auto patch = [&](const Json& body, const char* type, const char* query = "") {
    return Refusal(
        client_->Patch(Path("configmaps", "a") + query, body, std::string("application/") + type));
  };
  EXPECT_EQ(patch({{"metadata", {{"name", "b"}}}}, "merge-patch+json"), "400 BadRequest");
  EXPECT_EQ(patch({{"metadata", {{"uid", "b"}}}}, "merge-patch+json"), "422 metadata.uid");
  EXPECT_EQ(patch(Json::object(), "json-patch+json"), "400 BadRequest");
  EXPECT_EQ(patch(Json::object(), "merge-patch+json", "?force=true"), "422 force");
  EXPECT_EQ(patch(Json::object(), "json"), "415 UnsupportedMediaType");
  const char* const apply = "apply-patch+yaml";
  const Json typed = {{"kind", "ConfigMap"}, {"apiVersion", "v1"}};
  EXPECT_EQ(patch({{"metadata", {{"name", "a"}}}}, apply, "?fieldManager=m"), "400 BadRequest");
  EXPECT_EQ(patch(typed, apply), "422 fieldManager");
  Json other = typed;
  other["metadata"]["name"] = "b";
  EXPECT_EQ(patch(other, apply, "?fieldManager=m"), "400 BadRequest");
  Json managed = typed;
  managed["metadata"]["managedFields"] = Json::array({{{"manager", "m"}}});
  EXPECT_EQ(patch(managed, apply, "?fieldManager=m"), "400 BadRequest");
}

TEST_F(ConformanceWrite, RefusesMalformedUpdatesAndDeletions) {
  const Json made = Make("a");
  const auto put = [&](const Json& metadata) {
    return Refusal(client_->Put(Path("configmaps", "a"), {{"metadata", metadata}}));
  };
  EXPECT_EQ(put(Json::object()), "400 BadRequest");
  EXPECT_EQ(put({{"name", "b"}}), "400 BadRequest");
  EXPECT_EQ(put({{"name", "a"}, {"resourceVersion", "abc"}}), "500 ");
  EXPECT_EQ(put({{"name", "a"}, {"resourceVersion", "1"}}), "409 Conflict");
  EXPECT_EQ(put({{"name", "a"}, {"uid", "another"}}), "409 Conflict");
  EXPECT_EQ(Refusal(client_->Put(Path("configmaps"), Json::object())), "405 MethodNotAllowed");
  EXPECT_EQ(Refusal(client_->Delete(Path("configmaps", "a"), {{"propagationPolicy", "Some"}})),
            "422 propagationPolicy");
  const HttpAnswer refused =
      client_->Delete(Path("configmaps", "a"), {{"preconditions", {{"resourceVersion", "1"}}}});
  EXPECT_EQ(Refusal(refused), "409 Conflict");
  EXPECT_EQ(refused.json()["details"]["kind"], "ConfigMap");
}

TEST_F(ConformanceWrite, SecretsAreWrittenAsText) {
  const Json made =
      client_->Post(Path("secrets"), {{"metadata", {{"name", "s"}}}, {"stringData", {{"a", "b"}}}})
          .json();
  EXPECT_EQ(made["data"]["a"], "Yg==");
  EXPECT_EQ(made["type"], "Opaque");
  EXPECT_FALSE(made.contains("stringData"));
}

TEST_F(ConformanceWrite, DeletesWithPreconditions) {
  const Json object = Make("a");
  const Json wrong = {{"preconditions", {{"uid", "11111111-1111-4111-8111-111111111111"}}}};
  EXPECT_EQ(client_->Delete(Path("configmaps", "a"), wrong).code, 409);
  const Json right = {{"preconditions", {{"uid", object["metadata"]["uid"]}}}};
  const HttpAnswer deleted = client_->Delete(Path("configmaps", "a"), right);
  EXPECT_EQ(deleted.code, 200);
  EXPECT_EQ(deleted.json()["kind"], "Status");
  EXPECT_EQ(deleted.json()["details"]["uid"], object["metadata"]["uid"]);
  EXPECT_EQ(client_->Delete(Path("configmaps", "a")).code, 404);
}

TEST_F(ConformanceWrite, FinalizersHoldWhatIsDeleted) {
  const Json finalizers = Json::array({"example.com/hold"});
  ASSERT_EQ(
      client_->Post(Path("configmaps"), {{"metadata", {{"name", "a"}, {"finalizers", finalizers}}}})
          .code,
      201);
  EXPECT_EQ(client_->Delete(Path("configmaps", "a")).code, 200);
  EXPECT_TRUE(
      client_->Get(Path("configmaps", "a")).json()["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ(Change("a", {{"metadata", {{"finalizers", nullptr}}}}).code, 200);
  EXPECT_EQ(client_->Get(Path("configmaps", "a")).code, 404);
}

TEST_F(ConformanceWrite, LeasesWork) {
  const std::string leases = "/apis/coordination.k8s.io/v1/namespaces/" + ns_ + "/leases";
  const HttpAnswer made =
      client_->Post(leases, {{"metadata", {{"name", "l"}}},
                             {"spec", {{"holderIdentity", "me"}, {"leaseDurationSeconds", 15}}}});
  ASSERT_EQ(made.code, 201) << made.body;
  Json lease = made.json();
  lease["spec"]["holderIdentity"] = "you";
  EXPECT_EQ(client_->Put(leases + "/l", lease).code, 200);
  EXPECT_EQ(client_->Put(leases + "/l", lease).code, 409);
  lease["metadata"].erase("resourceVersion");
  EXPECT_EQ(Refusal(client_->Put(leases + "/l", lease)), "422 metadata.resourceVersion");
  EXPECT_EQ(client_->Get(leases + "/l").json()["spec"]["holderIdentity"], "you");
}

class ConformanceCustom : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    group_ = ns_ + ".example.com";
    const Json schema = {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}};
    const Json crd = {
        {"apiVersion", "apiextensions.k8s.io/v1"},
        {"kind", "CustomResourceDefinition"},
        {"metadata", {{"name", "widgets." + group_}}},
        {"spec",
         {{"group", group_},
          {"scope", "Namespaced"},
          {"names", {{"plural", "widgets"}, {"singular", "widget"}, {"kind", "Widget"}}},
          {"versions", Json::array({{{"name", "v1"},
                                     {"served", true},
                                     {"storage", true},
                                     {"subresources", {{"status", Json::object()}}},
                                     {"schema", {{"openAPIV3Schema", schema}}}}})}}}};
    ASSERT_EQ(client_->Post(kCrds, crd).code, 201);
    widgets_ = "/apis/" + group_ + "/v1/namespaces/" + ns_ + "/widgets";
    // A real server takes a moment to serve it.
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (client_->Get(widgets_).code != 200 && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  void TearDown() override {
    client_->Delete(std::string(kCrds) + "/widgets." + group_);
    ConformanceTest::TearDown();
  }

  static constexpr const char* kCrds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  std::string group_;
  std::string widgets_;
};

TEST_F(ConformanceCustom, ServesWhatTheDefinitionDeclares) {
  const Json widget = {{"apiVersion", group_ + "/v1"},
                       {"kind", "Widget"},
                       {"metadata", {{"name", "a"}}},
                       {"spec", {{"color", "red"}}}};
  const HttpAnswer made = client_->Post(widgets_, widget);
  ASSERT_EQ(made.code, 201) << made.body;
  EXPECT_EQ(made.json()["metadata"]["generation"], 1);
  const Json list = client_->Get(widgets_).json();
  EXPECT_EQ(list["kind"], "WidgetList");
  EXPECT_EQ(list["items"][0]["kind"], "Widget");
  EXPECT_EQ(list["items"][0]["apiVersion"], group_ + "/v1");

  Json changed = made.json();
  changed["spec"]["color"] = "blue";
  changed["status"]["ready"] = true;
  const Json updated = client_->Put(widgets_ + "/a", changed).json();
  EXPECT_EQ(updated["metadata"]["generation"], 2);
  EXPECT_FALSE(updated.contains("status"));
  const Json status = client_
                          ->Patch(widgets_ + "/a/status", {{"status", {{"ready", true}}}},
                                  "application/merge-patch+json")
                          .json();
  EXPECT_EQ(status["status"]["ready"], true);
  EXPECT_EQ(status["metadata"]["generation"], 2);
  EXPECT_EQ(
      client_->Patch(widgets_ + "/a", Json::object(), "application/strategic-merge-patch+json")
          .code,
      415);
}

TEST_F(ConformanceCustom, RefusesAnotherKind) {
  const Json metadata = {{"name", "a"}};
  EXPECT_EQ(Refusal(client_->Post(widgets_, {{"metadata", metadata}})), "400 BadRequest");
  EXPECT_EQ(
      Refusal(client_->Post(
          widgets_, {{"apiVersion", group_ + "/v1"}, {"kind", "Other"}, {"metadata", metadata}})),
      "422 kind");
  const HttpAnswer nowhere = client_->Get("/apis/" + group_ + "/v1/others");
  EXPECT_EQ(nowhere.code, 404);
  EXPECT_EQ(nowhere.body, "404 page not found\n");
}

TEST_F(ConformanceCustom, MetadataOnlyWorksForCustomResources) {
  ASSERT_EQ(client_
                ->Post(widgets_, {{"apiVersion", group_ + "/v1"},
                                  {"kind", "Widget"},
                                  {"metadata", {{"name", "a"}}}})
                .code,
            201);
  const HttpAnswer answer = client_->Get(
      widgets_,
      {{"Accept",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}});
  EXPECT_EQ(answer.code, 200);
  EXPECT_EQ(answer.body.substr(0, 4), std::string("k8s\0", 4));
}

}  // namespace
}  // namespace larder::apiserver
