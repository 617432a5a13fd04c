// Watches and single objects in protobuf: what the target gets is what JSON would have brought, and
// what cannot be read is asked for again as JSON, from the cursor, with nothing lost.
#include <gmock/gmock.h>

#include "reflector/frame_splitter.h"
#include "reflector/watch_event.h"
#include "tests/reflector/reflector_harness.h"

namespace larder {
namespace {

using testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr const char* kProtobuf =
    "application/vnd.kubernetes.protobuf;stream=watch,application/json";
constexpr const char* kProtobufObject = "application/vnd.kubernetes.protobuf,application/json";
constexpr const char* kJsonAnswer = "application/json";
const TypeMeta kPod{"v1", "Pod"};
// In a pod: of a later release.
const std::string kNewer = ProtobufField(99, "of a later release");

class WatchFrameTest : public ReflectorTest {
 protected:
  // What was asked for in which form, but for checks and metadata lists.
  std::vector<std::pair<std::string, std::string>> Asked() const {
    std::vector<std::pair<std::string, std::string>> asked;
    for (const Request& request : server.FullRequests()) {
      const std::string what = Shorthand(request);
      if (what.find_first_of("CVD") == 0) continue;
      asked.emplace_back(what, request.accept);
    }
    return asked;
  }
};

TEST_F(WatchFrameTest, TheTargetGetsTheJsonThatTheServerWouldHaveSent) {
  for (const size_t bits : {size_t{1}, size_t{5}, size_t{1000}}) {
    InstantClock instant;
    std::stop_source source;
    ScriptedTransport transport(&instant, &source);
    RecordingTarget recording;
    recording.position.resource_version = "10";
    options.clock = &instant;
    transport.Always("V", Answer::Json(PodListJson("1000", {})));
    transport.Push(Answer::ProtobufWatch({EventFrame("ADDED", {.name = "a", .version = "11"}),
                                          EventFrame("MODIFIED", {.name = "a", .version = "12"}),
                                          BookmarkFrame("15"),
                                          EventFrame("DELETED", {.name = "a", .version = "16"})})
                       .InBitsOf(bits));
    transport.Push(Answer::Watch({}));
    auto made = Reflector::Create(options, &transport, &recording);
    (*made)->Run(source.get_token());
    EXPECT_THAT(transport.Requests(), ElementsAre("V", "W 10", "W 16"));
    EXPECT_THAT(recording.calls, ElementsAre("Start", "ADDED x/a@11", "MODIFIED x/a@12",
                                             "Bookmark 15", "DELETED x/a@16"));
    ASSERT_EQ(recording.items.size(), 3U);
    EXPECT_EQ(recording.items[0]->json(),
              R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"x",)"
              R"("uid":"uid-a","resourceVersion":"11"},"spec":{"containers":null},"status":{}})");
    EXPECT_THAT((*made)->Status().events, ElementsAre(1U, 1U, 1U, 1U, 0U));
    EXPECT_THAT(instant.Waits(), IsEmpty());
  }
}

TEST_F(WatchFrameTest, IsAskedForAndAServerThatAnswersJsonIsReadAsJson) {
  StoredAt("10");
  server.Push(Answer::Watch({EventLine("ADDED", {.name = "a", .version = "11"})}));
  server.Push(Answer::ProtobufWatch({EventFrame("ADDED", {.name = "b", .version = "12"})}));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kProtobuf), Pair("W 11", kProtobuf),
                                   Pair("W 12", kProtobuf)));
  EXPECT_THAT(target.calls, ElementsAre("Start", "ADDED x/a@11", "ADDED x/b@12"));
}

TEST_F(WatchFrameTest, IsNotAskedForWhereItIsNotWanted) {
  options.protobuf = false;
  StoredAt("10");
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kJsonAnswer)));
}

TEST_F(WatchFrameTest, IsNotAskedForOfCustomResources) {
  options.resource = {"example.com", "v1", "widgets", "Widget", true};
  StoredAt("10");
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kJsonAnswer)));
}

TEST_F(WatchFrameTest, IsNotAskedForOfMetadata) {
  options.metadata_only = true;
  StoredAt("10");
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", HasSubstr("json;as=PartialObjectMetadata"))));
}

TEST_F(WatchFrameTest, IsRefusedWhereItWasNotAskedFor) {
  options.protobuf = false;
  StoredAt("10");
  server.Push(Answer::ProtobufWatch({EventFrame("ADDED", {.name = "a", .version = "11"})}));
  Run();
  EXPECT_EQ(Restarts("Protocol"), 1U);
  EXPECT_THAT(target.calls, ElementsAre("Start"));
}

