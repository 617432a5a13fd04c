#include <gmock/gmock.h>

#include "tests/apiserver/simulator_fixture.h"

namespace larder::apiserver {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class WatchTest : public SimulatorTest {
 protected:
  std::unique_ptr<WatchReader> Watch(const std::string& query, Headers headers = {}) {
    return std::make_unique<WatchReader>(
        address(), std::string(kConfigMaps) + "?watch=true&" + query, std::move(headers));
  }
  void Change(const std::string& name, const std::string& patch) {
    ASSERT_TRUE(simulator_->Patch("configmaps", "default", name, patch));
  }
};

TEST_F(WatchTest, DeliversChangesAfterTheVersionInOrder) {
  MakeConfigMap("before");
  const auto watch = Watch("resourceVersion=" + Version());
  MakeConfigMap("a");
  Change("a", R"({"data":{"k":"2"}})");
  ASSERT_TRUE(simulator_->Delete("configmaps", "default", "a"));
  const Json added = watch->Next();
  EXPECT_EQ(Summary(added), "ADDED default/a");
  EXPECT_EQ(added["object"]["kind"], "ConfigMap");
  EXPECT_EQ(Summary(watch->Next()), "MODIFIED default/a");
  const Json deleted = watch->Next();
  EXPECT_EQ(Summary(deleted), "DELETED default/a");
  EXPECT_EQ(deleted["object"]["data"]["k"], "2");
  // The version of the deletion, not of the last write.
  EXPECT_EQ(VersionOf(deleted["object"]), Version());
}

TEST_F(WatchTest, ReplaysTheWindow) {
  const std::string start = Version();
  for (const char* name : {"a", "b", "c"}) MakeConfigMap(name);
  const auto watch = Watch("resourceVersion=" + start);
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/a");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/b");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/c");
}

TEST_F(WatchTest, WithoutVersionStartsWithEverythingThatIsThere) {
  MakeConfigMap("b");
  MakeConfigMap("a");
  for (const char* query : {"", "resourceVersion=0"}) {
    const auto watch = Watch(query);
    EXPECT_EQ(Summary(watch->Next()), "ADDED default/a");
    EXPECT_EQ(Summary(watch->Next()), "ADDED default/b");
  }
}

TEST_F(WatchTest, TooOldVersionIsAnErrorEventOr410) {
  MakeConfigMap("a");
  const std::string old = Version();
  MakeConfigMap("b");
  simulator_->ExpireHistory("configmaps");
  const auto watch = Watch("resourceVersion=" + old);
  EXPECT_EQ(watch->Code(), 200);
  const Json error = watch->Next();
  EXPECT_EQ(Summary(error), "ERROR 410");
  EXPECT_EQ(error["object"]["reason"], "Expired");
  EXPECT_THAT(error["object"]["message"].get<std::string>(),
              HasSubstr("too old resource version: " + old));
  EXPECT_TRUE(watch->Ended());
  EXPECT_TRUE(watch->EndedCleanly());

  simulator_->AddFault({.type = FaultType::kHttpGone, .verb = "watch"});
  EXPECT_EQ(Watch("resourceVersion=" + old)->Code(), 410);
  // From the present it goes on.
  const auto fresh = Watch("resourceVersion=" + Version());
  MakeConfigMap("c");
  EXPECT_EQ(Summary(fresh->Next()), "ADDED default/c");
}

TEST_F(WatchTest, WindowIsBoundedByItsSize) {
  StartWith({.watch_window = 3});
  const std::string start = Version();
  for (const char* name : {"a", "b", "c"}) MakeConfigMap(name);
  EXPECT_EQ(Summary(Watch("resourceVersion=" + start)->Next()), "ADDED default/a");
  MakeConfigMap("d");
  EXPECT_EQ(Summary(Watch("resourceVersion=" + start)->Next()), "ERROR 410");
}

TEST_F(WatchTest, FutureVersionIsSilent) {
  const uint64_t now = simulator_->Version();
  const auto watch = Watch("resourceVersion=" + std::to_string(now + 3));
  EXPECT_EQ(watch->Code(), 200);
  for (const char* name : {"a", "b", "c"}) MakeConfigMap(name);
  EXPECT_TRUE(watch->Next(200ms).is_null());
  EXPECT_FALSE(watch->Ended(0ms));
  MakeConfigMap("d");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/d");
}

TEST_F(WatchTest, InitialEventsEndWithAnAnnotatedBookmark) {
  MakeConfigMap("b");
  MakeConfigMap("a");
  const std::string version = Version();
  const auto watch =
      Watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/a");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/b");
  const Json end = watch->Next();
  EXPECT_EQ(Summary(end), "BOOKMARK " + version);
  EXPECT_EQ(end["object"]["kind"], "ConfigMap");
  EXPECT_EQ(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
  MakeConfigMap("c");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/c");
}

TEST_F(WatchTest, InitialEventsOfAFutureVersionAreAnError) {
  const auto watch = Watch(
      "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
      "&resourceVersion=99999999");
  EXPECT_EQ(Summary(watch->Next()), "ERROR 504");
}

