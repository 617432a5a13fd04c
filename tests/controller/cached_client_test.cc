// Reads from the store: which informer answers, and that none answers with half. Writes: which are
// refused.
#include "controller/cached_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "controller/leader_elector.h"
#include "tests/client/fake_transport.h"
#include "tests/controller/fixture.h"

namespace larder {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CachedClientTest : public ControllerTest {
 protected:
  void Create(const std::string& ns, const std::string& name, const std::string& app) {
    const auto created =
        cluster().Create("pods", R"({"metadata":{"namespace":")" + ns + R"(","name":")" + name +
                                     R"(","labels":{"app":")" + app + R"("}}})");
    ASSERT_TRUE(created) << created.error().ToString();
  }
  // A controller that counts the keys whose object it finds.
  static Result<void> AddFinder(Manager& manager, const std::string& name, SourceOptions source,
                                RunCounts& found) {
    return ControllerBuilder(manager)
        .Named(name)
        .For("pods", std::move(source))
        .Complete([&found](ReconcileContext& context, const ReconcileRequest& request) {
          const auto pod = context.client().Find("pods", request.key);
          if (pod && *pod) found.Add(request.key.ToString());
          return Result<Outcome>(Outcome::Done());
        });
  }
  static std::vector<std::string> Keys(const Result<std::vector<ObjectPtr>>& objects) {
    EXPECT_TRUE(objects) << objects.error().ToString();
    std::vector<std::string> keys;
    if (!objects) return keys;
    for (const ObjectPtr& object : *objects) keys.push_back(object->key().ToString());
    return keys;
  }

  RunCounts found_;
};