TEST_F(WatchFrameTest, AFieldThatIsNotKnownIsAskedForAgainAsJsonFromTheCursor) {
  StoredAt("10");
  std::vector<ErrorCode> told;
  options.on_error = [&](const Error& error) { told.push_back(error.code); };
  const TestPod b{.name = "b", .version = "12"};
  server.Push(Answer::ProtobufWatch({EventFrame("ADDED", {.name = "a", .version = "11"}),
                                     EventFrame("ADDED", b, kNewer),
                                     EventFrame("ADDED", {.name = "c", .version = "13"})}));
  server.Push(Answer::Watch({EventLine("ADDED", b)}));
  server.Push(Answer::Status(400, "BadRequest"));
  server.Push(Answer::Status(406, "NotAcceptable"));  // no metadata lists
  server.Push(Answer::Json(PodListJson("20", {b})));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kProtobuf), Pair("W 11", kJsonAnswer),
                                   Pair("W 12", kJsonAnswer), Pair("L", kJsonAnswer)));
  EXPECT_EQ(target.calls[1], "ADDED x/a@11");
  EXPECT_EQ(target.calls[2], "ADDED x/b@12");
  EXPECT_EQ(Restarts("Unsupported"), 1U);
  EXPECT_EQ(told.at(0), ErrorCode::kUnsupported);
}

TEST_F(WatchFrameTest, TheFirstFallbackDoesNotWait) {
  StoredAt("10");
  server.Push(Answer::ProtobufWatch({EventFrame("ADDED", {.name = "a", .version = "11"}, kNewer)}));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(clock.Waits(), IsEmpty());
}

TEST_F(WatchFrameTest, AServerThatRefusesItIsAskedForJsonAtOnceAndThenWithABackoff) {
  StoredAt("10");
  for (int i = 0; i < 3; ++i) server.Push(Answer::Status(406, "NotAcceptable"));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kProtobuf), Pair("W 10", kJsonAnswer),
                                   Pair("W 10", kJsonAnswer)));
  EXPECT_EQ(clock.Waits().size(), 2U);
}

TEST_F(WatchFrameTest, AListThatCannotBeReadMakesTheWatchJsonToo) {
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA}, kNewer)));
  server.Push(Answer::Json(PodListJson("9", {kA})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("L", kProtobufObject), Pair("L", kJsonAnswer),
                                   Pair("W 9", kJsonAnswer)));
}

TEST_F(WatchFrameTest, ALineThatBreaksIsNoReasonToGiveItUp) {
  StoredAt("10");
  const std::string frame = EventFrame("ADDED", {.name = "a", .version = "11"});
  server.Push(Answer::ProtobufWatch({frame.substr(0, 20)}).ThenBreak());
  server.Push(Answer::ProtobufWatch({frame.substr(0, 20)}));  // a clean end, but not of an event
  server.Push(Answer::ProtobufWatch({frame.substr(0, 3)}));
  server.Push(Answer::ProtobufWatch({frame.substr(0, 20)}).ThenHang());
  server.Push(Answer::ProtobufWatch({frame}));
  Run();
  for (const auto& [what, accept] : Asked()) {
    EXPECT_EQ(what, "W 10");
    EXPECT_EQ(accept, kProtobuf);
  }
  EXPECT_EQ(Restarts("Unavailable"), 3U);
  EXPECT_EQ(Restarts("silent"), 1U);
  EXPECT_THAT(target.calls, ElementsAre("Start", "ADDED x/a@11"));
  EXPECT_THAT(reflector->Status().last_error->message, HasSubstr("in the middle of an event"));
}

TEST_F(WatchFrameTest, RelistsWhenItSendsGone) {
  StoredAt("10");
  server.Push(Answer::ProtobufWatch(
      {EventFrame("ADDED", {.name = "a", .version = "12"}), ErrorFrame(410, "Expired")}));
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {{.name = "a", .version = "12"}})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 12", "W 20"));
  EXPECT_THAT(clock.Waits(), IsEmpty());
  EXPECT_EQ(reflector->Status().events[4], 1U);
}

