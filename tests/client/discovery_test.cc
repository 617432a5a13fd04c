#include "client/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/base/cpu_time.h"
#include "tests/client/fake_transport.h"

namespace larder {
namespace {

using ::larder::testing::FakeTransport;
using ::larder::testing::LeastCpuSeconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr char kAggregatedCore[] = R"({"kind":"APIGroupDiscoveryList",
"apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{},"versions":[{"version":"v1",
"freshness":"Current","resources":[
 {"resource":"pods","responseKind":{"group":"","version":"v1","kind":"Pod"},"scope":"Namespaced",
  "singularResource":"pod","verbs":["get","list","watch"],"shortNames":["po"],"categories":["all"],
  "subresources":[{"subresource":"status"},{"subresource":"log"}]},
 {"resource":"nodes","responseKind":{"kind":"Node"},"scope":"Cluster","singularResource":"node",
  "verbs":["get"],"shortNames":["no"]},
 {"resource":"events","responseKind":{"kind":"Event"},"scope":"Namespaced",
  "singularResource":"event","verbs":["list"],"shortNames":["ev"]}]}]}]})";

constexpr char kAggregatedGroups[] = R"({"kind":"APIGroupDiscoveryList",
"apiVersion":"apidiscovery.k8s.io/v2","items":[
{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[
 {"resource":"deployments","responseKind":{"kind":"Deployment"},"scope":"Namespaced",
  "singularResource":"deployment","verbs":["get"],"shortNames":["deploy"],
  "subresources":[{"subresource":"scale"}]}]}]},
{"metadata":{"name":"events.k8s.io"},"versions":[{"version":"v1","resources":[
 {"resource":"events","responseKind":{"kind":"Event"},"scope":"Namespaced",
  "singularResource":"event","verbs":["get"]}]}]},
{"metadata":{"name":"autoscaling"},"versions":[
 {"version":"v2","resources":[{"resource":"horizontalpodautoscalers",
  "responseKind":{"kind":"HorizontalPodAutoscaler"},"scope":"Namespaced","verbs":["get"],
  "singularResource":"horizontalpodautoscaler","shortNames":["hpa"]}]},
 {"version":"v1","resources":[{"resource":"horizontalpodautoscalers",
  "responseKind":{"kind":"HorizontalPodAutoscaler"},"scope":"Namespaced","verbs":["get"],
  "singularResource":"horizontalpodautoscaler","shortNames":["hpa"]}]}]}]})";

// The same cluster as an older server tells it.
const std::map<std::string, std::string>& LegacyDocuments() {
  static const std::map<std::string, std::string> documents = {
      {"/api", R"({"kind":"APIVersions","versions":["v1"]})"},
      {"/api/v1", R"({"kind":"APIResourceList","groupVersion":"v1","resources":[
         {"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get"],
          "shortNames":["po"]},
         {"name":"pods/status","namespaced":true,"kind":"Pod","verbs":["get"]},
         {"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["get"]},
         {"name":"events","singularName":"event","namespaced":true,"kind":"Event","verbs":[]}]})"},
      {"/apis", R"({"kind":"APIGroupList","groups":[
         {"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],
          "preferredVersion":{"version":"v1"}},
         {"name":"metrics.k8s.io","versions":[{"version":"v1beta1"}],
          "preferredVersion":{"version":"v1beta1"}},
         {"name":"autoscaling","versions":[{"version":"v1"},{"version":"v2"}],
          "preferredVersion":{"version":"v2"}}]})"},
      {"/apis/apps/v1", R"({"kind":"APIResourceList","resources":[
         {"name":"deployments","singularName":"","namespaced":true,"kind":"Deployment",
          "shortNames":["deploy"],"verbs":["get"]}]})"},
      {"/apis/autoscaling/v1", R"({"kind":"APIResourceList","resources":[
         {"name":"horizontalpodautoscalers","namespaced":true,"kind":"HorizontalPodAutoscaler",
          "shortNames":["hpa"],"verbs":["get"]}]})"},
      {"/apis/autoscaling/v2", R"({"kind":"APIResourceList","resources":[
         {"name":"horizontalpodautoscalers","namespaced":true,"kind":"HorizontalPodAutoscaler",
          "shortNames":["hpa"],"verbs":["get"]}]})"},
  };
  return documents;
}

Result<Response> Aggregated(const Request& request) {
  EXPECT_THAT(request.accept, HasSubstr("as=APIGroupDiscoveryList"));
  return FakeTransport::Json200(request.path == "/api" ? kAggregatedCore : kAggregatedGroups);
}

