// Conformance: get and list.
#include <gmock/gmock.h>

#include "tests/apiserver/conformance_fixture.h"

namespace larder::apiserver {
namespace {

using testing::Contains;
using testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

class ConformanceList : public ConformanceTest {};

TEST_F(ConformanceList, ListHasItsKindAVersionAndBareItems) {
  Make("b");
  const Json last = Make("a");
  const Json list = client_->Get(Path("configmaps")).json();
  EXPECT_EQ(list["kind"], "ConfigMapList");
  EXPECT_EQ(list["apiVersion"], "v1");
  const auto order = CompareResourceVersions(VersionOf(list), VersionOf(last));
  ASSERT_TRUE(order);
  EXPECT_GE(*order, 0);
  EXPECT_THAT(Names(list), ElementsAre("a", "b"));
  EXPECT_FALSE(list["items"][0].contains("kind"));
}

TEST_F(ConformanceList, MissingObjectIsAStatusOfNotFound) {
  const HttpAnswer answer = client_->Get(Path("configmaps", "none"));
  EXPECT_EQ(answer.code, 404);
  const Json status = answer.json();
  EXPECT_EQ(status["kind"], "Status");
  EXPECT_EQ(status["status"], "Failure");
  EXPECT_EQ(status["reason"], "NotFound");
  EXPECT_EQ(status["code"], 404);
  EXPECT_EQ(status["message"], "configmaps \"none\" not found");
  EXPECT_EQ(status["details"]["name"], "none");
  EXPECT_EQ(status["details"]["kind"], "configmaps");
}

TEST_F(ConformanceList, PagesAreConsistent) {
  for (const char* name : {"a", "b", "c", "d", "e"}) Make(name);
  const Json first = client_->Get(Path("configmaps") + "?limit=2").json();
  EXPECT_THAT(Names(first), ElementsAre("a", "b"));
  EXPECT_EQ(first["metadata"]["remainingItemCount"], 3);
  EXPECT_EQ(client_->Delete(Path("configmaps", "d")).code, 200);
  Make("cc");
  const auto next = [&](const Json& page) {
    return client_
        ->Get(Path("configmaps") +
              "?limit=2&continue=" + Escape(page["metadata"]["continue"].get<std::string>()))
        .json();
  };
  const Json second = next(first);
  EXPECT_THAT(Names(second), ElementsAre("c", "d"));
  EXPECT_EQ(VersionOf(second), VersionOf(first));
  const Json third = next(second);
  EXPECT_THAT(Names(third), ElementsAre("e"));
  EXPECT_EQ(third["metadata"].value("continue", ""), "");
}

TEST_F(ConformanceList, ContinueForbidsAVersion) {
  Make("a");
  Make("b");
  const Json page = client_->Get(Path("configmaps") + "?limit=1").json();
  const HttpAnswer refused =
      client_->Get(Path("configmaps") + "?resourceVersion=" + VersionOf(page) +
                   "&continue=" + Escape(page["metadata"]["continue"].get<std::string>()));
  EXPECT_EQ(refused.code, 400);
  EXPECT_THAT(refused.json()["message"].get<std::string>(),
              HasSubstr("specifying resource version is not allowed when using continue"));
  EXPECT_EQ(client_->Get(Path("configmaps") + "?continue=nonsense").code, 400);
}

TEST_F(ConformanceList, ExactVersionShowsThePast) {
  Make("a");
  const std::string then = ListVersion();
  Make("b");
  const Json past =
      client_->Get(Path("configmaps") + "?resourceVersionMatch=Exact&resourceVersion=" + then)
          .json();
  EXPECT_THAT(Names(past), ElementsAre("a"));
  EXPECT_EQ(VersionOf(past), then);
  const Json now =
      client_
          ->Get(Path("configmaps") + "?resourceVersionMatch=NotOlderThan&resourceVersion=" + then)
          .json();
  EXPECT_THAT(Names(now), Contains("a"));
}

// By which a relist reads what its list named and somebody deleted meanwhile.
TEST_F(ConformanceList, ExactVersionShowsOneThatIsGone) {
  const std::string made = VersionOf(Make("a"));
  Make("b");
  const std::string then = ListVersion();
  ASSERT_EQ(client_->Delete(Path("configmaps", "a")).code, 200);
  EXPECT_EQ(client_->Get(Path("configmaps", "a") + "?resourceVersion=" + then).code, 404);
  const Json past = client_
                        ->Get(Path("configmaps") +
                              "?fieldSelector=metadata.name%3Da&resourceVersionMatch=Exact"
                              "&resourceVersion=" +
                              then)
                        .json();
  ASSERT_THAT(Names(past), ElementsAre("a"));
  EXPECT_EQ(VersionOf(past["items"][0]), made);
}

TEST_F(ConformanceList, ValidatesVersionsAndMatches) {
  const auto refused = [&](const std::string& query) {
    const HttpAnswer answer = client_->Get(Path("configmaps") + "?" + query);
    return answer.code == 422 ? answer.json()["details"]["causes"][0].value("field", "")
                              : std::to_string(answer.code);
  };
  EXPECT_EQ(refused("resourceVersionMatch=Exact"), "resourceVersionMatch");
  EXPECT_EQ(refused("resourceVersionMatch=Exact&resourceVersion=0"), "resourceVersionMatch");
  EXPECT_EQ(refused("resourceVersionMatch=Other&resourceVersion=1"), "resourceVersionMatch");
  EXPECT_EQ(refused("sendInitialEvents=true"), "sendInitialEvents");
  EXPECT_EQ(refused("resourceVersion=abc"), "400");
  EXPECT_EQ(refused("watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1"),
            "resourceVersionMatch");
  EXPECT_EQ(refused("watch=1&sendInitialEvents=true&resourceVersion=1"), "resourceVersionMatch");
}

TEST_F(ConformanceList, VersionFromTheFutureIsTooLarge) {
  const HttpAnswer answer = client_->Get(Path("configmaps") + "?resourceVersion=999999999999");
  EXPECT_EQ(answer.code, 504);
  EXPECT_EQ(answer.json()["reason"], "Timeout");
  EXPECT_EQ(answer.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

TEST_F(ConformanceList, SelectsByLabels) {
  Make("a", {{"app", "web"}, {"tier", "one"}});
  Make("b", {{"app", "db"}});
  Make("c");
  const auto names = [&](const std::string& selector) {
    return Names(client_->Get(Path("configmaps") + "?labelSelector=" + Escape(selector)).json());
  };
  EXPECT_THAT(names("app=web"), ElementsAre("a"));
  EXPECT_THAT(names("app in (web,db)"), ElementsAre("a", "b"));
  EXPECT_THAT(names("app!=web"), ElementsAre("b", "c"));
  EXPECT_THAT(names("app,!tier"), ElementsAre("b"));
  EXPECT_THAT(names("app notin (web,db)"), ElementsAre("c"));
  EXPECT_EQ(client_->Get(Path("configmaps") + "?labelSelector=" + Escape("=")).code, 400);
}

TEST_F(ConformanceList, SelectsByFields) {
  for (const char* name : {"a", "b"}) Make(name);
  for (const char* type : {"example.com/one", "example.com/two"}) {
    const std::string name = std::string("s-") + (std::string(type).back() == 'e' ? "one" : "two");
    ASSERT_EQ(client_->Post(Path("secrets"), {{"metadata", {{"name", name}}}, {"type", type}}).code,
              201);
  }
  EXPECT_THAT(Names(client_->Get(Path("configmaps") + "?fieldSelector=metadata.name%3Db").json()),
              ElementsAre("b"));
  EXPECT_THAT(Names(client_->Get(Path("configmaps") + "?fieldSelector=metadata.name!%3Db").json()),
              Contains("a"));
  const std::string by_type = Path("secrets") + "?fieldSelector=" + Escape("type=example.com/two");
  EXPECT_THAT(Names(client_->Get(by_type).json()), ElementsAre("s-two"));
  EXPECT_EQ(client_->Get(Path("configmaps") + "?fieldSelector=data.k%3Dv").code, 400);
}

TEST_F(ConformanceList, PathsThatLeadNowhere) {
  const auto missing = [&](const std::string& path) {
    const HttpAnswer answer = client_->Get(path);
    EXPECT_EQ(answer.code, 404) << path;
    return answer.json().is_object() ? answer.json().value("reason", "") : answer.body;
  };
  EXPECT_EQ(missing(Path("nothings")), "NotFound");
  EXPECT_EQ(missing("/apis/apps/v9/deployments"), "NotFound");
  EXPECT_EQ(missing("/apis/apps/v1/nothings"), "NotFound");
  EXPECT_EQ(missing("/apis/nothing.example/v1/things"), "404 page not found\n");
  EXPECT_EQ(missing("/nothing"), "404 page not found\n");
}

TEST_F(ConformanceList, WhatIsCompactedIsGone) {
  for (const char* name : {"a", "b", "c"}) Make(name);
  const Json page = client_->Get(Path("configmaps") + "?limit=1").json();
  const std::string then = ListVersion();
  Make("d");
  if (!Compact()) GTEST_SKIP() << "this server's etcd is out of reach";

  const auto watch = Watch("resourceVersion=" + then);
  EXPECT_EQ(watch->Code(), 200);
  const Json error = watch->Next();
  EXPECT_EQ(Summary(error), "ERROR 410");
  EXPECT_EQ(error["object"]["reason"], "Expired");

  const std::string at = "?resourceVersion=" + then + "&resourceVersionMatch=";
  const HttpAnswer past = client_->Get(Path("configmaps") + at + "Exact");
  EXPECT_EQ(past.code, 410);
  EXPECT_EQ(past.json()["reason"], "Expired");
  EXPECT_EQ(client_->Get(Path("configmaps") + at + "NotOlderThan").code, 200);

  // A page that is gone comes with a token for the rest, as it is now.
  const auto next = [&](const Json& from) {
    const std::string token = from["metadata"].value("continue", "");
    return client_->Get(Path("configmaps") + "?limit=9&continue=" + Escape(token));
  };
  const HttpAnswer gone = next(page);
  EXPECT_EQ(gone.code, 410);
  EXPECT_EQ(gone.json()["reason"], "Expired");
  EXPECT_THAT(Names(next(gone.json()).json()), IsSupersetOf({"b", "c", "d"}));
}

// A 500 without a reason, but only where it is not a list.
TEST_F(ConformanceList, MalformedVersions) {
  Make("a");
  EXPECT_EQ(client_->Get(Path("configmaps") + "?resourceVersion=abc").code, 400);
  for (const std::string& path :
       {Path("configmaps", "a") + "?", Path("configmaps") + "?watch=1&"}) {
    const HttpAnswer answer = client_->Get(path + "resourceVersion=abc");
    EXPECT_EQ(answer.code, 500);
    EXPECT_FALSE(answer.json().contains("reason"));
    EXPECT_THAT(answer.json()["message"].get<std::string>(),
                HasSubstr("resourceVersion: Invalid value"));
  }
}

// Only with the gate ShardedListAndWatch; a server without it ignores the parameter.
TEST_F(ConformanceList, ShardsByUid) {
  for (int i = 0; i < 16; ++i) Make("a-" + std::to_string(i));
  const auto shard = [&](const std::string& selector) {
    return client_->Get(Path("configmaps") + "?shardSelector=" + Escape(selector));
  };
  const std::string half = "'0x8000000000000000'";
  const Json low =
      shard("shardRange(object.metadata.uid,'0x0000000000000000'," + half + ")").json();
  if (!low["metadata"].contains("shardInfo")) GTEST_SKIP() << "the server does not shard";
  const Json high =
      shard("shardRange(object.metadata.uid," + half + ",'0x10000000000000000')").json();
  EXPECT_EQ(low["items"].size() + high["items"].size(), 16U);
  EXPECT_EQ(high["metadata"]["shardInfo"]["selector"],
            "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')");
  for (const char* bad :
       {"half", "shardRange(object.metadata.name,'0x0000000000000000','0x8000000000000000')",
        "shardRange(object.metadata.uid,'0x1','0x2')",
        "shardRange(object.metadata.uid,'0x9000000000000000','0x8000000000000000')"}) {
    const HttpAnswer refused = shard(bad);
    EXPECT_EQ(refused.code, 500) << bad;
    EXPECT_THAT(refused.json()["message"].get<std::string>(), HasSubstr("invalid shard selector"));
  }
}

TEST_F(ConformanceList, MetadataOnlyInJson) {
  Make("a", {{"app", "web"}});
  const HttpAnswer answer = client_->Get(
      Path("configmaps"),
      {{"Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}});
  EXPECT_EQ(answer.json()["kind"], "PartialObjectMetadataList");
  EXPECT_EQ(answer.json()["apiVersion"], "meta.k8s.io/v1");
  const Json item = answer.json()["items"][0];
  EXPECT_EQ(item["kind"], "PartialObjectMetadata");
  EXPECT_EQ(item["metadata"]["labels"]["app"], "web");
  EXPECT_FALSE(item.contains("data"));
  const Json single =
      client_
          ->Get(Path("configmaps", "a"),
                {{"Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}})
          .json();
  EXPECT_EQ(single["kind"], "PartialObjectMetadata");
}

TEST_F(ConformanceList, MetadataOnlyInProtobuf) {
  const Json made = Make("a", {{"app", "web"}});
  const HttpAnswer answer = client_->Get(
      Path("configmaps"),
      {{"Accept",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}});
  ASSERT_EQ(answer.code, 200);
  EXPECT_THAT(answer.Header("Content-Type"), HasSubstr("application/vnd.kubernetes.protobuf"));
  EXPECT_EQ(answer.body.substr(0, 4), std::string("k8s\0", 4));
  // Strings are as they are in protobuf, so they can be found without decoding.
  EXPECT_THAT(answer.body, HasSubstr("PartialObjectMetadataList"));
  EXPECT_THAT(answer.body, HasSubstr(made["metadata"]["uid"].get<std::string>()));
  EXPECT_THAT(answer.body, Not(HasSubstr("\"data\":")));
}

TEST_F(ConformanceList, DiscoveryKnowsConfigMaps) {
  bool found = false;
  const Json plain = client_->Get("/api/v1").json();
  for (const Json& resource : plain["resources"]) {
    if (resource["name"] == "configmaps") {
      found = resource["namespaced"].get<bool>() && resource["kind"] == "ConfigMap";
    }
  }
  EXPECT_TRUE(found);
  const Json aggregated =
      client_
          ->Get("/apis", {{"Accept",
                           "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}})
          .json();
  EXPECT_EQ(aggregated["kind"], "APIGroupDiscoveryList");
  EXPECT_EQ(aggregated["apiVersion"], "apidiscovery.k8s.io/v2");
}

TEST_F(ConformanceList, WithoutATokenNothingIsShown) {
  ServerAddress stranger = address_;
  stranger.token = "not-a-token";
  const HttpAnswer answer = ApiClient(stranger).Get(Path("configmaps"));
  EXPECT_EQ(answer.code, 401);
  EXPECT_EQ(answer.json()["reason"], "Unauthorized");
}

}  // namespace
}  // namespace larder::apiserver