TEST_F(WatchFrameTest, AWholeCollectionAsInitialEvents) {
  options.first_sync = FirstSync::kWatchList;
  server.Push(Answer::ProtobufWatch({EventFrame("ADDED", kA), EventFrame("ADDED", kB),
                                     BookmarkFrame("9", true),
                                     EventFrame("DELETED", {.name = "b", .version = "10"})})
                  .InBitsOf(11));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("WL", kProtobuf), Pair("W 10", kProtobuf)));
  EXPECT_THAT(target.calls, ElementsAre("Start", "Begin first", "Item x/a@5", "Item x/b@7", "End 9",
                                        "DELETED x/b@10"));
}

TEST_F(WatchFrameTest, InitialEventsThatCannotBeReadAreListedAsJson) {
  options.first_sync = FirstSync::kWatchList;
  server.Push(Answer::ProtobufWatch({EventFrame("ADDED", kA, kNewer), BookmarkFrame("9", true)}));
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA}, kNewer)));
  server.Push(Answer::Json(PodListJson("9", {kA})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("WL", kProtobuf), Pair("L", kProtobufObject),
                                   Pair("L", kJsonAnswer), Pair("W 9", kJsonAnswer)));
}

// One object that differs, after a version expired.
class FetchTest : public WatchFrameTest {
 protected:
  FetchTest() {
    StoredAt("10");
    server.Push(Answer::Status(410, "Expired"));
    server.Push(Answer::Protobuf(MetadataListProtobuf("20", {kA})));
  }
};

TEST_F(FetchTest, AsProtobuf) {
  server.Push(Answer::Protobuf(PodProtobuf(kA)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kProtobuf), Pair("G x/a 20", kProtobufObject),
                                   Pair("W 20", kProtobuf)));
  ASSERT_EQ(target.items.size(), 1U);
  EXPECT_EQ(target.items[0]->json(),
            R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"x",)"
            R"("uid":"uid-a","resourceVersion":"5"},"spec":{"containers":null},"status":{}})");
}

TEST_F(FetchTest, BySelectorAsProtobuf) {
  options.label_selector = "app";
  server.Push(Answer::Protobuf(PodListProtobuf("20", {kA})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kProtobuf), Pair("F x/a 20", kProtobufObject),
                                   Pair("W 20", kProtobuf)));
  EXPECT_THAT(target.calls, ElementsAre("Start", "Begin gone", "Item x/a@5", "End 20"));
}

class UnreadableFetchTest : public FetchTest, public testing::WithParamInterface<std::string> {};

TEST_P(UnreadableFetchTest, IsFetchedAgainAsJson) {
  server.Push(Answer::Protobuf(GetParam()));
  server.Push(Answer::Json(PodJson(kA)));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kProtobuf), Pair("G x/a 20", kProtobufObject),
                                   Pair("G x/a 20", kJsonAnswer), Pair("W 20", kJsonAnswer)));
  EXPECT_THAT(target.calls, ElementsAre("Start", "Begin gone", "Item x/a@5", "End 20"));
}

INSTANTIATE_TEST_SUITE_P(Protobuf, UnreadableFetchTest,
                         testing::Values(PodProtobuf(kA, kNewer), PodProtobuf(kB),
                                         UnknownProtobuf("v1", "Node", ""), std::string("k8s"),
                                         PodListProtobuf("9", {kA})));

TEST_F(FetchTest, AListOfAnotherKindIsFetchedAgainAsJson) {
  options.label_selector = "app";
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {})));
  server.Push(Answer::Json(PodListJson("20", {kA})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kProtobuf), Pair("F x/a 20", kProtobufObject),
                                   Pair("F x/a 20", kJsonAnswer), Pair("W 20", kJsonAnswer)));
}

TEST_F(FetchTest, APageOfAProxyIsNoReasonToGiveItUp) {
  server.Push(Answer::Json("<html>").WithHeader("content-type", "text/html"));
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {kA})));
  server.Push(Answer::Protobuf(PodProtobuf(kA)));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kProtobuf), Pair("G x/a 20", kProtobufObject),
                                   Pair("G x/a 20", kProtobufObject)));
}

// A good event, then this frame, then a good event that must not be taken. What a server sends that
// makes no sense as protobuf is asked for as JSON, once.
class HostileFrameTest : public WatchFrameTest,
                         public testing::WithParamInterface<std::pair<const char*, std::string>> {};

TEST_P(HostileFrameTest, LeavesTheCursorBehindIt) {
  StoredAt("10");
  options.max_event_bytes = 4096;
  server.Push(
      Answer::ProtobufWatch({EventFrame("ADDED", {.name = "a", .version = "11"}), GetParam().second,
                             EventFrame("ADDED", {.name = "b", .version = "13"})}));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Asked(), ElementsAre(Pair("W 10", kProtobuf), Pair("W 11", kJsonAnswer)));
  EXPECT_THAT(target.calls, ElementsAre("Start", "ADDED x/a@11"));
  EXPECT_EQ(Restarts("Protocol"), 1U);
}

