#include <gmock/gmock.h>
#include <zlib.h>

#include "tests/apiserver/simulator_fixture.h"

namespace larder::apiserver {
namespace {

using testing::ElementsAre;
using ::testing::HasSubstr;

class ListTest : public SimulatorTest {};

std::vector<std::string> Names(const Json& list) {
  std::vector<std::string> out;
  for (const Json& item : list["items"]) {
    const std::string ns = item["metadata"].value("namespace", "");
    out.push_back(ns + "/" + item["metadata"]["name"].get<std::string>());
  }
  return out;
}

std::string Inflate(const std::string& bytes) {
  z_stream stream{};
  inflateInit2(&stream, 16 + MAX_WBITS);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int result = Z_OK;
  while (result == Z_OK) {
    char buffer[65536];
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof(buffer);
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer, sizeof(buffer) - stream.avail_out);
  }
  inflateEnd(&stream);
  return result == Z_STREAM_END ? out : "broken gzip";
}

TEST_F(ListTest, ListsInEtcdKeyOrderAcrossNamespaces) {
  ASSERT_TRUE(simulator_->CreateNamespace("a"));
  ASSERT_TRUE(simulator_->CreateNamespace("a-b"));
  MakeConfigMap("x", Json::object(), "a");
  MakeConfigMap("x", Json::object(), "a-b");
  MakeConfigMap("y", Json::object(), "a");
  const Json list = client_->Get("/api/v1/configmaps").json();
  EXPECT_EQ(list["kind"], "ConfigMapList");
  EXPECT_EQ(list["apiVersion"], "v1");
  EXPECT_EQ(VersionOf(list), Version());
  // '-' is less than '/': the namespace a-b comes before a.
  EXPECT_THAT(Names(list), ElementsAre("a-b/x", "a/x", "a/y"));
  EXPECT_THAT(Names(client_->Get("/api/v1/namespaces/a/configmaps").json()),
              ElementsAre("a/x", "a/y"));
}

TEST_F(ListTest, ItemsOfBuiltInKindsComeWithoutKind) {
  MakeConfigMap("x");
  const Json item = client_->Get(kConfigMaps).json()["items"][0];
  EXPECT_FALSE(item.contains("kind"));
  EXPECT_FALSE(item.contains("apiVersion"));
  const Json single = client_->Get(std::string(kConfigMaps) + "/x").json();
  EXPECT_EQ(single["kind"], "ConfigMap");
  EXPECT_EQ(single["apiVersion"], "v1");
}

TEST_F(ListTest, AllPagesShowTheVersionOfTheFirst) {
  for (const char* name : {"a", "b", "c", "d", "e"}) MakeConfigMap(name);
  const Json first = client_->Get("/api/v1/configmaps?limit=2").json();
  EXPECT_THAT(Names(first), ElementsAre("default/a", "default/b"));
  EXPECT_EQ(first["metadata"]["remainingItemCount"], 3);
  // What happens now must not show in later pages: a change, a deletion, an addition.
  ASSERT_TRUE(simulator_->Patch("configmaps", "default", "c", R"({"data":{"k":"new"}})"));
  ASSERT_TRUE(simulator_->Delete("configmaps", "default", "d"));
  MakeConfigMap("cc");
  const std::string token = first["metadata"]["continue"];
  const Json second = client_->Get("/api/v1/configmaps?limit=2&continue=" + token).json();
  EXPECT_THAT(Names(second), ElementsAre("default/c", "default/d"));
  EXPECT_EQ(second["items"][0]["data"]["k"], "v");
  EXPECT_EQ(VersionOf(second), VersionOf(first));
  EXPECT_EQ(second["metadata"]["remainingItemCount"], 1);
  const Json third = client_
                         ->Get("/api/v1/configmaps?limit=2&continue=" +
                               second["metadata"]["continue"].get<std::string>())
                         .json();
  EXPECT_THAT(Names(third), ElementsAre("default/e"));
  EXPECT_FALSE(third["metadata"].contains("continue"));
}

TEST_F(ListTest, ExpiredPageTokenGives410WithATokenForTheRest) {
  for (const char* name : {"a", "b", "c"}) MakeConfigMap(name);
  const Json first = client_->Get("/api/v1/configmaps?limit=1").json();
  MakeConfigMap("d");
  simulator_->ExpireHistory();
  const std::string path =
      "/api/v1/configmaps?limit=9&continue=" + first["metadata"]["continue"].get<std::string>();
  const HttpAnswer gone = client_->Get(path);
  EXPECT_EQ(gone.code, 410);
  EXPECT_EQ(gone.json()["reason"], "Expired");
  const std::string token = gone.json()["metadata"]["continue"];
  const Json rest = client_->Get("/api/v1/configmaps?continue=" + token).json();
  EXPECT_THAT(Names(rest), ElementsAre("default/b", "default/c", "default/d"));
}

TEST_F(ListTest, LimitIsIgnoredAtVersionZero) {
  for (const char* name : {"a", "b", "c"}) MakeConfigMap(name);
  const Json list = client_->Get("/api/v1/configmaps?limit=1&resourceVersion=0").json();
  EXPECT_EQ(list["items"].size(), 3U);
  EXPECT_FALSE(list["metadata"].contains("continue"));
}

TEST_F(ListTest, ExactVersionShowsThePast) {
  MakeConfigMap("a");
  const std::string then = Version();
  MakeConfigMap("b");
  ASSERT_TRUE(simulator_->Delete("configmaps", "default", "a"));
  const Json past =
      client_->Get("/api/v1/configmaps?resourceVersionMatch=Exact&resourceVersion=" + then).json();
  EXPECT_THAT(Names(past), ElementsAre("default/a"));
  EXPECT_EQ(VersionOf(past), then);
  simulator_->ExpireHistory();
  EXPECT_EQ(
      client_->Get("/api/v1/configmaps?resourceVersionMatch=Exact&resourceVersion=" + then).code,
      410);
  EXPECT_EQ(
      client_->Get("/api/v1/configmaps?resourceVersionMatch=NotOlderThan&resourceVersion=" + then)
          .code,
      200);
}

TEST_F(ListTest, VersionFromTheFutureGives504AfterAWait) {
  for (const std::string path : {"/api/v1/configmaps?resourceVersion=999999999",
                                 "/api/v1/namespaces/default?resourceVersion=999999999"}) {
    const HttpAnswer answer = client_->Get(path);
    EXPECT_EQ(answer.code, 504);
    EXPECT_EQ(answer.json()["reason"], "Timeout");
    EXPECT_EQ(answer.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    EXPECT_EQ(answer.Header("Retry-After"), "1");
  }
}

struct BadQuery {
  const char* query;
  int code;
  const char* message;
};

TEST_F(ListTest, RefusesQueriesAsTheRealServerDoes) {
  const BadQuery cases[] = {
      {"resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is provided"},
      {"resourceVersionMatch=Exact&resourceVersion=0", 422, "is forbidden for resourceVersion"},
      {"resourceVersionMatch=Nearly&resourceVersion=5", 422, "Unsupported value"},
      {"sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"},
      {"resourceVersion=abc", 400, "invalid resource version"},
      {"limit=many", 400, "invalid syntax"},
      {"continue=%21%21", 400, "continue key is not valid"},
      {"labelSelector=%3D%3D", 400, "unable to parse requirement"},
      {"fieldSelector=spec.foo%3Dbar", 400, "not a known field selector"},
      {"shardSelector=nonsense", 500, "only shardRange() and || are allowed"},
      {"watch=1&sendInitialEvents=true&resourceVersion=5", 422,
       "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"},
      {"watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=5", 422,
       "forbidden for watch unless sendInitialEvents is provided"},
  };
  for (const BadQuery& bad : cases) {
    const HttpAnswer answer = client_->Get(std::string("/api/v1/configmaps?") + bad.query);
    EXPECT_EQ(answer.code, bad.code) << bad.query;
    EXPECT_EQ(answer.json().value("kind", ""), "Status") << bad.query;
    EXPECT_THAT(answer.json().value("message", ""), HasSubstr(bad.message)) << bad.query;
  }
}

TEST_F(ListTest, SelectsByLabelsAndFields) {
  MakeConfigMap("a", {{"app", "web"}, {"tier", "one"}});
  MakeConfigMap("b", {{"app", "web"}});
  MakeConfigMap("c");
  const auto names = [&](const std::string& query) {
    return Names(client_->Get("/api/v1/configmaps?" + query).json());
  };
  EXPECT_THAT(names("labelSelector=app%3Dweb"), ElementsAre("default/a", "default/b"));
  EXPECT_THAT(names("labelSelector=" + Escape("app=web,tier notin (one)")),
              ElementsAre("default/b"));
  EXPECT_THAT(names("fieldSelector=metadata.name%3Dc"), ElementsAre("default/c"));
  EXPECT_THAT(names("fieldSelector=" + Escape("metadata.namespace!=default")), ElementsAre());
  // A page is full when enough objects match, whatever was skipped in between.
  const Json page = client_->Get("/api/v1/configmaps?limit=1&labelSelector=app%3Dweb").json();
  EXPECT_THAT(Names(page), ElementsAre("default/a"));
  EXPECT_FALSE(page["metadata"].contains("remainingItemCount"));
  EXPECT_THAT(
      names("labelSelector=app%3Dweb&continue=" + page["metadata"]["continue"].get<std::string>()),
      ElementsAre("default/b"));
}

TEST_F(ListTest, SelectsPodsByNodeAndPhase) {
  ASSERT_TRUE(simulator_->Load(50));
  const Json all = client_->Get("/api/v1/pods").json();
  const std::string node = all["items"][7]["spec"]["nodeName"];
  size_t expected = 0;
  for (const Json& pod : all["items"]) expected += pod["spec"]["nodeName"] == node;
  const Json some = client_->Get("/api/v1/pods?fieldSelector=spec.nodeName%3D" + node).json();
  EXPECT_EQ(some["items"].size(), expected);
  EXPECT_EQ(
      client_->Get("/api/v1/pods?fieldSelector=status.phase%3DRunning").json()["items"].size(),
      50U);
  // An absent bool compares as false.
  EXPECT_EQ(
      client_->Get("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse").json()["items"].size(),
      100U);
}

TEST_F(ListTest, ShardsPartitionTheCollection) {
  ASSERT_TRUE(simulator_->Load(200));
  const std::string middle = "'0x8000000000000000'";
  const std::string low = "shardRange(object.metadata.uid,'0x0000000000000000'," + middle + ")";
  const std::string high = "shardRange(object.metadata.uid," + middle + ",'0x10000000000000000')";
  const Json first = client_->Get("/api/v1/pods?shardSelector=" + Escape(low)).json();
  const Json second = client_->Get("/api/v1/pods?shardSelector=" + Escape(high)).json();
  // In the server's own spelling.
  EXPECT_EQ(first["metadata"]["shardInfo"]["selector"],
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')");
  EXPECT_GT(first["items"].size(), 60U);
  EXPECT_GT(second["items"].size(), 60U);
  EXPECT_EQ(first["items"].size() + second["items"].size(), 200U);
  const Json both =
      client_->Get("/api/v1/pods?shardSelector=" + Escape(low + " || " + high)).json();
  EXPECT_EQ(both["items"].size(), 200U);
}

TEST_F(ListTest, CompressesOnlyLargeAnswersAndOnlyWhereAccepted) {
  ASSERT_TRUE(simulator_->Load(100));
  const HttpAnswer plain = client_->Get("/api/v1/pods");
  EXPECT_EQ(plain.Header("Content-Encoding"), "");
  const HttpAnswer packed = client_->Get("/api/v1/pods", {{"Accept-Encoding", "gzip"}});
  EXPECT_EQ(packed.Header("Content-Encoding"), "gzip");
  EXPECT_LT(packed.body.size() * 5, plain.body.size());
  EXPECT_EQ(Inflate(packed.body), plain.body);
  const HttpAnswer small = client_->Get("/api/v1/pods?limit=2", {{"Accept-Encoding", "gzip"}});
  EXPECT_EQ(small.Header("Content-Encoding"), "");
}

TEST_F(ListTest, MetadataOnlyHasEverythingOfMetadataAndNothingElse) {
  MakeConfigMap("a", {{"app", "web"}});
  const Headers accept = {
      {"Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}};
  const Json list = client_->Get(kConfigMaps, accept).json();
  EXPECT_EQ(list["kind"], "PartialObjectMetadataList");
  EXPECT_EQ(list["apiVersion"], "meta.k8s.io/v1");
  const Json item = list["items"][0];
  EXPECT_EQ(item["kind"], "PartialObjectMetadata");
  EXPECT_EQ(item["metadata"]["labels"]["app"], "web");
  EXPECT_TRUE(item["metadata"].contains("managedFields"));
  EXPECT_FALSE(item.contains("data"));
}

TEST_F(ListTest, RefusesProtobufOfWholeObjects) {
  EXPECT_EQ(client_->Get("/api/v1/pods", {{"Accept", "application/vnd.kubernetes.protobuf"}}).code,
            406);
  // With JSON as second choice it is the second choice.
  const HttpAnswer second = client_->Get(
      "/api/v1/pods", {{"Accept", "application/vnd.kubernetes.protobuf, application/json"}});
  EXPECT_EQ(second.code, 200);
  EXPECT_EQ(second.Header("Content-Type"), "application/json");
}

}  // namespace
}  // namespace larder::apiserver
