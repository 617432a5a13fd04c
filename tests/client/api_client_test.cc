// The requests that ApiClient makes, and what it makes of answers.
#include "client/api_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/fake_transport.h"

namespace larder {
namespace {

using ::larder::testing::FakeTransport;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

const Resource kPods{"", "v1", "pods", "Pod", true};
const Resource kNodes{"", "v1", "nodes", "Node", false};
const Resource kDeployments{"apps", "v1", "deployments", "Deployment", true};

Result<Response> OnePod(const Request&) {
  return FakeTransport::Json200(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"x","name":"a","uid":"u"}})");
}

class ApiClientTest : public ::testing::Test {
 protected:
  const Request& Last() { return last_ = transport_.requests().back(); }
  FakeTransport transport_{&OnePod};
  ApiClient client_{transport_};
  Request last_;
};

TEST_F(ApiClientTest, Gets) {
  const auto pod = client_.Get(kPods, {"x", "a"}, {.subresource = "", .resource_version = "0"});
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_EQ((*pod)->uid(), "u");
  EXPECT_EQ(Last().method, "GET");
  EXPECT_EQ(Last().path, "/api/v1/namespaces/x/pods/a");
  EXPECT_THAT(Last().query, ElementsAre(Pair("resourceVersion", "0")));
  ASSERT_TRUE(client_.Get(kNodes, {"", "n"}));
  EXPECT_EQ(Last().path, "/api/v1/nodes/n");
}

TEST_F(ApiClientTest, APatchToApplyThatIsNoObjectIsLeftToTheServerToRefuse) {
  for (const char* bad : {"null", "[]", "1"}) {
    ASSERT_TRUE(client_.Patch(kPods, {"x", "a"}, PatchType::kApply, Json::parse(bad),
                              {.subresource = "", .field_manager = "me"}));
    EXPECT_EQ(Last().body, bad);
  }
}

TEST_F(ApiClientTest, CreatesInTheObjectsNamespaceAndFillsInTheKind) {
  const Json pod = {{"metadata", {{"namespace", "x"}, {"generateName", "a-"}}}};
  ASSERT_TRUE(client_.Create(
      kPods, pod,
      {.subresource = "", .field_manager = "me", .field_validation = "Strict", .dry_run = true}));
  EXPECT_EQ(Last().method, "POST");
  EXPECT_EQ(Last().path, "/api/v1/namespaces/x/pods");
  EXPECT_THAT(Last().query, ElementsAre(Pair("fieldManager", "me"), Pair("dryRun", "All"),
                                        Pair("fieldValidation", "Strict")));
  const Json body = Json::parse(Last().body);
  EXPECT_EQ(body["kind"], "Pod");
  EXPECT_EQ(body["apiVersion"], "v1");
}

TEST_F(ApiClientTest, WhatHasNoNameInTheAnswerGetsTheOneThatWasSent) {
  FakeTransport transport([](const Request& request) -> Result<Response> {
    return request.path.ends_with("/eviction")
               ? FakeTransport::Json200(
                     R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"})")
               : FakeTransport::Json200(
                     R"({"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1",)"
                     R"("metadata":{"creationTimestamp":null},"status":{"allowed":true}})");
  });
  ApiClient client(transport);
  const Json eviction = {{"metadata", {{"namespace", "x"}, {"name", "a"}}}};
  const auto evicted = client.Create(kPods, eviction, {.subresource = "eviction"});
  ASSERT_TRUE(evicted) << evicted.error().ToString();
  EXPECT_EQ((*evicted)->name(), "a");
  EXPECT_EQ((*evicted)->ToMutable()["status"], "Success");
  const Resource reviews{"authorization.k8s.io", "v1", "subjectaccessreviews",
                         "SubjectAccessReview", false};
  const auto review = client.Create(reviews, {{"metadata", Json::object()}});
  ASSERT_TRUE(review) << review.error().ToString();
  EXPECT_EQ((*review)->ToMutable()["status"]["allowed"], true);
}