// managedFields[0].fieldsV1
std::string WithRawJson(std::string_view json) {
  const std::string raw = ProtobufField(7, ProtobufField(1, json));
  const std::string meta = ProtobufField(1, "a") + ProtobufField(3, "x") + ProtobufField(6, "12") +
                           ProtobufField(17, raw);
  return Frame("ADDED", UnknownProtobuf("v1", "Pod", ProtobufField(1, meta)));
}

std::string WithoutMagic(const TestPod& pod) { return Frame("ADDED", PodProtobuf(pod).substr(4)); }

const TestPod kAt12{.name = "a", .version = "12"};
// The message of an object that would do, if it were of the right kind.
const std::string kMessage =
    ProtobufField(1, ProtobufField(1, "a") + ProtobufField(3, "x") + ProtobufField(6, "12"));

INSTANTIATE_TEST_SUITE_P(
    Frames, HostileFrameTest,
    testing::Values(
        std::pair{"Empty", WithLength("")},
        std::pair{"FourGigabytes", std::string("\xff\xff\xff\xff", 4)},
        std::pair{"NotProtobuf", WithLength("<html><body>proxy error</body></html>")},
        std::pair{"AFieldThatOverruns", WithLength("\x0a\x7f"
                                                   "ADDED")},
        std::pair{"AnObjectThatOverruns", WithLength("\x0a\x05"
                                                     "ADDED\x12\x02\x0a\x7f")},
        std::pair{"UnknownType", EventFrame("RENAMED", kAt12)},
        std::pair{"NoType", WithLength(ProtobufField(2, ProtobufField(1, PodProtobuf(kAt12))))},
        std::pair{"ANumberForAType",
                  WithLength(ProtobufField(1, uint64_t{5}) +
                             ProtobufField(2, ProtobufField(1, PodProtobuf(kAt12))))},
        std::pair{"NoObject", WithLength(ProtobufField(1, "ADDED"))},
        std::pair{"AnEmptyObject", Frame("ADDED", "")},
        std::pair{"WrongMagic", Frame("ADDED", "k8t" + PodProtobuf(kAt12).substr(3))},
        std::pair{"NoMagic", WithoutMagic(kAt12)},
        std::pair{"OnlyMagic", Frame("ADDED", std::string("k8s\0", 4))},
        std::pair{
            "TheEventInMagic",
            WithLength(UnknownProtobuf("v1", "WatchEvent", EventFrame("ADDED", kAt12).substr(4)))},
        std::pair{"AnotherKind", Frame("ADDED", UnknownProtobuf("v1", "Node", kMessage))},
        std::pair{"AnotherVersion", Frame("ADDED", UnknownProtobuf("v2", "Pod", kMessage))},
        std::pair{"AStatusThatIsAdded", Frame("ADDED", UnknownProtobuf("v1", "Status", kMessage))},
        std::pair{"AnErrorThatIsAPod", EventFrame("ERROR", kAt12)},
        std::pair{"ASpecThatIsNone", EventFrame("ADDED", kAt12, ProtobufField(2, "\xff\xff"))},
        std::pair{"NoName", EventFrame("DELETED", {.name = "", .version = "12"})},
        std::pair{"ASlashInTheName", EventFrame("ADDED", {.name = "a/b", .version = "12"})},
        std::pair{"NoVersion", EventFrame("ADDED", {.name = "a", .version = ""})},
        std::pair{"AVersionThatIsNone", EventFrame("ADDED", {.name = "a", .version = "007"})},
        std::pair{"ABookmarkWithoutVersion", BookmarkFrame("")},
        std::pair{"DeepJson", WithRawJson(std::string(1500, '[') + std::string(1500, ']'))},
        std::pair{"JsonThatIsNone", WithRawJson("{")}),
    [](const auto& param) { return param.param.first; });

