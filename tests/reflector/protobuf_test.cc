// Lists of whole objects in protobuf: what the target gets is JSON, and a server whose protobuf
// cannot be read is asked for JSON.
#include <gmock/gmock.h>

#include "tests/reflector/reflector_harness.h"

namespace larder {
namespace {

using testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Not;

using ProtobufTest = ReflectorTest;

constexpr const char* kAny = "application/vnd.kubernetes.protobuf,application/json";
constexpr const char* kJson = "application/json";

std::vector<std::string> Accepts(const ScriptedTransport& server) {
  std::vector<std::string> accepts;
  for (const Request& request : server.FullRequests()) {
    if (QueryValue(request, "watch").empty()) accepts.push_back(request.accept);
  }
  return accepts;
}

TEST_F(ProtobufTest, TheTargetGetsTheJsonThatTheServerWouldHaveSent) {
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA, kB})).InBitsOf(7));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Accepts(server), ElementsAre(kAny));
  EXPECT_THAT(target.calls,
              ElementsAre("Start", "Begin first", "Item x/a@5", "Item x/b@7", "End 9"));
  ASSERT_EQ(target.items.size(), 2U);
  EXPECT_EQ(target.items[0]->json(),
            R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"x",)"
            R"("uid":"uid-a","resourceVersion":"5"},"spec":{"containers":null},"status":{}})");
}

TEST_F(ProtobufTest, WhatATransformCutsOutIsNotEvenMade) {
  options.transform = DropPaths({"spec.containers", "status"}).value();
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA})));
  server.Push(Answer::Watch({}));
  Run();
  ASSERT_EQ(target.items.size(), 1U);
  EXPECT_EQ(target.items[0]->json(),
            R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"x",)"
            R"("uid":"uid-a","resourceVersion":"5"},"spec":{}})");
  EXPECT_TRUE(target.items[0]->projected());
}

TEST_F(ProtobufTest, WhatComesAsJsonIsLeftToTheTargetToCut) {
  options.transform = StripManagedFields();
  server.Push(Answer::Json(PodListJson("9", {kA})));
  server.Push(Answer::Watch({}));
  Run();
  ASSERT_EQ(target.items.size(), 1U);
  EXPECT_FALSE(target.items[0]->projected());
}

TEST_F(ProtobufTest, PagesToo) {
  options.first_sync = FirstSync::kPagedList;
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA}, {}, "more")));
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kB})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Accepts(server), ElementsAre(kAny, kAny));
  EXPECT_THAT(target.calls,
              ElementsAre("Start", "Begin first", "Item x/a@5", "Item x/b@7", "End 9"));
}

TEST_F(ProtobufTest, AFieldThatIsNotKnownIsNeverDropped) {
  const std::string newer = ProtobufField(99, "of a later release");
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA}, newer)));
  server.Push(Answer::Json(PodListJson("10", {kA, kB})));
  server.Push(Answer::Watch({ErrorLine(410, "Expired")}));
  server.Push(Answer::Json(MetadataListJson("20", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Accepts(server), ElementsAre(kAny, kJson, HasSubstr("as=Partial")));
  EXPECT_THAT(target.calls, testing::IsSupersetOf({"Begin first", "Item x/b@7", "End 10"}));
  EXPECT_THAT(target.calls, Not(testing::Contains("End 9")));
}

class UnreadableTest : public ReflectorTest, public testing::WithParamInterface<std::string> {};

TEST_P(UnreadableTest, IsAskedForAgainAsJson) {
  server.Push(Answer::Protobuf(GetParam()));
  server.Push(Answer::Json(PodListJson("10", {kA})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Accepts(server), ElementsAre(kAny, kJson));
  EXPECT_EQ(target.calls.back(), "End 10");
}

INSTANTIATE_TEST_SUITE_P(
    Protobuf, UnreadableTest,
    testing::Values(PodListProtobuf("9", {kA}, ProtobufField(2, "\xff\xff")),  // not a spec
                    MetadataListProtobuf("9", {kA}),  // not what was asked for
                    PodListProtobuf("9", {kA}).substr(0, 40)));

TEST_F(ProtobufTest, ALineThatBreaksIsNoReasonToGiveItUp) {
  const std::string list = PodListProtobuf("9", {kA, kB});
  server.Push(Answer::Protobuf(list.substr(0, list.size() - 20)).ThenBreak());
  server.Push(Answer::Protobuf(list));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Accepts(server), ElementsAre(kAny, kAny));
  EXPECT_EQ(target.calls.back(), "End 9");
}

// Its JSON is no smaller.
TEST_F(ProtobufTest, AnItemThatIsTooLargeIsNoReasonToGiveItUp) {
  options.max_event_bytes = 1000;
  const std::string large = ProtobufField(99, std::string(2000, 'x'));
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA}, large)));
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA, kB})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Accepts(server), ElementsAre(kAny, kAny));
  EXPECT_EQ(target.calls.back(), "End 9");
}