TEST_F(CachedClientTest, EachOfTwoNamespacedControllersFindsItsOwnPods) {
  ASSERT_TRUE(cluster().CreateNamespace("a"));
  ASSERT_TRUE(cluster().CreateNamespace("b"));
  Create("a", "x", "web");
  Create("b", "x", "web");
  Create("default", "x", "web");
  auto manager = Run([&](Manager& target) -> Result<void> {
    LARDER_RETURN_IF_ERROR(AddFinder(target, "one", {.ns = "a"}, found_));
    return AddFinder(target, "two", {.ns = "b"}, found_);
  });
  EXPECT_TRUE(Eventually([&] { return found_.Of("a/x") == 1 && found_.Of("b/x") == 1; }));
  CachedClient& client = (*manager)->client();
  const uint64_t gets = cluster().StatsOf("pods").gets;
  const uint64_t lists = cluster().StatsOf("pods").lists;
  EXPECT_EQ(client.Get("pods", {"b", "y"}).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(Keys(client.List("pods", {.ns = "b"})), ElementsAre("b/x"));
  EXPECT_THAT(Keys(client.List("pods")), ElementsAre("a/x", "b/x"));
  EXPECT_THAT(Keys(client.List("pods", {.limit = 1})), ElementsAre("a/x"));
  EXPECT_EQ(cluster().StatsOf("pods").gets, gets);
  EXPECT_EQ(cluster().StatsOf("pods").lists, lists);
  // A namespace that nobody watches is asked of the server.
  EXPECT_TRUE(client.Get("pods", {"default", "x"}));
  EXPECT_THAT(Keys(client.List("pods", {.ns = "default"})), ElementsAre("default/x"));
}

TEST_F(CachedClientTest, EachOfTwoControllersWithSelectorsFindsItsOwnPods) {
  Create("default", "x", "one");
  Create("default", "y", "two");
  Create("default", "z", "three");
  auto manager = Run([&](Manager& target) -> Result<void> {
    LARDER_RETURN_IF_ERROR(AddFinder(target, "one", {.label_selector = "app=one"}, found_));
    return AddFinder(target, "two", {.label_selector = "app=two"}, found_);
  });
  EXPECT_TRUE(
      Eventually([&] { return found_.Of("default/x") == 1 && found_.Of("default/y") == 1; }));
  CachedClient& client = (*manager)->client();
  EXPECT_THAT(Keys(client.List("pods", {.labels = *LabelSelector::Parse("app=two")})),
              ElementsAre("default/y"));
  EXPECT_THAT(Keys(client.List("pods")), ElementsAre("default/x", "default/y"));
  EXPECT_EQ(*client.Find("pods", {"default", "z"}), nullptr);  // as ever: reads see what is watched
  // One's own write is waited for where it is shown.
  const auto written = client.Patch("pods", {"default", "y"}, PatchType::kJsonMerge,
                                    Json::parse(R"({"metadata":{"annotations":{"n":"1"}}})"));
  ASSERT_TRUE(written) << written.error().ToString();
  const auto seen =
      client.WaitForCache("pods", **written, RealClock()->Now() + std::chrono::seconds(30));
  ASSERT_TRUE(seen) << seen.error().ToString();
  EXPECT_EQ((*client.Get("pods", {"default", "y"}))->resource_version(),
            (*written)->resource_version());
}

TEST_F(CachedClientTest, OneThatWatchesAllServesWhatAnotherWatchesInPart) {
  Create("default", "x", "one");
  Create("default", "y", "two");
  auto manager = Run([&](Manager& target) -> Result<void> {
    LARDER_RETURN_IF_ERROR(AddFinder(target, "one", {.label_selector = "app=one"}, found_));
    LARDER_RETURN_IF_ERROR(target.Watch("pods", {.metadata_only = true}));
    return target.Watch("pods");
  });
  CachedClient& client = (*manager)->client();
  EXPECT_THAT(Keys(client.List("pods")), ElementsAre("default/x", "default/y"));
  EXPECT_TRUE(client.Get("pods", {"default", "y"}));
  // In full: who has only metadata is asked where nobody has more.
  EXPECT_EQ((*client.Get("pods", {"default", "y"}))->ToMutable().value("kind", ""), "Pod");
}

TEST_F(CachedClientTest, WhoWatchesOnlyMetadataSeesAlsoWhatAnotherWatchesInFullInPart) {
  Create("default", "x", "one");
  Create("default", "y", "two");
  auto manager = Run([&](Manager& target) -> Result<void> {
    LARDER_RETURN_IF_ERROR(AddFinder(target, "one", {.label_selector = "app=one"}, found_));
    return ControllerBuilder(target)
        .Named("all")
        .For("pods", {.metadata_only = true})
        .Complete([this](ReconcileContext& context, const ReconcileRequest& request) {
          const auto pod = context.client().Find(MetadataOf("pods"), request.key);
          if (pod && *pod) runs_.Add(request.key.ToString());
          return Result<Outcome>(Outcome::Done());
        });
  });
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/x") == 1; }));
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/y") == 1; }));
  CachedClient& client = (*manager)->client();
  EXPECT_THAT(Keys(client.List(MetadataOf("pods"))), ElementsAre("default/x", "default/y"));
  EXPECT_TRUE(*client.Find("pods", {"default", "x"}));
  EXPECT_EQ(*client.Find("pods", {"default", "z"}), nullptr);
  EXPECT_THAT(Keys(client.List("pods", {.labels = *LabelSelector::Parse("app=one")})),
              ElementsAre("default/x"));
  // In full they would be asked of the server for each reconcile: that is said, and not done.
  const auto found = client.Find("pods", {"default", "y"});
  const auto listed = client.List("pods");
  ASSERT_FALSE(found);
  ASSERT_FALSE(listed);
  for (const Error& error : {found.error(), listed.error()}) {
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr("MetadataOf(\"pods\")"));
  }
  EXPECT_EQ(cluster().StatsOf("pods").gets, 0U);
  // A write is waited for where it is shown.
  const auto written = client.Patch("pods", {"default", "y"}, PatchType::kJsonMerge,
                                    Json::parse(R"({"metadata":{"annotations":{"n":"1"}}})"));
  ASSERT_TRUE(written) << written.error().ToString();
  ASSERT_TRUE(
      client.WaitForCache("pods", **written, RealClock()->Now() + std::chrono::seconds(30)));
  EXPECT_EQ((*client.Get(MetadataOf("pods"), {"default", "y"}))->resource_version(),
            (*written)->resource_version());
}