TEST_F(WatchTest, WithoutInitialEventsStartsNow) {
  MakeConfigMap("a");
  const auto watch = Watch("sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
  ASSERT_EQ(watch->Code(), 200);
  MakeConfigMap("b");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/b");
}

TEST_F(WatchTest, LeavingTheSelectorIsDeletedAndEnteringIsAdded) {
  MakeConfigMap("a", {{"app", "web"}});
  MakeConfigMap("b", {{"app", "db"}});
  const auto watch = Watch("labelSelector=app%3Dweb&resourceVersion=" + Version());
  ASSERT_EQ(watch->Code(), 200);
  Change("a", R"({"metadata":{"labels":{"app":"db"}}})");
  const Json left = watch->Next();
  EXPECT_EQ(Summary(left), "DELETED default/a");
  // The state before, with the version of the change.
  EXPECT_EQ(left["object"]["metadata"]["labels"]["app"], "web");
  EXPECT_EQ(VersionOf(left["object"]), Version());
  Change("b", R"({"metadata":{"labels":{"app":"web"}}})");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/b");
  Change("b", R"({"data":{"k":"2"}})");
  EXPECT_EQ(Summary(watch->Next()), "MODIFIED default/b");
  Change("a", R"({"data":{"k":"2"}})");
  ASSERT_TRUE(simulator_->Delete("configmaps", "default", "a"));
  ASSERT_TRUE(simulator_->Delete("configmaps", "default", "b"));
  EXPECT_EQ(Summary(watch->Next()), "DELETED default/b");
}

TEST_F(WatchTest, WatchesOneObjectByFieldSelector) {
  const auto watch = Watch("fieldSelector=metadata.name%3Db&resourceVersion=" + Version());
  MakeConfigMap("a");
  MakeConfigMap("b");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/b");
}

TEST_F(WatchTest, NamespacedWatchSeesItsNamespaceOnly) {
  ASSERT_TRUE(simulator_->CreateNamespace("other"));
  const std::string start = Version();
  MakeConfigMap("x", Json::object(), "other");
  MakeConfigMap("y");
  EXPECT_EQ(Summary(Watch("resourceVersion=" + start)->Next()), "ADDED default/y");
  WatchReader all(address(), "/api/v1/configmaps?watch=1&resourceVersion=" + start);
  EXPECT_EQ(Summary(all.Next()), "ADDED other/x");
  EXPECT_EQ(Summary(all.Next()), "ADDED default/y");
}

TEST_F(WatchTest, MetadataOnlyWatch) {
  const auto watch =
      Watch("resourceVersion=" + Version(),
            {{"Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}});
  MakeConfigMap("a");
  const Json event = watch->Next();
  EXPECT_EQ(event["object"]["kind"], "PartialObjectMetadata");
  EXPECT_EQ(event["object"]["metadata"]["name"], "a");
  EXPECT_FALSE(event["object"].contains("data"));
}

TEST_F(WatchTest, BookmarksFollowTheClock) {
  FakeClock clock;
  StartWith({.bookmark_interval = 60s, .clock = &clock});
  const auto watch =
      Watch("allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion=" + Version());
  const auto quiet = Watch("timeoutSeconds=150&resourceVersion=" + Version());
  while (clock.Waiters() < 2) std::this_thread::yield();
  ASSERT_TRUE(simulator_->CreateNamespace("elsewhere"));
  clock.Advance(60s);
  // The version of the whole cluster, though nothing of this kind changed.
  EXPECT_EQ(Summary(watch->Next()), "BOOKMARK " + Version());
  while (clock.Waiters() < 2) std::this_thread::yield();
  clock.Advance(60s);
  EXPECT_EQ(Summary(watch->Next()), "BOOKMARK " + Version());
  while (clock.Waiters() < 2) std::this_thread::yield();
  // And once more shortly before the end.
  clock.Advance(28s);
  EXPECT_EQ(Summary(watch->Next()), "BOOKMARK " + Version());
  while (clock.Waiters() < 2) std::this_thread::yield();
  clock.Advance(2s);
  EXPECT_TRUE(watch->Ended());
  EXPECT_TRUE(watch->EndedCleanly());
  EXPECT_TRUE(quiet->Ended());
  EXPECT_EQ(quiet->Rest(), "");
}

TEST_F(WatchTest, AClientThatHangsUpFreesItsWatchAtOnce) {
  auto watch = Watch("resourceVersion=" + Version());
  ASSERT_EQ(watch->Code(), 200);
  while (simulator_->StatsOf("configmaps").open_watches == 0) std::this_thread::yield();
  watch.reset();
  const auto give_up = std::chrono::steady_clock::now() + 5s;
  while (simulator_->StatsOf("configmaps").open_watches > 0 &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_EQ(simulator_->StatsOf("configmaps").open_watches, 0U);
}

TEST_F(WatchTest, ExpiringHistoryDoesNotDisturbAWatchThatKeepsUp) {
  const auto watch = Watch("resourceVersion=" + Version());
  ASSERT_EQ(watch->Code(), 200);
  MakeConfigMap("a");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/a");
  simulator_->ExpireHistory();
  MakeConfigMap("b");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/b");
}

}  // namespace
}  // namespace larder::apiserver