TEST_F(ProtobufTest, AnEventThatIsTooLargeIsNoReasonToGiveItUp) {
  StoredAt("10");
  options.max_event_bytes = 1000;
  const std::string large = ProtobufField(99, std::string(2000, 'x'));
  server.Push(Answer::ProtobufWatch({EventFrame("ADDED", {.name = "a", .version = "11"}, large)})
                  .WithHeader("content-type", "application/vnd.kubernetes.protobuf;stream=watch"));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10"));
  EXPECT_THAT(server.FullRequests().back().accept, HasSubstr("protobuf"));
  EXPECT_EQ(reflector->Status().last_error->code, ErrorCode::kProtocol);
}

// Hundreds of empty messages, two bytes each, that print all of their fields.
std::string LargeOnlyAsJson() {
  std::string statuses;
  for (int i = 0; i < 400; ++i) statuses += ProtobufField(8, "");
  return ProtobufField(3, statuses);
}

TEST_F(ProtobufTest, AnItemThatIsTooLargeAsJsonIsNamedAndNoReasonToGiveItUp) {
  options.max_event_bytes = 1000;
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA}, LargeOnlyAsJson())));
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA, kB})));
  server.Push(Answer::Watch({}));
  std::vector<std::string> errors;
  options.on_error = [&](const Error& error) { errors.push_back(error.ToString()); };
  Run();
  EXPECT_THAT(Accepts(server), ElementsAre(kAny, kAny));
  EXPECT_EQ(target.calls.back(), "End 9");
  EXPECT_THAT(errors, ElementsAre("Protocol: Pod x/a is larger than 16000 bytes as JSON"));
}

TEST_F(ProtobufTest, AnEventThatIsTooLargeAsJsonIsNamedAndNoReasonToGiveItUp) {
  StoredAt("10");
  options.max_event_bytes = 1000;
  const TestPod pod{.name = "a", .version = "11"};
  server.Push(Answer::ProtobufWatch({EventFrame("ADDED", pod, LargeOnlyAsJson())}));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10"));
  EXPECT_THAT(server.FullRequests().back().accept, HasSubstr("protobuf"));
  EXPECT_EQ(reflector->Status().last_error->message, "Pod x/a is larger than 16000 bytes as JSON");
}

TEST_F(ProtobufTest, AnErrorOfTheTargetIsNoReasonToGiveItUp) {
  target.fail_at = "Item x/a@5";
  target.fail_with = ErrorCode::kUnsupported;
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA})));
  server.Push(Answer::Protobuf(PodListProtobuf("9", {kA})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Accepts(server), ElementsAre(kAny, kAny));
  EXPECT_EQ(target.Count("Start"), 2U);
  EXPECT_EQ(target.calls.back(), "End 9");
}

TEST_F(ProtobufTest, OnlyWhereItIsWanted) {
  options.protobuf = false;
  server.Push(Answer::Json(PodListJson("9", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Accepts(server), ElementsAre(kJson));
}

TEST_F(ProtobufTest, OnlyOfBuiltInKinds) {
  options.resource = {"example.com", "v1", "widgets", "Widget", true};
  server.Push(Answer::Json(PodListJson("9", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Accepts(server), ElementsAre(kJson));
}

}  // namespace
}  // namespace larder
