// Conformance: watch.
#include <gmock/gmock.h>

#include "tests/apiserver/conformance_fixture.h"

namespace larder::apiserver {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class ConformanceWatch : public ConformanceTest {};

TEST_F(ConformanceWatch, DeliversChangesInOrder) {
  const auto watch = Watch("resourceVersion=" + ListVersion());
  ASSERT_EQ(watch->Code(), 200);
  Make("a");
  EXPECT_EQ(Change("a", {{"data", {{"k", "2"}}}}).code, 200);
  EXPECT_EQ(client_->Delete(Path("configmaps", "a")).code, 200);
  const Json added = watch->NextEvent();
  EXPECT_EQ(Short(added), "ADDED a");
  EXPECT_EQ(added["object"]["kind"], "ConfigMap");
  EXPECT_EQ(added["object"]["apiVersion"], "v1");
  const Json modified = watch->NextEvent();
  EXPECT_EQ(Short(modified), "MODIFIED a");
  const Json deleted = watch->NextEvent();
  EXPECT_EQ(Short(deleted), "DELETED a");
  EXPECT_EQ(deleted["object"]["data"]["k"], "2");
  // DELETED carries the version of the deletion.
  EXPECT_GT(CompareResourceVersions(VersionOf(deleted["object"]), VersionOf(modified["object"])),
            0);
}

TEST_F(ConformanceWatch, ResumesFromAVersion) {
  Make("a");
  const std::string start = ListVersion();
  Make("b");
  EXPECT_EQ(client_->Delete(Path("configmaps", "a")).code, 200);
  const auto watch = Watch("resourceVersion=" + start);
  EXPECT_EQ(Short(watch->NextEvent()), "ADDED b");
  EXPECT_EQ(Short(watch->NextEvent()), "DELETED a");
}

TEST_F(ConformanceWatch, WithoutVersionStartsWithWhatIsThere) {
  Make("a");
  EXPECT_EQ(Short(Watch("fieldSelector=metadata.name%3Da")->NextEvent()), "ADDED a");
  EXPECT_EQ(Short(Watch("resourceVersion=0&fieldSelector=metadata.name%3Da")->NextEvent()),
            "ADDED a");
}

TEST_F(ConformanceWatch, TooOldVersionIsAnErrorEvent) {
  const auto watch = Watch("resourceVersion=1");
  EXPECT_EQ(watch->Code(), 200);
  const Json error = watch->Next();
  EXPECT_EQ(Summary(error), "ERROR 410");
  EXPECT_EQ(error["object"]["kind"], "Status");
  EXPECT_EQ(error["object"]["reason"], "Expired");
  EXPECT_THAT(error["object"]["message"].get<std::string>(), HasSubstr("too old resource version"));
}

TEST_F(ConformanceWatch, FutureVersionIsSilent) {
  const auto watch = Watch("resourceVersion=999999999999");
  ASSERT_EQ(watch->Code(), 200);
  Make("a");
  EXPECT_TRUE(watch->Next(300ms).is_null());
  EXPECT_FALSE(watch->Ended(0ms));
}

TEST_F(ConformanceWatch, WatchListEndsItsInitialEventsWithABookmark) {
  Make("a", {{"app", "web"}});
  Make("b", {{"app", "web"}});
  const auto watch = Watch(
      "labelSelector=app%3Dweb&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
      "allowWatchBookmarks=true");
  EXPECT_EQ(Short(watch->Next()), "ADDED a");
  EXPECT_EQ(Short(watch->Next()), "ADDED b");
  const Json end = watch->Next();
  ASSERT_EQ(end["type"], "BOOKMARK");
  EXPECT_EQ(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
  EXPECT_TRUE(CompareResourceVersions(VersionOf(end["object"]), "1"));
  Make("c", {{"app", "web"}});
  EXPECT_EQ(Short(watch->NextEvent()), "ADDED c");
}

TEST_F(ConformanceWatch, BookmarkComesBeforeTheTimeOutAndThenACleanEnd) {
  const auto watch =
      Watch("allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion=" + ListVersion());
  ASSERT_EQ(watch->Code(), 200);
  // Something else in the cluster moves its version on.
  const HttpAnswer elsewhere =
      client_->Post("/api/v1/namespaces/default/configmaps", {{"metadata", {{"name", ns_}}}});
  ASSERT_EQ(elsewhere.code, 201);
  const Json bookmark = watch->Next();
  ASSERT_EQ(bookmark["type"], "BOOKMARK");
  EXPECT_EQ(bookmark["object"]["kind"], "ConfigMap");
  EXPECT_GE(CompareResourceVersions(VersionOf(bookmark["object"]), VersionOf(elsewhere.json())), 0);
  EXPECT_TRUE(watch->Ended());
  EXPECT_TRUE(watch->EndedCleanly());
  client_->Delete("/api/v1/namespaces/default/configmaps/" + ns_);
}

TEST_F(ConformanceWatch, SelectorsTurnChangesIntoAdditionsAndDeletions) {
  Make("a", {{"app", "web"}});
  const auto watch = Watch("labelSelector=app%3Dweb&resourceVersion=" + ListVersion());
  ASSERT_EQ(watch->Code(), 200);
  const HttpAnswer left = Change("a", {{"metadata", {{"labels", {{"app", "db"}}}}}});
  const Json deleted = watch->NextEvent();
  EXPECT_EQ(Short(deleted), "DELETED a");
  EXPECT_EQ(deleted["object"]["metadata"]["labels"]["app"], "web");
  EXPECT_EQ(VersionOf(deleted["object"]), VersionOf(left.json()));
  Change("a", {{"metadata", {{"labels", {{"app", "web"}}}}}});
  EXPECT_EQ(Short(watch->NextEvent()), "ADDED a");
}

TEST_F(ConformanceWatch, MetadataOnly) {
  const auto watch =
      Watch("resourceVersion=" + ListVersion(),
            {{"Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}});
  ASSERT_EQ(watch->Code(), 200);
  Make("a");
  const Json event = watch->NextEvent();
  EXPECT_EQ(event["object"]["kind"], "PartialObjectMetadata");
  EXPECT_EQ(event["object"]["apiVersion"], "meta.k8s.io/v1");
  EXPECT_FALSE(event["object"].contains("data"));
}

TEST_F(ConformanceWatch, FollowsOneObjectByName) {
  const auto watch = Watch("fieldSelector=metadata.name%3Db&resourceVersion=" + ListVersion());
  ASSERT_EQ(watch->Code(), 200);
  Make("a");
  Make("b");
  EXPECT_EQ(Short(watch->NextEvent()), "ADDED b");
}

}  // namespace
}  // namespace larder::apiserver