TEST_F(ApiClientTest, RefusesAnAnswerWithoutANameThatIsNestedWithoutEnd) {
  FakeTransport transport([](const Request&) {
    constexpr size_t kLevels = 2'000'000;
    return FakeTransport::Json200(R"({"kind":"Status","metadata":{},"details":)" +
                                  std::string(kLevels, '[') + std::string(kLevels, ']') + "}");
  });
  ApiClient client(transport);
  const Json eviction = {{"metadata", {{"namespace", "x"}, {"name", "a"}}}};
  const auto refused = client.Create(kPods, eviction, {.subresource = "eviction"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kProtocol);
}

TEST_F(ApiClientTest, UpdatesAndUpdatesStatus) {
  const Json pod = {{"metadata", {{"namespace", "x"}, {"name", "a"}, {"resourceVersion", "5"}}}};
  ASSERT_TRUE(client_.Update(kPods, pod));
  EXPECT_EQ(Last().method, "PUT");
  EXPECT_EQ(Last().path, "/api/v1/namespaces/x/pods/a");
  EXPECT_EQ(Json::parse(Last().body)["metadata"]["resourceVersion"], "5");
  ASSERT_TRUE(client_.UpdateStatus(kPods, pod));
  EXPECT_EQ(Last().path, "/api/v1/namespaces/x/pods/a/status");
}

TEST_F(ApiClientTest, PatchesInEveryForm) {
  const ObjectKey key{"x", "a"};
  ASSERT_TRUE(client_.Patch(kPods, key, PatchType::kJsonMerge, {{"a", 1}}));
  EXPECT_EQ(Last().method, "PATCH");
  EXPECT_EQ(Last().content_type, "application/merge-patch+json");
  ASSERT_TRUE(client_.Patch(kPods, key, PatchType::kStrategic, {{"a", 1}}));
  EXPECT_EQ(Last().content_type, "application/strategic-merge-patch+json");
  const Json operations = Json::array({{{"op", "remove"}, {"path", "/a"}}});
  ASSERT_TRUE(client_.Patch(kPods, key, PatchType::kJsonPatch, operations));
  EXPECT_EQ(Last().content_type, "application/json-patch+json");
  EXPECT_TRUE(Json::parse(Last().body).is_array());
  const Json intent = {{"metadata", {{"namespace", "x"}, {"name", "a"}}}};
  ASSERT_TRUE(client_.Apply(kPods, intent, "me", /*force=*/true));
  EXPECT_EQ(Last().content_type, "application/apply-patch+yaml");
  EXPECT_THAT(Last().query, ElementsAre(Pair("fieldManager", "me"), Pair("force", "true")));
  EXPECT_EQ(Json::parse(Last().body)["kind"], "Pod");
  EXPECT_EQ(Json::parse(Last().body)["apiVersion"], "v1");
  const auto nobody = client_.Apply(kPods, intent, "");
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ApiClientTest, Scales) {
  ASSERT_TRUE(client_.SetScale(kDeployments, {"x", "d"}, 3));
  EXPECT_EQ(Last().path, "/apis/apps/v1/namespaces/x/deployments/d/scale");
  EXPECT_EQ(Json::parse(Last().body)["spec"]["replicas"], 3);
  ASSERT_TRUE(client_.GetScale(kDeployments, {"x", "d"}));
  EXPECT_EQ(Last().method, "GET");
}

TEST_F(ApiClientTest, DeletesWithPreconditions) {
  DeleteOptions options;
  options.uid = "u";
  options.resource_version = "5";
  options.propagation = Propagation::kForeground;
  options.grace_period_seconds = 0;
  ASSERT_TRUE(client_.Delete(kPods, {"x", "a"}, options));
  EXPECT_EQ(Last().method, "DELETE");
  const Json body = Json::parse(Last().body);
  EXPECT_EQ(body["preconditions"]["uid"], "u");
  EXPECT_EQ(body["preconditions"]["resourceVersion"], "5");
  EXPECT_EQ(body["propagationPolicy"], "Foreground");
  EXPECT_EQ(body["gracePeriodSeconds"], 0);
  ListOptions which;
  which.ns = "x";
  which.label_selector = "a=b";
  ASSERT_TRUE(client_.DeleteCollection(kPods, which));
  EXPECT_EQ(Last().path, "/api/v1/namespaces/x/pods");
  EXPECT_THAT(Last().query, Contains(Pair("labelSelector", "a=b")));
}

TEST_F(ApiClientTest, NamesThatWouldLeadElsewhereAreRefused) {
  for (const char* name : {"", ".", "..", "a/b", "../secrets/s", "a%2fb"}) {
    const auto got = client_.Get(kPods, {"x", name});
    ASSERT_FALSE(got) << name;
    EXPECT_EQ(got.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(client_.Delete(kPods, {"x", name}));
  }
  EXPECT_FALSE(client_.Get(kPods, {"", "a"}));
  EXPECT_FALSE(client_.Get(kPods, {"../x", "a"}));
  EXPECT_FALSE(client_.Create(kPods, {{"metadata", {{"name", "a"}}}}));
  EXPECT_FALSE(client_.Create(kPods, Json::array()));
  EXPECT_THAT(transport_.requests(), IsEmpty());
}

TEST(ApiClient, AnAnswerThatIsNoObjectIsAProtocolError) {
  FakeTransport transport([](const Request&) -> Result<Response> {
    return Response{200, {{"content-type", "text/html\033c"}}, "<html>login here</html>", 0};
  });
  ApiClient client(transport);
  const auto pod = client.Get(kPods, {"x", "a"});
  ASSERT_FALSE(pod);
  EXPECT_EQ(pod.error().code, ErrorCode::kProtocol);
  EXPECT_THAT(pod.error().message, HasSubstr("text/html^[c"));
  const auto list = client.List(kPods);
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, ErrorCode::kProtocol);
}

TEST(ApiClient, ListsKeepTheirBytesAndGetTheirKind) {
  // A number that no double holds, and the fields in an unusual order.
  const std::string item =
      R"({"metadata":{"name":"a","namespace":"x"},"n":12345678901234567890123})";
  FakeTransport transport([&](const Request& request) -> Result<Response> {
    EXPECT_THAT(request.query,
                ElementsAre(Pair("labelSelector", "a=b"), Pair("fieldSelector", "f=1"),
                            Pair("limit", "2"), Pair("resourceVersion", "0")));
    return FakeTransport::Json200(R"({"items":[)" + item + R"(],"metadata":{"resourceVersion":"9",
      "continue":"c","remainingItemCount":4},"kind":"PodList","apiVersion":"v1"})");
  });
  ApiClient client(transport);
  ListOptions options;
  options.label_selector = "a=b";
  options.field_selector = "f=1";
  options.limit = 2;
  options.resource_version = "0";
  const auto page = client.List(kPods, options);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->resource_version, "9");
  EXPECT_EQ(page->continue_token, "c");
  EXPECT_EQ(page->remaining_item_count, 4);
  ASSERT_EQ(page->items.size(), 1u);
  EXPECT_EQ(page->items[0]->kind(), "Pod");
  EXPECT_THAT(page->items[0]->json(), HasSubstr("12345678901234567890123"));
}

