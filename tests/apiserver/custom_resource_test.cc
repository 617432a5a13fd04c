#include <gmock/gmock.h>

#include <functional>
#include <stdexcept>
#include <utility>

#include "apiserver/object_writer.h"
#include "base/clock.h"
#include "tests/apiserver/simulator_fixture.h"

namespace larder::apiserver {
namespace {

using testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kCrds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
constexpr const char* kWidgets = "/apis/example.com/v1/namespaces/default/widgets";

class CustomResourceTest : public SimulatorTest {
 protected:
  static Json Crd() {
    return Json::parse(R"({
      "metadata": {"name": "widgets.example.com"},
      "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
          {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
           "selectableFields": [{"jsonPath": ".spec.color"}]},
          {"name": "v1alpha1", "served": true, "storage": false}]
      }})");
  }
  HttpAnswer MakeWidget(const std::string& name, const std::string& color) {
    return client_->Post(kWidgets, {{"apiVersion", "example.com/v1"},
                                    {"kind", "Widget"},
                                    {"metadata", {{"name", name}}},
                                    {"spec", {{"color", color}}}});
  }
};

TEST_F(CustomResourceTest, IsServedFromItsCreationToItsDeletion) {
  EXPECT_EQ(client_->Get(kWidgets).code, 404);
  ASSERT_EQ(client_->Post(kCrds, Crd()).code, 201);
  const Json conditions =
      client_->Get(std::string(kCrds) + "/widgets.example.com").json()["status"]["conditions"];
  EXPECT_EQ(conditions[1]["type"], "Established");
  ASSERT_EQ(MakeWidget("a", "red").code, 201);
  const Json list = client_->Get(kWidgets).json();
  EXPECT_EQ(list["kind"], "WidgetList");
  // Custom resources keep kind and apiVersion in lists, and show the version that was asked for.
  EXPECT_EQ(list["items"][0]["kind"], "Widget");
  EXPECT_EQ(list["items"][0]["apiVersion"], "example.com/v1");
  EXPECT_EQ(client_->Get("/apis/example.com/v1alpha1/widgets").json()["items"][0]["apiVersion"],
            "example.com/v1alpha1");

  WatchReader watch(address(), std::string(kWidgets) + "?watch=1&resourceVersion=" + Version());
  ASSERT_EQ(watch.Code(), 200);
  EXPECT_EQ(client_->Delete(std::string(kCrds) + "/widgets.example.com").code, 200);
  // The last deletions come before the end.
  EXPECT_EQ(Summary(watch.Next()), "DELETED default/a");
  EXPECT_TRUE(watch.Ended());
  EXPECT_EQ(client_->Get(kWidgets).code, 404);
  // And again, empty.
  ASSERT_EQ(client_->Post(kCrds, Crd()).code, 201);
  EXPECT_EQ(client_->Get(kWidgets).json()["items"].size(), 0U);
}

TEST_F(CustomResourceTest, UpdateNeedsAVersionAndSpecChangesCount) {
  ASSERT_EQ(client_->Post(kCrds, Crd()).code, 201);
  Json widget = MakeWidget("a", "red").json();
  EXPECT_EQ(widget["metadata"]["generation"], 1);
  widget["spec"]["color"] = "blue";
  widget["status"]["ready"] = true;
  const Json updated = client_->Put(std::string(kWidgets) + "/a", widget).json();
  EXPECT_EQ(updated["metadata"]["generation"], 2);
  EXPECT_FALSE(updated.contains("status"));
  widget["metadata"].erase("resourceVersion");
  const HttpAnswer refused = client_->Put(std::string(kWidgets) + "/a", widget);
  EXPECT_EQ(refused.code, 422);
  EXPECT_THAT(refused.json()["message"].get<std::string>(),
              HasSubstr("must be specified for an update"));
  EXPECT_EQ(client_
                ->Patch(std::string(kWidgets) + "/a", Json::object(),
                        "application/strategic-merge-patch+json")
                .code,
            415);
}

TEST_F(CustomResourceTest, SelectsByDeclaredFields) {
  ASSERT_EQ(client_->Post(kCrds, Crd()).code, 201);
  MakeWidget("a", "red");
  MakeWidget("b", "blue");
  const Json list = client_->Get(std::string(kWidgets) + "?fieldSelector=spec.color%3Dblue").json();
  ASSERT_EQ(list["items"].size(), 1U);
  EXPECT_EQ(list["items"][0]["metadata"]["name"], "b");
  EXPECT_EQ(client_->Get(std::string(kWidgets) + "?fieldSelector=spec.size%3D1").code, 400);
}

TEST_F(CustomResourceTest, ABadDefinitionIsRefusedAndLeavesNothing) {
  Json crd = Crd();
  crd["spec"]["names"].erase("kind");
  EXPECT_EQ(client_->Post(kCrds, crd).code, 422);
  EXPECT_EQ(simulator_->Count("customresourcedefinitions.apiextensions.k8s.io"), 0U);
}