TEST_F(CachedClientTest, AReadIsOfWholeObjectsThoughAnotherWatchesMetadataOnly) {
  ASSERT_TRUE(cluster().Create(
      "configmaps", R"({"metadata":{"namespace":"default","name":"c"},"data":{"key":"value"}})"));
  auto manager = Run([&](Manager& target) -> Result<void> {
    return ControllerBuilder(target)
        .For("pods")
        .Watches("configmaps", [](const Object&) { return std::vector<ObjectKey>(); },
                 {.metadata_only = true})
        .Complete(Counting());
  });
  CachedClient& client = (*manager)->client();
  const auto whole = client.Get("configmaps", {"default", "c"});
  ASSERT_TRUE(whole) << whole.error().ToString();
  EXPECT_EQ((*whole)->ToMutable()["data"]["key"], "value");
  const auto listed = client.List("configmaps");
  ASSERT_TRUE(listed) << listed.error().ToString();
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front()->ToMutable()["data"]["key"], "value");
  // Who is not there is known without a request.
  const uint64_t gets = cluster().StatsOf("configmaps").gets;
  EXPECT_EQ(*client.Find("configmaps", {"default", "d"}), nullptr);
  const auto metadata = client.Get(MetadataOf("configmaps"), {"default", "c"});
  ASSERT_TRUE(metadata) << metadata.error().ToString();
  EXPECT_EQ(cluster().StatsOf("configmaps").gets, gets);
  // What was read so is not written back as if it were the whole.
  Json changed = (*metadata)->ToMutable();
  EXPECT_FALSE(changed.contains("data"));
  changed["metadata"]["labels"]["app"] = "web";
  for (const auto& refused :
       {client.Update("configmaps", changed), client.UpdateStatus("configmaps", changed)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("would wipe the rest"));
  }
  changed = (*whole)->ToMutable();
  changed["metadata"]["labels"]["app"] = "web";
  const auto updated = client.Update("configmaps", changed);
  ASSERT_TRUE(updated) << updated.error().ToString();
  EXPECT_EQ((*cluster().Get("configmaps", "default", "c"))->ToMutable()["data"]["key"], "value");
}

TEST_F(CachedClientTest, WhatWasNeverListedIsNotReadyAndNotAbsent) {
  Create("default", "x", "one");
  cluster().AddFault(
      {.type = apiserver::FaultType::kError, .resource = "nodes", .times = -1, .code = 403});
  auto manager = Run([&](Manager& target) -> Result<void> {
    LARDER_RETURN_IF_ERROR(target.Watch("nodes"));
    return AddFinder(target, "one", {}, found_);
  });
  EXPECT_TRUE(Eventually([&] { return found_.Of("default/x") == 1; }));
  CachedClient& client = (*manager)->client();
  const auto found = client.Find("nodes", {"", "n"});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kNotReady);
  EXPECT_TRUE(found.error().IsRetryable());
  EXPECT_THAT(found.error().message, HasSubstr("nodes"));
  const auto listed = client.List("nodes");
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, ErrorCode::kNotReady);
  cluster().ClearFaults();
  EXPECT_TRUE(Eventually([&] { return client.List("nodes").has_value(); }));
  EXPECT_EQ(*client.Find("nodes", {"", "n"}), nullptr);
}

TEST_F(CachedClientTest, AResumedCollectionIsReadBeforeTheServerAnswers) {
  Create("default", "x", "one");
  auto manager = Run([&](Manager& target) { return target.Watch("pods"); });
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  cluster().AddFault(
      {.type = apiserver::FaultType::kError, .resource = "pods", .times = -1, .code = 503});
  auto made = Manager::Create(environment_->Options());
  ASSERT_TRUE(made) << made.error().ToString();
  ASSERT_TRUE((*made)->Watch("pods"));
  testing::RunningManager again(*std::move(made));
  EXPECT_TRUE(Eventually([&] {
    return again->client().Get("pods", {"default", "x"}).has_value();
  }));
  EXPECT_EQ(again->client().Get("pods", {"default", "y"}).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(Keys(again->client().List("pods")), ElementsAre("default/x"));
}

TEST_F(CachedClientTest, AResourceThatDoesNotExistIsAnErrorAndNoAbsentObject) {
  auto manager = RunPods();
  const auto found = (*manager)->client().Find("gadgets.example.com", {"default", "x"});
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("gadgets"));
}