TEST(ApiClient, EmptyAndBrokenLists) {
  for (const char* good :
       {R"({"kind":"PodList","items":[]})", R"({"kind":"PodList","items":null})"}) {
    const auto page = ParseListPage(good, kPods);
    ASSERT_TRUE(page) << page.error().message;
    EXPECT_TRUE(page->items.empty());
  }
  const std::string deep = R"({"items":[)" + std::string(100'000, '[');
  const auto with_metadata = [](const std::string& value) {
    return R"({"metadata":{"resourceVersion":"1","x":)" + value + R"(},"items":[]})";
  };
  const std::string deep_metadata =
      with_metadata(std::string(100'000, '[') + std::string(100'000, ']'));
  const std::string large_metadata = with_metadata('"' + std::string(2 << 20, 'x') + '"');
  for (const std::string& bad :
       std::vector<std::string>{"", "{", "[]", "{}", R"({"items":3})", R"({"items":[3]})",
                                R"({"items":[{}]})", R"({"items":[{"metadata":{"name":"a/b"}}]})",
                                R"({"kind":3,"items":[]})", deep, deep_metadata, large_metadata}) {
    const auto page = ParseListPage(bad, kPods);
    ASSERT_FALSE(page) << bad.substr(0, 100);
    EXPECT_EQ(page.error().code, ErrorCode::kProtocol) << page.error().message;
  }
}

TEST(ApiClient, ListAllFollowsPagesAndStartsAgainWhenTheTokenExpires) {
  int calls = 0;
  FakeTransport transport([&](const Request& request) -> Result<Response> {
    const auto item = [&](int i) {
      return R"({"metadata":{"namespace":"x","name":"p)" + std::to_string(i) + R"("}})";
    };
    switch (++calls) {
      case 1:
        EXPECT_THAT(request.query, ElementsAre(Pair("limit", "500")));
        return FakeTransport::Json200(R"({"items":[)" + item(1) +
                                      R"(],"metadata":{"resourceVersion":"5","continue":"c1"}})");
      case 2:
        EXPECT_THAT(request.query, ElementsAre(Pair("limit", "500"), Pair("continue", "c1")));
        return MakeError(ErrorCode::kGone, "expired");
      default:
        EXPECT_THAT(request.query, IsEmpty());
        return FakeTransport::Json200(R"({"items":[)" + item(1) + "," + item(2) +
                                      R"(],"metadata":{"resourceVersion":"6"}})");
    }
  });
  ApiClient client(transport);
  const auto all = client.ListAll(kPods);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->items.size(), 2u);
  EXPECT_EQ(all->resource_version, "6");
  EXPECT_EQ(calls, 3);
}

TEST(ApiClient, APageTokenThatComesTwiceEndsTheList) {
  int calls = 0;
  FakeTransport transport([&](const Request&) -> Result<Response> {
    // A client that goes on is let go.
    const char* const token = ++calls < 10 ? "again" : "";
    return FakeTransport::Json200(R"({"items":[],"metadata":{"continue":")" + std::string(token) +
                                  R"("}})");
  });
  ApiClient client(transport);
  const auto all = client.ListAll(kPods);
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, ErrorCode::kProtocol) << all.error().message;
  EXPECT_EQ(calls, 2);
}

TEST(ClusterUid, IsThatOfKubeSystemAndErrorsSayWhatIsNeeded) {
  FakeTransport good([](const Request& request) -> Result<Response> {
    EXPECT_EQ(request.path, "/api/v1/namespaces/kube-system");
    return FakeTransport::Json200(
        R"({"kind":"Namespace","metadata":{"name":"kube-system","uid":"u-1"}})");
  });
  EXPECT_EQ(*ClusterUid(good), "u-1");
  for (const ErrorCode code : {ErrorCode::kForbidden, ErrorCode::kNotFound}) {
    FakeTransport bad([code](const Request&) -> Result<Response> { return MakeError(code, "x"); });
    const auto uid = ClusterUid(bad);
    ASSERT_FALSE(uid);
    EXPECT_EQ(uid.error().code, code);
    EXPECT_THAT(uid.error().message, HasSubstr("kube-system"));
  }
}

}  // namespace
}  // namespace larder