// The server behind one group is down.
Result<Response> AggregatedWithAStaleGroup(const Request& request) {
  if (request.path == "/api") return Aggregated(request);
  Json groups = Json::parse(kAggregatedGroups);
  groups["items"].push_back(Json::parse(R"({"metadata":{"name":"metrics.k8s.io"},"versions":[
    {"version":"v1beta1","freshness":"Stale","resources":[
     {"resource":"nodes","responseKind":{"kind":"NodeMetrics"},"scope":"Cluster",
      "singularResource":"nodemetrics","verbs":["get"]}]}]})"));
  return FakeTransport::Json200(groups.dump());
}

Result<Response> Legacy(const Request& request) {
  const auto found = LegacyDocuments().find(request.path);
  if (found == LegacyDocuments().end()) {
    return MakeError(ErrorCode::kUnavailable, "the service is down");
  }
  return FakeTransport::Json200(found->second);
}

class DiscoveryForms : public ::testing::TestWithParam<FakeTransport::Handler> {};

TEST_P(DiscoveryForms, ResolvesEveryWayToSpellAResource) {
  FakeTransport transport(GetParam());
  Discovery discovery(transport);
  for (const char* name :
       {"deploy", "deployment", "deployments", "Deployment", "DEPLOYMENTS", "deployments.apps",
        "deploy.apps", "deployments.v1.apps", "Deployment.v1.apps"}) {
    const auto found = discovery.Resolve(name);
    ASSERT_TRUE(found) << name << ": " << found.error().message;
    EXPECT_EQ(*found, (Resource{"apps", "v1", "deployments", "Deployment", true})) << name;
  }
  EXPECT_EQ(discovery.Resolve("pods")->ApiVersion(), "v1");
  EXPECT_EQ(discovery.Resolve("pods.v1")->resource, "pods");
  EXPECT_FALSE(discovery.Resolve("nodes")->namespaced);
  EXPECT_EQ(discovery.Resolve("events")->group, "");  // core before the others
}

TEST_P(DiscoveryForms, PrefersTheServersVersion) {
  FakeTransport transport(GetParam());
  Discovery discovery(transport);
  EXPECT_EQ(discovery.Resolve("hpa")->version, "v2");
  EXPECT_EQ(discovery.Resolve("hpa.v1.autoscaling")->version, "v1");
  EXPECT_EQ(discovery.ForKind("autoscaling/", "HorizontalPodAutoscaler")->version, "v2");
}

TEST_P(DiscoveryForms, MapsKindsToResources) {
  FakeTransport transport(GetParam());
  Discovery discovery(transport);
  EXPECT_EQ(discovery.ForKind("apps/v1", "Deployment")->resource, "deployments");
  EXPECT_EQ(discovery.ForKind("v1", "Pod")->resource, "pods");
  EXPECT_FALSE(discovery.ForKind("apps/v1", "Pod"));
  EXPECT_FALSE(discovery.ForKind("apps/v2", "Deployment"));
}

INSTANTIATE_TEST_SUITE_P(Both, DiscoveryForms, ::testing::Values(&Aggregated, &Legacy));

TEST(Discovery, AggregatedDiscoveryIsTwoRequests) {
  FakeTransport transport(&Aggregated);
  Discovery discovery(transport);
  ASSERT_TRUE(discovery.Resolve("deploy"));
  ASSERT_TRUE(discovery.Resolve("pods"));
  EXPECT_EQ(transport.requests().size(), 2u);
  const auto all = discovery.Resources();
  ASSERT_TRUE(all);
  EXPECT_THAT(all->front().subresources, ElementsAre("status", "log"));
  EXPECT_TRUE(all->front().HasVerb("watch"));
  EXPECT_FALSE(all->front().HasVerb("delete"));
}

TEST(Discovery, OneGroupThatIsDownHidesOnlyItself) {
  for (const auto form : {&AggregatedWithAStaleGroup, &Legacy}) {
    FakeTransport transport(form);  // metrics.k8s.io does not answer
    Discovery discovery(transport);
    EXPECT_TRUE(discovery.Resolve("hpa"));
    const auto expect = [](const Result<Resource>& found, ErrorCode code, const char* message) {
      ASSERT_FALSE(found) << found->ToString();
      EXPECT_EQ(found.error().code, code) << found.error().message;
      EXPECT_THAT(found.error().message, HasSubstr(message));
    };
    for (const char* name :
         {"podmetrics", "podmetrics.metrics.k8s.io", "x.v1beta1.metrics.k8s.io"}) {
      expect(discovery.Resolve(name), ErrorCode::kUnavailable,
             "discovery of metrics.k8s.io/v1beta1 failed");
    }
    for (const char* version : {"metrics.k8s.io/v1beta1", "metrics.k8s.io/"}) {
      expect(discovery.ForKind(version, "PodMetrics"), ErrorCode::kUnavailable, "may be there");
    }
    for (const char* name : {"podmetrics.apps", "podmetrics.v1", "x.v1.metrics.k8s.io"}) {
      expect(discovery.Resolve(name), ErrorCode::kNotFound, name);
    }
    for (const char* version : {"metrics.k8s.io/v1", "apps/v1", "v1"}) {
      expect(discovery.ForKind(version, "PodMetrics"), ErrorCode::kNotFound, "no resource");
    }
  }
}