TEST_F(CachedClientTest, AWriteThatWaitedForItsTurnIsNotSentByWhoLostTheLease) {
  FakeClock clock;
  const auto election = *MakeTransport(ForUrl(cluster().Url()));
  LeaderElector elector(*election,
                        {.ns = "kube-system", .name = "lock", .identity = "a", .clock = &clock});
  ASSERT_TRUE(elector.TryAcquireOrRenew({}));
  ClientConfig config = ForUrl(cluster().Url());
  config.qps = 0.1;
  config.burst = 1;
  const auto transport = *MakeTransport(config, &clock);
  CachedClient client(
      *transport,
      [&]() -> Result<void> {
        if (elector.IsLeader()) return {};
        return MakeError(ErrorCode::kCancelled, "the lease is not ours");
      },
      &clock);
  const auto pod = [](const std::string& name) {
    return Json{{"metadata", {{"namespace", "default"}, {"name", name}}}};
  };
  // A turn comes every ten seconds, and so long lasts a lease.
  const auto create = [&](const std::string& name, bool renewed) {
    Result<ObjectPtr> created;
    std::jthread writer([&] { created = client.Create("pods", pod(name)); });
    EXPECT_TRUE(Eventually([&] { return clock.Waiters() == 1; }));
    clock.Advance(std::chrono::seconds(5));
    EXPECT_EQ(renewed && elector.TryAcquireOrRenew({}), renewed);
    clock.Advance(std::chrono::seconds(5));
    writer.join();
    return created;
  };
  ASSERT_TRUE(client.Create("pods", pod("first")));  // its turn is at once
  ASSERT_TRUE(elector.TryAcquireOrRenew({}));
  const auto in_time = create("in-time", /*renewed=*/true);
  EXPECT_TRUE(in_time) << in_time.error().message;
  ASSERT_TRUE(elector.TryAcquireOrRenew({}));
  const auto late = create("late", /*renewed=*/false);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(cluster().Get("pods", "default", "late"));
}

TEST_F(CachedClientTest, ANotFoundThatIsNotAboutTheObjectIsAnError) {
  std::string body;
  testing::FakeTransport transport([&](const Request&) -> Result<Response> {
    return tl::unexpected(ErrorFromResponse(404, {}, body));
  });
  CachedClient client(transport);
  const ObjectKey key{"default", "x"};
  const Json patch = Json::parse(R"({"metadata":{"finalizers":null}})");
  const std::string not_found =
      R"({"kind":"Status","code":404,"reason":"NotFound","message":"no",)";
  for (const std::string& other :
       {std::string("404 page not found"), std::string(), not_found + R"("details":{}})",
        not_found + R"("details":{"name":"y","kind":"pods"}})"}) {
    body = other;
    const auto found = client.Find("pods", key);
    ASSERT_FALSE(found) << body;
    EXPECT_EQ(found.error().code, ErrorCode::kUnavailable) << body;
    EXPECT_THAT(found.error().message, HasSubstr("does not know pods now"));
    EXPECT_EQ(client.Get("nodes", {"", "x"}).error().code, ErrorCode::kUnavailable) << body;
    const auto patched = client.Patch("pods", key, PatchType::kJsonMerge, patch);
    ASSERT_FALSE(patched) << body;
    EXPECT_EQ(patched.error().code, ErrorCode::kUnavailable) << body;
    EXPECT_FALSE(client.Delete("pods", key)) << body;
  }
  for (const std::string about :
       {R"({"name":"x","kind":"pods"}})", R"({"name":"default","kind":"namespaces"}})"}) {
    body = not_found + R"("details":)" + about;
    const auto found = client.Find("pods", key);
    ASSERT_TRUE(found) << body;
    EXPECT_EQ(*found, nullptr);
    EXPECT_EQ(client.Patch("pods", key, PatchType::kJsonMerge, patch).error().code,
              ErrorCode::kNotFound);
    EXPECT_TRUE(client.Delete("pods", key)) << body;
  }
}

TEST_F(CachedClientTest, AnIntentThatIsNoObjectIsRefused) {
  testing::FakeTransport transport([](const Request&) -> Result<Response> {
    return testing::FakeTransport::Json200(R"({"metadata":{"namespace":"x","name":"a"}})");
  });
  CachedClient client(transport);
  for (const char* bad :
       {"null", "[]", R"("a")", "1", "{}", R"({"metadata":null})", R"({"metadata":[]})",
        R"({"metadata":"a"})", R"({"metadata":{}})", R"({"metadata":{"name":1}})"}) {
    const auto applied = client.Apply("pods", Json::parse(bad), "me");
    ASSERT_FALSE(applied) << bad;
    EXPECT_EQ(applied.error().code, ErrorCode::kInvalidArgument) << bad;
    const auto status = client.ApplyStatus("pods", Json::parse(bad), "me");
    ASSERT_FALSE(status) << bad;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument) << bad;
  }
  EXPECT_TRUE(transport.requests().empty());
  const Json good = Json::parse(
      R"({"metadata":{"namespace":"x","name":"a","resourceVersion":"1","managedFields":[]}})");
  ASSERT_TRUE(client.Apply("pods", good, "me"));
  EXPECT_EQ(Json::parse(transport.requests().at(0).body)["metadata"],
            (Json{{"namespace", "x"}, {"name", "a"}}));
}

}  // namespace
}  // namespace larder