// Does something when somebody asks what day it is: a write does, on its way.
class CalendarClock final : public Clock {
 public:
  Steady Now() const override { return RealClock()->Now(); }
  Wall WallNow() const override {
    if (++asked > 1000) throw std::runtime_error("it asks without end");
    if (const auto once = std::exchange(at_next, nullptr)) once();
    return RealClock()->WallNow();
  }
  bool WaitUntil(Mutex& mutex, std::condition_variable_any& condition, Steady deadline,
                 const std::stop_token& stop) override LARDER_REQUIRES(mutex) {
    return RealClock()->WaitUntil(mutex, condition, deadline, stop);
  }

  mutable std::function<void()> at_next;
  mutable int asked = 0;
};

TEST_F(CustomResourceTest, AWriteThatMeetsTheEndOfItsDefinitionEnds) {
  CalendarClock clock;
  State state({.clock = &clock});
  ResourceRegistry registry;
  ObjectWriter writer(state, registry, clock, 1);
  for (const ResourceInfoPtr& info : registry.All()) {
    state.AddTable(info->resource.ToString(), info->TypePrefix(), info->resource.namespaced);
  }
  const auto crds = registry.FindByName("customresourcedefinitions.apiextensions.k8s.io");
  ASSERT_TRUE(writer.Create(*registry.FindByName("namespaces"), "",
                            {{"metadata", {{"name", "default"}}}}, {}));
  const auto widget = [](const char* name) {
    return Json{{"apiVersion", "example.com/v1"},
                {"kind", "Widget"},
                {"metadata", {{"name", name}, {"finalizers", Json::array({"x.io/y"})}}}};
  };
  using Write = std::function<ApiStatus(const ResourceInfo&)>;
  const Write writes[] = {[&](const ResourceInfo& widgets) {
                            return writer.Create(widgets, "default", widget("new"), {}).error();
                          },
                          [&](const ResourceInfo& widgets) {
                            return writer.Delete(widgets, "default", "held", {}).error();
                          }};
  for (const Write& write : writes) {
    ASSERT_TRUE(writer.Create(*crds, "", Crd(), {}));
    const auto widgets = registry.FindByName("widgets.example.com");
    ASSERT_TRUE(writer.Create(*widgets, "default", widget("held"), {}));
    clock.asked = 0;
    clock.at_next = [&] { EXPECT_TRUE(writer.Delete(*crds, "", "widgets.example.com", {})); };
    EXPECT_EQ(write(*widgets).code, 404);
    EXPECT_FALSE(clock.at_next);
  }
}

std::vector<std::string> Resources(const Json& list) {
  std::vector<std::string> out;
  for (const Json& resource : list["resources"]) out.push_back(resource["name"]);
  return out;
}

TEST_F(CustomResourceTest, DiscoveryShowsWhatIsServed) {
  EXPECT_EQ(client_->Get("/api").json()["versions"][0], "v1");
  EXPECT_THAT(Resources(client_->Get("/api/v1").json()), Contains("pods"));
  EXPECT_THAT(Resources(client_->Get("/api/v1").json()), Contains("pods/status"));
  EXPECT_THAT(Resources(client_->Get("/apis/apps/v1").json()), Contains("deployments/scale"));
  EXPECT_EQ(client_->Get("/apis/example.com").code, 404);
  ASSERT_EQ(client_->Post(kCrds, Crd()).code, 201);
  const Json group = client_->Get("/apis/example.com").json();
  EXPECT_EQ(group["kind"], "APIGroup");
  EXPECT_EQ(group["versions"].size(), 2U);
  EXPECT_EQ(group["preferredVersion"]["groupVersion"], "example.com/v1");
  EXPECT_THAT(Resources(client_->Get("/apis/example.com/v1").json()), Contains("widgets"));
  EXPECT_EQ(client_->Get("/version").json()["major"], "1");
  EXPECT_EQ(client_->Get("/readyz").body, "ok");
}

TEST_F(CustomResourceTest, AggregatedDiscoveryIsOneDocument) {
  ASSERT_EQ(client_->Post(kCrds, Crd()).code, 201);
  const std::string accept =
      "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
  const HttpAnswer apis = client_->Get("/apis", {{"Accept", accept}});
  EXPECT_THAT(apis.Header("Content-Type"), HasSubstr("as=APIGroupDiscoveryList"));
  const Json document = apis.json();
  EXPECT_EQ(document["kind"], "APIGroupDiscoveryList");
  Json widgets;
  for (const Json& group : document["items"]) {
    if (group["metadata"]["name"] == "example.com") widgets = group["versions"][0]["resources"][0];
  }
  ASSERT_TRUE(widgets.is_object());
  EXPECT_EQ(widgets["resource"], "widgets");
  EXPECT_EQ(widgets["scope"], "Namespaced");
  EXPECT_EQ(widgets["responseKind"]["kind"], "Widget");
  EXPECT_EQ(widgets["subresources"][0]["subresource"], "status");
  const Json core = client_->Get("/api", {{"Accept", accept}}).json();
  EXPECT_EQ(core["items"].size(), 1U);
}

}  // namespace
}  // namespace larder::apiserver
