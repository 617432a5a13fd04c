// The watch: events, bookmarks, and each row of the protocol's table of errors.
#include <gmock/gmock.h>

#include "tests/reflector/reflector_harness.h"

namespace larder {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

using WatchTest = ReflectorTest;

TEST_F(WatchTest, HandsEventsOnInOrderAndMovesTheCursor) {
  StoredAt("10");
  server.Push(
      Answer::Watch({EventLine("ADDED", {.name = "a", .version = "11"}),
                     EventLine("MODIFIED", {.name = "a", .version = "12"}), BookmarkLine("15"),
                     EventLine("DELETED", {.name = "a", .version = "16"})})
          .InBitsOf(3));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 16"));
  EXPECT_THAT(target.calls, ElementsAre("Start", "ADDED x/a@11", "MODIFIED x/a@12", "Bookmark 15",
                                        "DELETED x/a@16"));
  const ReflectorStatus status = reflector->Status();
  EXPECT_THAT(status.events, ElementsAre(1U, 1U, 1U, 1U, 0U));
  EXPECT_EQ(status.watches, 2U);
  EXPECT_EQ(status.resource_version, "16");
  EXPECT_TRUE(status.last_bookmark.has_value());
}

TEST_F(WatchTest, RelistsWhenWatchReturnsGone) {
  StoredAt("10");
  server.Push(Answer::Status(410, "Expired"));
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "W 20"));
  EXPECT_THAT(clock.Waits(), IsEmpty());
}

TEST_F(WatchTest, RelistsWhenWatchSendsGoneAsAnEvent) {
  for (const char* reason : {"Expired", "Gone"}) {
    InstantClock instant;
    std::stop_source source;
    ScriptedTransport transport(&instant, &source);
    RecordingTarget recording;
    recording.position.resource_version = "10";
    ReflectorOptions same = options;
    same.clock = &instant;
    transport.Always("V", Answer::Json(PodListJson("1000", {})));
    transport.Push(Answer::Watch(
        {EventLine("ADDED", {.name = "a", .version = "12"}), ErrorLine(410, reason)}));
    transport.Push(Answer::Protobuf(MetadataListProtobuf("20", {{.name = "a", .version = "12"}})));
    transport.Push(Answer::Watch({}));
    auto made = Reflector::Create(same, &transport, &recording);
    (*made)->Run(source.get_token());
    EXPECT_THAT(transport.Requests(), ElementsAre("V", "W 10", "D 12", "W 20"));
    EXPECT_EQ((*made)->Status().events[4], 1U);
  }
}

TEST_F(WatchTest, PausesBetweenRelistsOfAServerThatExpiresEverything) {
  StoredAt("10");
  for (int i = 0; i < 3; ++i) {
    server.Push(Answer::Status(410, "Expired"));
    server.Push(Answer::Protobuf(MetadataListProtobuf("20", {})));
  }
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "W 20", "D 20", "W 20", "D 20"));
  EXPECT_THAT(clock.Waits(), SizeIs(2));
}

TEST_F(WatchTest, RetriesAfterASecondThenListsWithAnEmptyVersionWhenTheVersionIsTooLarge) {
  StoredAt("10");
  server.Push(Answer::VersionTooLarge());
  server.Push(Answer::VersionTooLarge());
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10", "D", "W 20"));
  EXPECT_THAT(clock.Waits(), ElementsAre(milliseconds(1000)));
}

TEST_F(WatchTest, RetriesAListAfterASecondThenWithAnEmptyVersionWhenTheVersionIsTooLarge) {
  StoredAt("10");
  server.Push(Answer::Status(410, "Expired"));
  server.Push(Answer::VersionTooLarge());
  server.Push(Answer::VersionTooLarge());
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "D 10", "D", "W 20"));
  EXPECT_THAT(clock.Waits(), ElementsAre(milliseconds(1000)));
}

TEST_F(WatchTest, WatchesAgainAfterTooManyRequestsAndNeverRelists) {
  StoredAt("10");
  for (int i = 0; i < 5; ++i) server.Push(Answer::Status(429, "TooManyRequests"));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10", "W 10", "W 10", "W 10", "W 10"));
  EXPECT_EQ(Restarts("TooManyRequests"), 5U);
}

