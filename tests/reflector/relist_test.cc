// The relist after an expired version: metadata first, then only what differs.
#include <gmock/gmock.h>

#include "tests/reflector/reflector_harness.h"

namespace larder {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

class RelistTest : public ReflectorTest {
 protected:
  // a and b are stored as they are on the server, c is older, gone is not there any more.
  void Stored() {
    StoredAt("10");
    target.Put("x/a", "uid-a", "5");
    target.Put("x/b", "uid-b", "6");
    target.Put("x/c", "uid-c", "7");
    target.Put("x/gone", "uid-gone", "8");
    server.Push(Answer::Status(410, "Expired"));
  }
  const std::vector<TestPod> now_ = {
      {.name = "a", .version = "5"}, {.name = "b", .version = "6"}, {.name = "c", .version = "15"}};
};

TEST_F(RelistTest, FetchesOnlyWhatDiffers) {
  Stored();
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Json(PodJson(now_[2])));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "W 20"));
  EXPECT_THAT(target.calls,
              ElementsAre("Start", "Begin gone", "Same x/a", "Same x/b", "Item x/c@15", "End 20"));
  EXPECT_EQ(target.objects.size(), 3U);
  const ReflectorStatus status = reflector->Status();
  EXPECT_EQ(status.relists, 1U);
  EXPECT_EQ(status.unchanged, 2U);
  EXPECT_EQ(status.fetched, 1U);
  EXPECT_EQ(status.objects, 1U);
}

// Roles of informers are often list and watch alone.
TEST_F(RelistTest, ListsWhatDiffersOneByOneWhereItMayNotGet) {
  Stored();
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Status(403, "Forbidden"));
  server.Push(Answer::Json(PodListJson("20", {now_[2]})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "F x/c 20", "W 20"));
  EXPECT_EQ(target.Count("Item x/c@15"), 1U);
  EXPECT_EQ(target.objects.size(), 3U);
}

TEST_F(RelistTest, ComparesByJsonMetadataWhereTheServerHasNoProtobuf) {
  Stored();
  server.Push(Answer::Json(MetadataListJson("20", now_)));
  server.Push(Answer::Json(PodJson(now_[2])));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "W 20"));
  EXPECT_EQ(target.Count("Same"), 2U);
}

TEST_F(RelistTest, TakesWholeObjectsWhereTheServerHasNoMetadataLists) {
  Stored();
  server.Push(Answer::Json(PodListJson("20", now_)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "W 20"));
  EXPECT_EQ(target.Count("Item"), 3U);
}

TEST_F(RelistTest, ListsInFullWhenTheServerDeclinesMetadata) {
  Stored();
  server.Push(Answer::Status(406, "NotAcceptable"));
  server.Push(Answer::Json(PodListJson("20", now_)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "L 10", "W 20"));
}

// What is not in the first page is not gone.
TEST_F(RelistTest, SweepsNothingWhenTheMetadataListIsOnlyAPage) {
  Stored();
  const std::vector<TestPod> part = {now_[0]};
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", part, "next")));
  server.Push(Answer::Json(PodListJson("20", part, "next")));
  server.Push(Answer::Json(PodListJson("20", part, "next")));
  server.Push(Answer::Json(PodListJson("20", {now_[1], now_[2]})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "L 10", "P", "P next", "W 20"));
  EXPECT_EQ(target.Count("End"), 1U);
  EXPECT_EQ(target.objects.size(), 3U);
}

TEST_F(RelistTest, ListsInFullWhenMuchDiffers) {
  Stored();
  options.max_single_fetches = 1;
  std::vector<TestPod> pods = now_;
  pods.push_back({.name = "d", .version = "16"});
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", pods)));
  server.Push(Answer::Json(PodListJson("21", pods)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "L 10", "W 21"));
  EXPECT_EQ(target.objects.size(), 4U);
  EXPECT_EQ(reflector->Status().lists, 1U);
}

TEST_F(RelistTest, FetchesSeveralAtATime) {
  StoredAt("10");
  server.Push(Answer::Status(410, "Expired"));
  std::vector<TestPod> pods;
  for (int i = 0; i < 100; ++i) {
    pods.push_back({.name = "p" + std::to_string(i), .version = "15"});
    server.Always("G x/" + pods.back().name + " 20", Answer::Json(PodJson(pods.back())));
  }
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", pods)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_EQ(target.objects.size(), 100U);
  EXPECT_EQ(reflector->Status().fetched, 100U);
  EXPECT_THAT(Requests(), Contains("W 20"));
}