TEST(WatchFrame, InvalidUtf8IsWhatGoMakesOfIt) {
  WatchFrameParser parser(*WireSchema::BuiltIn().Find(kPod), kPod, {100});
  const std::string frame = EventFrame("ADDED", {.name = "a", .version = "5", .uid = "\xff\xc3("});
  const auto event = parser.Parse(std::string_view(frame).substr(4));
  ASSERT_TRUE(event) << event.error().ToString();
  EXPECT_THAT(std::string(event->object), HasSubstr(R"("uid":"\ufffd\ufffd(")"));
}

TEST(WatchFrame, WhatElseAnEventHoldsIsSkipped) {
  WatchFrameParser parser(*WireSchema::BuiltIn().Find(kPod), kPod, {100});
  const std::string frame = EventFrame("MODIFIED", kA).substr(4) + ProtobufField(3, "more");
  const auto event = parser.Parse(frame);
  ASSERT_TRUE(event) << event.error().ToString();
  EXPECT_EQ(event->type, WatchEvent::Type::kModified);
  EXPECT_TRUE(event->wire.has_value());
}

// Of a Status that no server sends: its document would be many times as large.
TEST(ErrorFromStatus, OfAHugeOneOnlyCodeAndReasonAreRead) {
  const auto error = [](const std::string& last) {
    std::string lists = "[]";
    while (lists.size() < size_t{2} << 20) lists += ",[]";
    return ErrorFromStatus(
        fmt::format(R"({{"message":"m","kind":"Status","x":[{}],{}}})", lists, last));
  };
  const Error gone = error(R"("reason":"Expired","code":410)");
  EXPECT_EQ(gone.code, ErrorCode::kGone);
  EXPECT_THAT(gone.message, HasSubstr("a Status of 2097"));
  EXPECT_LT(gone.status_json.size(), 1000U);
  EXPECT_EQ(error(R"("reason":7,"code":"x")").code, ErrorCode::kUnavailable);
  EXPECT_EQ(error("nothing").code, ErrorCode::kProtocol);
}

// The same error, whichever way it came.
struct ErrorCase {
  const char* name;
  std::string frame;
  std::string line;
  ErrorCode code;
};

class ErrorFrameTest : public testing::TestWithParam<ErrorCase> {};

TEST_P(ErrorFrameTest, IsTheErrorOfTheLine) {
  WatchFrameParser frames(*WireSchema::BuiltIn().Find(kPod), kPod, {100});
  WatchLineParser lines(100);
  const auto framed = frames.Parse(std::string_view(GetParam().frame).substr(4));
  const auto line = lines.Parse(GetParam().line);
  ASSERT_TRUE(framed) << framed.error().ToString();
  ASSERT_TRUE(line) << line.error().ToString();
  ASSERT_EQ(framed->type, WatchEvent::Type::kError);
  const Error ours = ErrorFromStatus(framed->object);
  const Error theirs = ErrorFromStatus(line->object);
  EXPECT_EQ(ours.code, GetParam().code);
  EXPECT_EQ(ours.code, theirs.code);
  EXPECT_EQ(ours.message, theirs.message);
  EXPECT_EQ(ours.retry_after, theirs.retry_after);
  EXPECT_EQ(ours.status_json, theirs.status_json);
}

std::string StatusLine(std::string_view reason, std::string_view details, int code) {
  return fmt::format(
      R"({{"type":"ERROR","object":{{"kind":"Status","apiVersion":"v1","metadata":{{}},)"
      R"("status":"Failure","message":"too old resource version","reason":"{}",{}"code":{}}}}})",
      reason, details, code);
}

const std::string kTooLargeCause =
    ProtobufField(4, ProtobufField(1, "ResourceVersionTooLarge") +
                         ProtobufField(2, "Too large resource version"));

INSTANTIATE_TEST_SUITE_P(
    Errors, ErrorFrameTest,
    testing::Values(
        ErrorCase{"Expired", ErrorFrame(410, "Expired"), StatusLine("Expired", "", 410),
                  ErrorCode::kGone},
        ErrorCase{"TooLarge",
                  ErrorFrame(504, "Timeout", kTooLargeCause + ProtobufField(5, uint64_t{1})),
                  StatusLine("Timeout",
                             R"("details":{"causes":[{"reason":"ResourceVersionTooLarge",)"
                             R"("message":"Too large resource version"}],"retryAfterSeconds":1},)",
                             504),
                  ErrorCode::kVersionTooLarge},
        ErrorCase{"TooManyRequests",
                  ErrorFrame(429, "TooManyRequests", ProtobufField(5, uint64_t{17})),
                  StatusLine("TooManyRequests", R"("details":{"retryAfterSeconds":17},)", 429),
                  ErrorCode::kTooManyRequests},
        ErrorCase{"Internal", ErrorFrame(500, "InternalError"),
                  StatusLine("InternalError", "", 500), ErrorCode::kUnavailable}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace larder