TEST_F(WatchTest, WatchesAgainAfterARefusedConnectionAndNeverRelists) {
  StoredAt("10");
  for (int i = 0; i < 8; ++i) server.Push(Answer::Refused());
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), SizeIs(9));
  EXPECT_THAT(Requests(), Each("W 10"));
  EXPECT_THAT(clock.Waits(), Each(Le(milliseconds(30'000))));
}

TEST_F(WatchTest, WatchesAgainAfterAnErrorEventOrABrokenStream) {
  StoredAt("10");
  server.Always("V x/a", Answer::Json(PodListJson("11", {{.name = "a", .version = "11"}})));
  server.Push(Answer::Watch({ErrorLine(500, "InternalError")}));
  server.Push(Answer::Watch({EventLine("ADDED", {.name = "a", .version = "11"})}).ThenBreak());
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10", "W 11"));
}

// What answers after a watch has ended before its time may be another server.
class ReconnectTest : public ReflectorTest {
 protected:
  // Started, and the watch has ended like this.
  void Began(Answer watch) {
    target.position.resource_version = "10";
    target.position.cluster_uid = "cluster";
    server.Push(Answer::Json(NamespaceJson("cluster")));
    server.Push(Answer::Json(PodListJson("10", {})));
    server.Push(std::move(watch));
  }
  const std::string added_ = EventLine("ADDED", {.name = "a", .version = "11"});
};

TEST_F(ReconnectTest, AnotherClusterIsNoticedAfterABrokenStream) {
  Began(Answer::Watch({added_}).ThenBreak());
  server.Push(Answer::Json(NamespaceJson("another")));
  EXPECT_EQ(Run(), Reflector::Outcome::kAnotherCluster);
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "W 10", "C"));
}

TEST_F(ReconnectTest, AnotherClusterIsNoticedAfterAStreamThatEndedBeforeItsTime) {
  Began(Answer::Watch({added_}).Lasting(seconds(60)));
  server.Push(Answer::Json(NamespaceJson("another")));
  EXPECT_EQ(Run(), Reflector::Outcome::kAnotherCluster);
}

// Each watch is asked to end after another time.
TEST_F(ReconnectTest, AStreamEndsBeforeItsTimeByTheTimeThatItWasAskedFor) {
  Began(Answer::Watch({added_}).Lasting(options.watch_timeout_min));
  server.Push(Answer::Json(NamespaceJson("another")));
  EXPECT_EQ(Run(), Reflector::Outcome::kAnotherCluster);
  ASSERT_GT(std::stoi(QueryValue(server.FullRequests()[2], "timeoutSeconds")), 310);
}

TEST_F(ReconnectTest, AnotherClusterIsNoticedAfterAWatchThatWasNotOpened) {
  Answer page = Answer::Json("<html>sign in</html>");
  page.headers["content-type"] = "text/html";
  Answer certificate;
  certificate.refused = Error{ErrorCode::kProtocol, "the certificate was refused", {}, {}};
  // What the caller's configuration lacks says nothing about the version.
  Answer broken_key;
  broken_key.refused = Error{ErrorCode::kInvalidArgument, "no such key", {}, {}};
  Began(std::move(page));
  for (Answer answer : {certificate, broken_key}) {
    server.Push(Answer::Json(NamespaceJson("cluster")));
    server.Push(Answer::Json(PodListJson("10", {})));
    server.Push(std::move(answer));
  }
  server.Push(Answer::Json(NamespaceJson("another")));
  EXPECT_EQ(Run(), Reflector::Outcome::kAnotherCluster);
  EXPECT_THAT(server.Requests(),
              ElementsAre("C", "V", "W 10", "C", "V", "W 10", "C", "V", "W 10", "C"));
}

TEST_F(ReconnectTest, AnotherClusterIsNoticedBeforeARelist) {
  Began(Answer::Status(410, "Expired"));
  server.Push(Answer::Json(NamespaceJson("another")));
  EXPECT_EQ(Run(), Reflector::Outcome::kAnotherCluster);
  EXPECT_EQ(target.Count("Begin"), 0U);
}

TEST_F(ReconnectTest, AnotherClusterIsNoticedBeforeARelistIsTriedAgain) {
  Began(Answer::Status(410, "Expired"));
  server.Push(Answer::Json(NamespaceJson("cluster")));
  server.Push(Answer::Refused());
  server.Push(Answer::Refused());
  server.Push(Answer::Json(NamespaceJson("cluster")));
  server.Push(Answer::Status(401, "Unauthorized"));
  server.Push(Answer::Json(NamespaceJson("another")));
  EXPECT_EQ(Run(), Reflector::Outcome::kAnotherCluster);
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "W 10", "C", "D 10", "C", "C", "D 10", "C"));
  EXPECT_EQ(target.Count("Begin"), 0U);
}