TEST_F(RelistTest, ListsInFullWhenFetchingOneByOneTakesTooLong) {
  StoredAt("10");
  server.Push(Answer::Status(410, "Expired"));
  std::vector<TestPod> pods;
  for (int i = 0; i < 100; ++i) {
    pods.push_back({.name = "p" + std::to_string(i), .version = "15"});
    server.Always("G x/" + pods.back().name + " 20", Answer::Json(PodJson(pods.back())));
  }
  // A quarter of a second each: 25 s for all.
  target.on_call = [&](const std::string& call) {
    if (call.starts_with("Item")) clock.Advance(std::chrono::milliseconds(250));
  };
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", pods)));
  server.Push(Answer::Json(PodListJson("21", pods)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_LT(reflector->Status().fetched, 20U);
  EXPECT_THAT(Requests(), Contains("L 10"));
  EXPECT_EQ(target.objects.size(), 100U);
  EXPECT_FALSE(reflector->Status().last_error.has_value());
}

TEST_F(RelistTest, TakesANewerObject) {
  Stored();
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Json(PodJson({.name = "c", .version = "25"})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_EQ(target.objects.at("x/c").version, "25");
  EXPECT_EQ(target.calls.back(), "End 20");
}

// Left out of the list, it would be gone, come back with the watch's first event and go again.
TEST_F(RelistTest, AnObjectThatIsGoneByNowIsTakenAsTheListSawIt) {
  Stored();
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::NotFound("c"));
  server.Push(Answer::Json(PodListJson("20", {now_[2]})));
  server.Push(Answer::Watch({EventLine("MODIFIED", {.name = "c", .version = "21"}),
                             EventLine("DELETED", {.name = "c", .version = "22"})}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "E x/c 20", "W 20"));
  EXPECT_THAT(target.calls,
              ElementsAre("Start", "Begin gone", "Same x/a", "Same x/b", "Item x/c@15", "End 20",
                          "MODIFIED x/c@21", "DELETED x/c@22"));
}

class UnknownPastTest : public RelistTest, public testing::WithParamInterface<int> {};

// Compacted, or a server that cannot show the past.
TEST_P(UnknownPastTest, IsNoReasonToKeepAnObjectThatIsGone) {
  Stored();
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::NotFound("c"));
  server.Push(Answer::Status(GetParam(), "Refused"));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "E x/c 20", "W 20"));
  EXPECT_FALSE(target.objects.contains("x/c"));
  EXPECT_EQ(target.calls.back(), "End 20");
}

INSTANTIATE_TEST_SUITE_P(Refusals, UnknownPastTest, testing::Values(400, 410, 422));

// It may be there at the list's version: to call it gone for a moment's trouble would be wrong.
TEST_F(RelistTest, BeginsAgainWhenThePastCannotBeReadRightNow) {
  Stored();
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::NotFound("c"));
  server.Push(Answer::Status(500, "InternalError"));
  server.Push(Answer::Protobuf(MetadataListProtobuf("23", {now_[0], now_[1]})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "E x/c 20", "D 10", "W 23"));
  EXPECT_EQ(target.Count("End"), 1U);
  EXPECT_FALSE(target.objects.contains("x/c"));
}

// A proxy, or an API server that does not know the resource yet, says nothing about the object.
TEST_F(RelistTest, OnlyAStatusAboutTheObjectSaysThatItIsGone) {
  Stored();
  for (Answer answer : {Answer::PageNotFound(), Answer::Status(404, "NotFound"),
                        Answer::NotFound("another"), Answer::Status(404, "", R"({"name":"c"})")}) {
    server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
    server.Push(std::move(answer));
  }
  Run();
  EXPECT_THAT(Requests(), Contains("G x/c 20").Times(4));
  EXPECT_EQ(target.Count("End"), 0U);
  EXPECT_EQ(target.objects.size(), 4U);
}