TEST(Discovery, WhatAGroupHadBeforeItWentDownIsKnown) {
  FakeTransport transport(&AggregatedWithAStaleGroup);
  EXPECT_EQ(Discovery(transport).Resolve("nodemetrics")->group, "metrics.k8s.io");
}

TEST(Discovery, ANewCrdIsFoundAndTypingErrorsDoNotFloodTheServer) {
  bool has_widgets = false;
  FakeTransport transport([&](const Request& request) -> Result<Response> {
    if (request.path == "/api" || !has_widgets) return Aggregated(request);
    return FakeTransport::Json200(R"({"kind":"APIGroupDiscoveryList","items":[
      {"metadata":{"name":"example.com"},"versions":[{"version":"v1","resources":[
        {"resource":"widgets","responseKind":{"kind":"Widget"},"scope":"Cluster"}]}]}]})");
  });
  FakeClock clock;
  Discovery discovery(transport, {.min_refresh_interval = 10s, .clock = &clock});
  const auto missing = discovery.Resolve("widgets");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(discovery.Resolve("widgets"));
  EXPECT_EQ(transport.requests().size(), 2u);
  has_widgets = true;
  clock.Advance(11s);
  const auto found = discovery.Resolve("widgets");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, (Resource{"example.com", "v1", "widgets", "Widget", false}));
  EXPECT_EQ(transport.requests().size(), 4u);
}

TEST(Discovery, AServersRefusalIsReported) {
  FakeTransport transport(
      [](const Request&) -> Result<Response> { return MakeError(ErrorCode::kForbidden, "no"); });
  Discovery discovery(transport);
  EXPECT_EQ(discovery.Resolve("pods").error().code, ErrorCode::kForbidden);
}

TEST(Discovery, AnAnswerThatIsNoDocumentIsAProtocolError) {
  for (const char* body : {"", "[]", "<html>", "{}", R"({"kind":"Status"})"}) {
    FakeTransport transport(
        [&](const Request&) -> Result<Response> { return FakeTransport::Json200(body); });
    Discovery discovery(transport);
    const auto found = discovery.Resolve("pods");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::kProtocol) << body;
  }
}

double SecondsToDiscover(int resources) {
  std::string list = R"({"kind":"APIResourceList","resources":[{"name":"first"})";
  for (int i = 0; i < resources; ++i) {
    list += fmt::format(R"(,{{"name":"a{0}"}},{{"name":"a{0}/status"}})", i);
  }
  list += "]}";
  return LeastCpuSeconds([&] {
    const auto found = ParseResourceList(list, {"", "v1", true});
    ASSERT_EQ(found.value().size(), static_cast<size_t>(resources) + 1);
    EXPECT_THAT(found->back().subresources, ElementsAre("status"));
  });
}

TEST(Discovery, ManyResourcesAndSubresourcesTakeTimeByTheResource) {
  // Ten times as many: about ten times as long, and a hundred times if each is compared with each.
  EXPECT_LT(SecondsToDiscover(20'000) / SecondsToDiscover(2'000), 40);
}

TEST(Discovery, RefusesAnAnswerThatIsNestedWithoutEnd) {
  constexpr size_t kLevels = 100'000;
  const std::string nested = std::string(kLevels, '[') + std::string(kLevels, ']');
  for (const char* kind : {"APIGroupDiscoveryList", "APIVersions", "APIGroupList"}) {
    FakeTransport transport([&](const Request&) {
      return FakeTransport::Json200(R"({"kind":")" + std::string(kind) + R"(","items":)" + nested +
                                    "}");
    });
    const auto refused = Discovery(transport).Resources();
    ASSERT_FALSE(refused) << kind;
    EXPECT_EQ(refused.error().code, ErrorCode::kProtocol) << kind;
  }
  EXPECT_FALSE(ParseResourceList(R"({"kind":"APIResourceList","resources":)" + nested + "}", {}));
}

TEST(Discovery, AsksForNoMoreThanADocumentCanBe) {
  for (const auto form : {&Aggregated, &Legacy}) {
    FakeTransport transport(form);
    ASSERT_TRUE(Discovery(transport).Resources());
    for (const Request& request : transport.requests()) {
      EXPECT_LE(request.max_response_bytes, size_t{8} << 20) << request.path;
    }
  }
}

}  // namespace
}  // namespace larder
