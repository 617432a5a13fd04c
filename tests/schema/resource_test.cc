#include "schema/resource.h"

#include <gtest/gtest.h>

namespace larder {
namespace {

TEST(Resource, FindsBuiltInKindsByAnyOfTheirNames) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"pods", "/api/v1/pods"},
      {"pod", "/api/v1/pods"},
      {"po", "/api/v1/pods"},
      {"Pod", "/api/v1/pods"},
      {"PODS", "/api/v1/pods"},
      {"pods.v1", "/api/v1/pods"},
      {"pods.v1.", "/api/v1/pods"},
      {"no", "/api/v1/nodes"},
      {"endpoints", "/api/v1/endpoints"},
      {"deploy", "/apis/apps/v1/deployments"},
      {"deployments.apps", "/apis/apps/v1/deployments"},
      {"deploy.apps", "/apis/apps/v1/deployments"},
      {"deployments.v1.apps", "/apis/apps/v1/deployments"},
      {"deployments.v1beta2.apps", "/apis/apps/v1beta2/deployments"},
      {"hpa", "/apis/autoscaling/v2/horizontalpodautoscalers"},
      {"ingress", "/apis/networking.k8s.io/v1/ingresses"},
      {"netpol", "/apis/networking.k8s.io/v1/networkpolicies"},
      {"crd", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"},
      {"crds", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"},
      {"events", "/api/v1/events"},
      {"events.events.k8s.io", "/apis/events.k8s.io/v1/events"},
      {"leases", "/apis/coordination.k8s.io/v1/leases"},
  };
  for (const auto& [text, path] : cases) {
    const Result<Resource> resource = LookupResource(text);
    ASSERT_TRUE(resource) << resource.error().message;
    EXPECT_EQ(resource->Path(), path) << text;
  }
  EXPECT_EQ(LookupResource("sts")->kind, "StatefulSet");
  EXPECT_FALSE(LookupResource("nodes")->namespaced);
}

TEST(Resource, TakesUnknownOnesInFull) {
  const Result<Resource> widgets = LookupResource("widgets.v1alpha1.example.com");
  ASSERT_TRUE(widgets);
  EXPECT_EQ(widgets->group, "example.com");
  EXPECT_EQ(widgets->version, "v1alpha1");
  EXPECT_EQ(widgets->resource, "widgets");
  EXPECT_EQ(widgets->kind, "");
  EXPECT_TRUE(widgets->namespaced);
  EXPECT_EQ(widgets->ApiVersion(), "example.com/v1alpha1");
  EXPECT_EQ(widgets->ToString(), "widgets.example.com");
}

TEST(Resource, AnotherGroupsPodsAreNotOurPods) {
  const Result<Resource> pods = LookupResource("pods.v1beta1.metrics.k8s.io");
  ASSERT_TRUE(pods);
  EXPECT_EQ(pods->Path("x"), "/apis/metrics.k8s.io/v1beta1/namespaces/x/pods");
}

TEST(Resource, SaysHowToSpellWhatItDoesNotKnow) {
  for (const std::string_view text :
       {"", "widgets", "widgets.example.com", "pods.apps", "widgets.v1", "wid/gets.v1.example.com",
        "widgets.v1.exam ple.com", "widgets.v1..com", ".v1.example.com", "../x.v1.example.com"}) {
    const Result<Resource> resource = LookupResource(text);
    ASSERT_FALSE(resource) << text;
    EXPECT_EQ(resource.error().code, ErrorCode::kNotFound) << text;
    EXPECT_NE(resource.error().message.find("plural.version.group"), std::string::npos);
  }
}

TEST(Resource, BuildsUrls) {
  const Resource pods = LookupResource("pods").value();
  EXPECT_EQ(pods.Path("x"), "/api/v1/namespaces/x/pods");
  EXPECT_EQ(pods.Path("x", "a"), "/api/v1/namespaces/x/pods/a");
  EXPECT_EQ(pods.Path("../x", "a b?"), "/api/v1/namespaces/..%2Fx/pods/a%20b%3F");
  const Resource roles = LookupResource("clusterroles").value();
  EXPECT_EQ(roles.Path("ignored", "system:node"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node");
  const Resource namespaces = LookupResource("ns").value();
  EXPECT_EQ(namespaces.Path("", "x"), "/api/v1/namespaces/x");
}

}  // namespace
}  // namespace larder