// A server that is no more may be followed by another at its address.
TEST_F(ReconnectTest, AnotherClusterIsNoticedBeforeAFirstListIsTriedAgain) {
  for (const FirstSync way : {FirstSync::kList, FirstSync::kPagedList, FirstSync::kWatchList}) {
    InstantClock instant;
    std::stop_source source;
    ScriptedTransport transport(&instant, &source);
    RecordingTarget recording;
    recording.position.cluster_uid = "cluster";
    ReflectorOptions same = options;
    same.clock = &instant;
    same.first_sync = way;
    transport.Push(Answer::Json(NamespaceJson("cluster")));
    transport.Push(Answer::Refused());
    transport.Push(Answer::Json(NamespaceJson("another")));
    auto made = Reflector::Create(same, &transport, &recording);
    EXPECT_EQ((*made)->Run(source.get_token()), Reflector::Outcome::kAnotherCluster);
    EXPECT_EQ(recording.Count("Begin"), 0U);
  }
}

TEST_F(ReconnectTest, ARestoredServerIsNoticedAfterABrokenStream) {
  Began(Answer::Watch({added_}).ThenBreak());
  server.Push(Answer::Json(NamespaceJson("cluster")));
  server.Push(Answer::Json(PodListJson("30", {})));  // and it never heard of x/a
  server.Push(Answer::Watch({BookmarkLine("31")}));
  server.Push(Answer::Json(PodListJson("32", {})));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "W 10", "C", "V x/a", "W 11", "L"));
  EXPECT_EQ(target.Count("Begin rewound"), 1U);
  EXPECT_THAT(target.objects, IsEmpty());
}

TEST_F(ReconnectTest, AWatchThatEndedInTimeIsOpenedAgainAtOnce) {
  Began(Answer::Watch({added_}));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "W 10", "W 11"));
}

TEST_F(WatchTest, HonoursRetryAfter) {
  StoredAt("10");
  server.Push(Answer::Status(429, "TooManyRequests").WithHeader("retry-after", "17"));
  server.Push(Answer::Status(503, "ServiceUnavailable").WithHeader("retry-after", "21"));
  Run();
  EXPECT_THAT(clock.Waits(), ElementsAre(milliseconds(17'000), milliseconds(21'000)));
}

TEST_F(WatchTest, BoundsAnAbsurdRetryAfter) {
  StoredAt("10");
  server.Push(Answer::Status(429, "TooManyRequests").WithHeader("retry-after", "99999999999999"));
  Run();
  ASSERT_THAT(clock.Waits(), SizeIs(1));
  EXPECT_LE(clock.Waits()[0], options.max_retry_after);
}