TEST_F(RelistTest, LetsTheServerJudgeTheSelectorOfAFetchedObject) {
  Stored();
  options.label_selector = "app=web";
  std::vector<TestPod> pods = now_;
  pods.push_back({.name = "d", .version = "16"});
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", pods)));
  server.Always("F x/c 20", Answer::Json(PodListJson("30", {{.name = "c", .version = "25"}})));
  server.Always("F x/d 20", Answer::Json(PodListJson("30", {})));  // does not match any more
  server.Always("E x/d 20", Answer::Json(PodListJson("20", {pods[3]})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(),
              UnorderedElementsAre("W 10", "D 10", "F x/c 20", "F x/d 20", "E x/d 20", "W 20"));
  EXPECT_EQ(target.objects.at("x/c").version, "25");
  EXPECT_EQ(target.objects.at("x/d").version, "16");  // the watch tells that it went
}

TEST_F(RelistTest, SweepsNothingWhenTheListBreaksOff) {
  Stored();
  const std::string list = MetadataListProtobuf("20", now_);
  server.Push(Answer::Protobuf(list.substr(0, list.size() - 20)).ThenBreak());
  server.Push(Answer::Protobuf(list));
  server.Push(Answer::Json(PodJson(now_[2])));
  server.Push(Answer::Watch({}));
  target.on_call = [&](const std::string& call) {
    EXPECT_TRUE(target.objects.contains("x/gone")) << call;
  };
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "D 10", "G x/c 20", "W 20"));
  EXPECT_EQ(target.Count("Begin gone"), 2U);
  EXPECT_FALSE(target.objects.contains("x/gone"));
}

TEST_F(RelistTest, ListsInFullWhenMetadataListsKeepBreaking) {
  Stored();
  for (int i = 0; i < 2; ++i) server.Push(Answer::Protobuf("k8s"));
  server.Push(Answer::Json(PodListJson("20", now_)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "D 10", "L 10", "W 20"));
}

TEST_F(RelistTest, BeginsAgainWhenAFetchFails) {
  Stored();
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Status(500, "InternalError"));
  server.Push(Answer::Protobuf(MetadataListProtobuf("21", now_)));
  server.Push(Answer::Json(PodJson(now_[2])));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "D 10", "G x/c 21", "W 21"));
  EXPECT_EQ(target.Count("End"), 1U);
}

TEST_F(RelistTest, RelistsAtTheLastVersionThenWithAnEmptyOne) {
  Stored();
  server.Push(Answer::Status(410, "Gone"));
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "D", "W 20"));
}

TEST_F(RelistTest, TrustsNoEqualVersionsWhenTheListIsBehindTheCursor) {
  Stored();
  server.Push(Answer::Protobuf(MetadataListProtobuf("9", now_)));
  server.Push(Answer::Json(PodListJson("9", now_)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "L", "W 9"));
  EXPECT_EQ(target.Count("Begin rewound"), 1U);
  EXPECT_EQ(target.Count("End"), 1U);
}

// Restored from a backup, and since then past the cursor: only the objects show it.
TEST_F(RelistTest, AnObjectThatIsOlderThanTheStoredOneMeansARewoundServer) {
  Stored();
  target.Put("x/c", "uid-c", "30");
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Json(PodJson(now_[2])));
  server.Push(Answer::Json(PodJson(now_[2])));
  server.Push(Answer::Json(PodListJson("21", now_)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "G x/c", "L", "W 21"));
  EXPECT_EQ(target.Count("Begin rewound"), 1U);
  EXPECT_EQ(target.Count("End"), 1U);
}

// The same, and it is gone by now: nobody can tell a memory that is behind from a server that was
// restored, on which its end has an older version than what is stored.
TEST_F(RelistTest, AnObjectThatIsOlderAndGoneByNowHasEverythingListedAnew) {
  Stored();
  target.Put("x/c", "uid-c", "30");
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Json(PodJson(now_[2])));
  server.Push(Answer::NotFound("c"));
  server.Push(Answer::Json(PodListJson("25", {now_[0], now_[1]})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "G x/c", "L", "W 25"));
  EXPECT_EQ(target.Count("Begin rewound"), 1U);
  EXPECT_FALSE(target.objects.contains("x/c"));
}

// A relist that was cut off fetched it from a server that is ahead of the one that lists now.
TEST_F(RelistTest, AListThatDoesNotKnowSomethingNewerSweepsNothing) {
  Stored();
  target.Put("x/new", "uid-new", "25");
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Json(PodJson(now_[2])));
  std::vector<TestPod> pods = now_;
  pods.push_back({.name = "new", .version = "25"});
  server.Push(Answer::Json(PodListJson("30", pods)));
  server.Push(Answer::Watch({}));
  target.on_call = [&](const std::string& call) {
    EXPECT_TRUE(target.objects.contains("x/new")) << call;
  };
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "L", "W 30"));
  EXPECT_EQ(target.Count("End"), 1U);
  EXPECT_EQ(target.objects.size(), 4U);
}

// A relist that was cut off fetched it from a server that is ahead of the one that answers now.
TEST_F(RelistTest, AnObjectThatIsOlderInTheServersMemoryIsReadAsItIsNow) {
  Stored();
  target.Put("x/c", "uid-c", "30");
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Json(PodJson(now_[2])));
  server.Push(Answer::Json(PodJson({.name = "c", .version = "30"})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "G x/c", "W 20"));
  EXPECT_EQ(target.Count("Begin rewound"), 0U);
  EXPECT_EQ(target.objects.at("x/c").version, "30");
}

TEST_F(RelistTest, AFetchThatFailsIsNoProofOfARewoundServer) {
  Stored();
  target.Put("x/c", "uid-c", "30");
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Json(PodJson(now_[2])));
  server.Push(Answer::Status(500, "InternalError"));
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Json(PodJson(now_[2])));
  server.Push(Answer::Json(PodJson({.name = "c", .version = "30"})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "G x/c", "D 10", "G x/c 20",
                                      "G x/c", "W 20"));
  EXPECT_EQ(target.Count("Rewound"), 0U);
  EXPECT_EQ(target.Count("Begin rewound"), 0U);
}

TEST_F(RelistTest, AsksForObjectsAsTheyAreNowWhereAServerIsNotAsFarAsTheList) {
  Stored();
  options.parallel_fetches = 1;
  std::vector<TestPod> pods = now_;
  pods.push_back({.name = "d", .version = "16"});
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", pods)));
  server.Push(Answer::VersionTooLarge());
  server.Push(Answer::Json(PodJson(pods[2])));
  server.Push(Answer::Json(PodJson(pods[3])));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/c 20", "G x/c", "G x/d", "W 20"));
  EXPECT_EQ(target.objects.size(), 4U);
}

// A relist that was cut off may have fetched it before the server was restored.
TEST_F(RelistTest, AnObjectThatIsOlderInAFullListMeansARewoundServer) {
  Stored();
  target.Put("x/c", "uid-c", "30");
  server.Push(Answer::Status(415, "UnsupportedMediaType"));
  server.Push(Answer::Json(PodListJson("40", now_)));
  server.Push(Answer::Json(PodListJson("41", now_)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_EQ(target.Count("Begin rewound"), 1U);
  EXPECT_EQ(target.Count("End"), 1U);
}

TEST_F(RelistTest, RefusesAnObjectUnderAnotherName) {
  Stored();
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Json(PodJson(now_[0])));
  Run();
  EXPECT_EQ(target.Count("Item"), 0U);
  EXPECT_EQ(reflector->Status().last_error->code, ErrorCode::kProtocol);
}

TEST_F(RelistTest, RefusesAnObjectThatIsNestedTooDeeply) {
  Stored();
  std::string pod = PodJson(now_[2]);
  pod.insert(pod.size() - 1, R"(,"deep":)" + std::string(1000, '[') + std::string(1000, ']'));
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", now_)));
  server.Push(Answer::Json(pod));
  Run();
  EXPECT_EQ(target.Count("Item"), 0U);
  EXPECT_EQ(reflector->Status().last_error->code, ErrorCode::kProtocol);
}

TEST_F(RelistTest, RefusesNamesThatAreNoNames) {
  Stored();
  server.Push(
      Answer::Protobuf(MetadataListProtobuf("20", {{.name = "../secrets/a", .version = "5"}})));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10"));
  EXPECT_EQ(reflector->Status().last_error->code, ErrorCode::kProtocol);
}

}  // namespace
}  // namespace larder