TEST_F(WatchTest, WatchesAgainAtOnceAfterACleanClose) {
  StoredAt("10");
  server.Push(Answer::Watch({}));
  server.Push(Answer::Watch({BookmarkLine("12")}).Lasting(milliseconds(10)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10", "W 12"));
  EXPECT_THAT(clock.Waits(), IsEmpty());
  EXPECT_EQ(Restarts("closed"), 3U);
}

TEST_F(WatchTest, BacksOffAfterAShortWatchWithoutAnEvent) {
  StoredAt("10");
  server.Push(Answer::Watch({}).Lasting(milliseconds(999)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10"));
  EXPECT_EQ(Restarts("short"), 1U);
  EXPECT_THAT(clock.Waits(), SizeIs(1));
}

TEST_F(WatchTest, ReportsRefusedRightsUntilTheWatchIsOpenAgain) {
  StoredAt("10");
  server.Push(Answer::Status(403, "Forbidden"));
  server.Push(Answer::Watch({EventLine("ADDED", {.name = "a", .version = "11"})}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10"));
  EXPECT_EQ(reflector->Status().last_error->code, ErrorCode::kForbidden);
  EXPECT_EQ(Restarts("Forbidden"), 1U);
}

TEST_F(WatchTest, ChecksAServerThatWentSilent) {
  StoredAt("10");
  server.Push(Answer::Watch({BookmarkLine("12")}).ThenHang());
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "W 10", "C", "V", "W 12"));
  EXPECT_EQ(Restarts("silent"), 1U);
}

TEST_F(WatchTest, TakesOneByteASecondForSilence) {
  StoredAt("10");
  server.Push(Answer::Watch({}).ThenTrickle());
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "W 10", "C", "V", "W 10"));
}

TEST_F(WatchTest, TakesEmptyLinesForSilence) {
  StoredAt("10");
  Answer answer = Answer::Watch({}).ThenTrickle();
  answer.trickle = "\n";
  server.Push(std::move(answer));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_EQ(Restarts("silent"), 1U);
}

TEST_F(WatchTest, NoticesARewoundServerBehindASilentStream) {
  StoredAt("10");
  server.Always("V x/a", Answer::Json(PodListJson("1000", {})));
  server.Push(Answer::Watch({EventLine("ADDED", {.name = "a", .version = "2000"})}).ThenHang());
  server.Push(Answer::Json(PodListJson("1000", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "L", "W 1000"));
  EXPECT_EQ(target.Count("Begin rewound"), 1U);
  EXPECT_THAT(target.objects, IsEmpty());
}

TEST_F(WatchTest, DistrustsABookmarkBehindTheCursor) {
  StoredAt("10");
  server.Push(Answer::Watch({BookmarkLine("9")}).ThenHang());
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "W 10", "C", "V", "W 10"));
  EXPECT_EQ(target.Count("Bookmark"), 0U);
}

TEST_F(WatchTest, PausesWhereEveryBookmarkIsBehindTheCursor) {
  StoredAt("10");
  for (int i = 0; i < 3; ++i) server.Push(Answer::Watch({BookmarkLine("9")}).ThenHang());
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10", "W 10"));
  EXPECT_THAT(clock.Waits(), SizeIs(2));
}

TEST_F(WatchTest, HandsOldAndRepeatedVersionsOnWithoutMovingBack) {
  StoredAt("10");
  server.Push(Answer::Watch({EventLine("MODIFIED", {.name = "a", .version = "12"}),
                             EventLine("MODIFIED", {.name = "b", .version = "12"}),
                             EventLine("MODIFIED", {.name = "c", .version = "3"})}));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 12"));
  EXPECT_EQ(target.Count("MODIFIED"), 3U);
}

TEST_F(WatchTest, StartsAgainAndLeavesTheCursorWhenACommitFails) {
  StoredAt("10");
  target.fail_at = "MODIFIED x/a@12";
  server.Push(Answer::Watch({EventLine("ADDED", {.name = "a", .version = "11"}),
                             EventLine("MODIFIED", {.name = "a", .version = "12"}),
                             EventLine("MODIFIED", {.name = "a", .version = "13"})}));
  server.Push(Answer::Watch({EventLine("MODIFIED", {.name = "a", .version = "12"})}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 11"));
  EXPECT_THAT(target.calls, ElementsAre("Start", "ADDED x/a@11", "failed MODIFIED x/a@12", "Start",
                                        "MODIFIED x/a@12"));
  EXPECT_THAT(clock.Waits(), SizeIs(1));
  EXPECT_EQ(Restarts("target"), 1U);
}

TEST_F(WatchTest, StartsAgainWhenTheEndOfAListCannotBeCommitted) {
  target.fail_at = "End 9";
  server.Push(Answer::Json(PodListJson("9", {{.name = "a", .version = "5"}})));
  server.Push(Answer::Json(PodListJson("9", {{.name = "a", .version = "5"}})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(target.calls, ElementsAre("Start", "Begin first", "Item x/a@5", "failed End 9",
                                        "Start", "Begin first", "Item x/a@5", "End 9"));
}

TEST_F(WatchTest, RelistsWhenTheServerDoesNotUnderstandTheVersion) {
  StoredAt("10");
  server.Push(Answer::Status(400, "BadRequest"));
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D", "W 20"));
}

}  // namespace
}  // namespace larder
