// The first list: in one answer, in pages, as a stream, and from one to the other.
#include <gmock/gmock.h>

#include "tests/reflector/reflector_harness.h"

namespace larder {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using FirstSyncTest = ReflectorTest;

TEST_F(FirstSyncTest, ListsThenWatchesFromTheListsVersion) {
  server.Push(Answer::Json(PodListJson("9", {kA, kB})).InBitsOf(7));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("L", "W 9"));
  EXPECT_THAT(target.calls,
              ElementsAre("Start", "Begin first", "Item x/a@5", "Item x/b@7", "End 9"));
  const ReflectorStatus status = reflector->Status();
  EXPECT_EQ(status.lists, 1U);
  EXPECT_EQ(status.relists, 0U);
  EXPECT_EQ(status.objects, 2U);
  EXPECT_EQ(status.resource_version, "9");
  EXPECT_GT(status.body_bytes, 100U);
}

TEST_F(FirstSyncTest, AsksForGzipOnListsAndNotOnWatches) {
  server.Push(Answer::Json(PodListJson("9", {})));
  server.Push(Answer::Watch({}));
  Run();
  const std::vector<Request> requests = server.FullRequests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_TRUE(requests[0].accept_gzip);
  EXPECT_FALSE(requests[1].accept_gzip);
  EXPECT_EQ(QueryValue(requests[1], "allowWatchBookmarks"), "true");
  const int timeout = std::stoi(QueryValue(requests[1], "timeoutSeconds"));
  EXPECT_GE(timeout, 300);
  EXPECT_LE(timeout, 600);
  EXPECT_EQ(QueryValue(requests[1], "resourceVersionMatch"), "");
}

TEST_F(FirstSyncTest, SendsNamespaceAndSelectors) {
  options.ns = "x";
  options.label_selector = "app=web";
  options.field_selector = "status.phase=Running";
  server.Push(Answer::Json(PodListJson("9", {})));
  server.Push(Answer::Watch({}));
  Run();
  for (const Request& request : server.FullRequests()) {
    EXPECT_EQ(request.path, "/api/v1/namespaces/x/pods");
    EXPECT_EQ(QueryValue(request, "labelSelector"), "app=web");
    EXPECT_EQ(QueryValue(request, "fieldSelector"), "status.phase=Running");
  }
}

TEST_F(FirstSyncTest, ReadsFromTheServersCacheWhenToldSo) {
  options.first_list_from_cache = true;
  server.Push(Answer::Json(PodListJson("9", {})));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("L 0"));
}

TEST_F(FirstSyncTest, TakesTheVersionFromBehindTheItems) {
  server.Push(
      Answer::Json(R"({"items":[)" + PodJson(kA) + R"(],"metadata":{"resourceVersion":"9"}})"));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("L", "W 9"));
}

TEST_F(FirstSyncTest, ReadsPages) {
  options.first_sync = FirstSync::kPagedList;
  options.page_size = 1;
  options.page_size = 2;
  server.Push(Answer::Json(PodListJson("9", {kA}, "next")));
  server.Push(Answer::Json(PodListJson("9", {kB})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("P", "P next", "W 9"));
  EXPECT_THAT(target.calls,
              ElementsAre("Start", "Begin first", "Item x/a@5", "Item x/b@7", "End 9"));
  // A continue token stands alone.
  EXPECT_EQ(QueryValue(server.FullRequests()[1], "resourceVersion"), "");
  EXPECT_EQ(QueryValue(server.FullRequests()[1], "resourceVersionMatch"), "");
}

// A proxy or an aggregated server may cut a list into pages that nobody asked for.
TEST_F(FirstSyncTest, ReadsPagesWhereTheServerPagesByItself) {
  const Answer in_json = Answer::Json(PodListJson("9", {kA}, "next"));
  const Answer in_protobuf = Answer::Protobuf(PodListProtobuf("9", {kA}, {}, "next"));
  for (const Answer& first_page : {in_json, in_protobuf}) {
    InstantClock instant;
    std::stop_source source;
    ScriptedTransport transport(&instant, &source);
    RecordingTarget recording;
    ReflectorOptions whole = options;
    whole.clock = &instant;
    transport.Push(first_page);
    transport.Push(first_page);
    transport.Push(Answer::Json(PodListJson("9", {kB})));
    transport.Push(Answer::Watch({}));
    auto made = Reflector::Create(whole, &transport, &recording);
    ASSERT_TRUE(made);
    (*made)->Run(source.get_token());
    EXPECT_THAT(transport.Requests(), ElementsAre("L", "P", "P next", "W 9"));
    EXPECT_THAT(recording.calls, ElementsAre("Start", "Begin first", "Item x/a@5", "Begin first",
                                             "Item x/a@5", "Item x/b@7", "End 9"));
    EXPECT_THAT(instant.Waits(), IsEmpty());
    EXPECT_THAT(transport.FullRequests()[1].accept, HasSubstr("protobuf"));
  }
}

TEST_F(FirstSyncTest, StartsTheListAgainWhenAPageTokenExpires) {
  options.first_sync = FirstSync::kPagedList;
  server.Push(Answer::Json(PodListJson("9", {kA}, "old")));
  Answer gone = Answer::Status(410, "Expired");
  gone.pieces[0] =
      R"({"kind":"Status","metadata":{"continue":"inconsistent"},"status":"Failure","reason":"Expired","code":410})";
  server.Push(gone);
  server.Push(Answer::Json(PodListJson("20", {kB})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("P", "P old", "P", "W 20"));
  EXPECT_THAT(target.calls, ElementsAre("Start", "Begin first", "Item x/a@5", "Begin first",
                                        "Item x/b@7", "End 20"));
  EXPECT_EQ(target.objects.size(), 1U);
}

TEST_F(FirstSyncTest, StreamsTheListAndKeepsTheStream) {
  options.first_sync = FirstSync::kWatchList;
  server.Push(
      Answer::Watch({EventLine("ADDED", kB), EventLine("ADDED", kA), BookmarkLine("9", true),
                     EventLine("DELETED", {.name = "a", .version = "10"})}));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("WL", "W 10"));
  // Synthetic events are not in order and move no cursor: they are items until the bookmark.
  EXPECT_THAT(target.calls, ElementsAre("Start", "Begin first", "Item x/b@7", "Item x/a@5", "End 9",
                                        "DELETED x/a@10"));
  const Request request = server.FullRequests()[0];
  EXPECT_EQ(QueryValue(request, "resourceVersionMatch"), "NotOlderThan");
  EXPECT_EQ(QueryValue(request, "sendInitialEvents"), "true");
}

TEST_F(FirstSyncTest, StreamsTheListFromTheServersCacheOnlyTheFirstTime) {
  options.first_sync = FirstSync::kWatchList;
  options.first_list_from_cache = true;
  server.Push(Answer::Watch({EventLine("ADDED", kA), BookmarkLine("9", true), BookmarkLine("8")}));
  server.Push(Answer::Json(PodListJson("7", {})));  // restored from a backup
  server.Push(Answer::Watch({BookmarkLine("7", true)}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("WL", "V", "WL"));
  EXPECT_EQ(QueryValue(server.FullRequests().front(), "resourceVersion"), "0");
  EXPECT_EQ(QueryValue(server.FullRequests().back(), "resourceVersion"), "");
}

TEST_F(FirstSyncTest, FallsBackToAListWhenStreamingIsRefused) {
  options.first_sync = FirstSync::kWatchList;
  server.Push(Answer::Status(422, "Invalid"));
  server.Push(Answer::Json(PodListJson("9", {kA})));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("WL", "L"));
  EXPECT_THAT(clock.Waits(), IsEmpty());
}

TEST_F(FirstSyncTest, FallsBackToAListWhenTheStreamFails) {
  for (const std::string& line : {ErrorLine(500, "InternalError"), BookmarkLine("9"),
                                  std::string("garbage"), EventLine("DELETED", kA)}) {
    SCOPED_TRACE(line);
    InstantClock instant;
    std::stop_source source;
    ScriptedTransport transport(&instant, &source);
    RecordingTarget recording;
    ReflectorOptions streaming = options;
    streaming.first_sync = FirstSync::kWatchList;
    streaming.clock = &instant;
    transport.Push(Answer::Watch({EventLine("ADDED", kB), line}));
    transport.Push(Answer::Json(PodListJson("9", {kA})));
    transport.Push(Answer::Watch({}));
    auto made = Reflector::Create(streaming, &transport, &recording);
    (*made)->Run(source.get_token());
    EXPECT_THAT(transport.Requests(), ElementsAre("WL", "L", "W 9"));
    EXPECT_EQ(recording.objects.size(), 1U);
    EXPECT_EQ(recording.Count("End"), 1U);
  }
}

TEST_F(FirstSyncTest, GoesOnToPagesAndStreamsWhenTheServerDeclines) {
  // Once for protobuf, once for JSON.
  for (int i = 0; i < 2; ++i) server.Push(Answer::Status(406, "NotAcceptable"));
  server.Push(Answer::Status(400, "BadRequest"));
  server.Push(Answer::Watch({EventLine("ADDED", kA), BookmarkLine("9", true)}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("L", "L", "P", "WL"));
  EXPECT_EQ(target.position.resource_version, "9");
}

TEST_F(FirstSyncTest, TriesPagesAfterAListBrokeOffTwice) {
  const std::string list = PodListJson("9", {kA, kB});
  server.Push(Answer::Json(list.substr(0, list.size() / 2)).ThenBreak());
  server.Push(Answer::Json(list.substr(0, list.size() / 2)).ThenHang());
  server.Push(Answer::Json(list));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("L", "L", "P", "W 9"));
  EXPECT_EQ(target.Count("Begin"), 3U);
  EXPECT_EQ(target.Count("End"), 1U);
}

TEST_F(FirstSyncTest, ListsTheSameWayAfterARefusedConnection) {
  for (int i = 0; i < 4; ++i) server.Push(Answer::Refused());
  server.Push(Answer::Json(PodListJson("9", {kA})));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("L", "L", "L", "L", "L"));
  EXPECT_EQ(target.Count("Begin"), 1U);
}

TEST_F(FirstSyncTest, ReportsRefusedRightsAndTriesAgain) {
  server.Push(Answer::Status(403, "Forbidden"));
  server.Push(Answer::Status(401, "Unauthorized"));
  std::vector<ErrorCode> reported;
  auto made = Reflector::Create(options, &server, &target);
  reflector = *std::move(made);
  target.on_call = [&](const std::string& call) {
    if (call.starts_with("Begin")) reported.push_back(reflector->Status().error->code);
  };
  server.Push(Answer::Json(PodListJson("9", {kA})));
  reflector->Run(stop.get_token());
  EXPECT_THAT(server.Requests(), ElementsAre("L", "L", "L"));
  EXPECT_THAT(reported, ElementsAre(ErrorCode::kUnauthorized));
  EXPECT_EQ(Restarts("Forbidden"), 1U);
  EXPECT_FALSE(reflector->Status().error.has_value());
  EXPECT_EQ(reflector->Status().last_error->code, ErrorCode::kUnauthorized);
}

TEST_F(FirstSyncTest, AsksForMetadataOnly) {
  options.metadata_only = true;
  server.Push(Answer::Json(MetadataListJson("9", {kA})));
  server.Push(Answer::Watch({}));
  Run();
  const std::vector<Request> requests = server.FullRequests();
  EXPECT_EQ(requests[0].accept, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
  EXPECT_EQ(requests[1].accept, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
  EXPECT_EQ(target.Count("Item"), 1U);
}

// Keeps the objects themselves.
class Keeper final : public Target {
 public:
  std::vector<ObjectPtr> objects;

  Result<Position> Start() override { return Position{}; }
  Result<void> BeginList(std::string_view) override { return {}; }
  Result<void> ListItem(ObjectPtr object) override {
    objects.push_back(std::move(object));
    return {};
  }
  Result<bool> ListItemUnchanged(const ObjectKey&, std::string_view, std::string_view) override {
    return false;
  }
  Result<void> EndList(std::string_view) override { return {}; }
  Result<void> Event(EventType, ObjectPtr object) override { return ListItem(std::move(object)); }
  Result<void> Bookmark(std::string_view) override { return {}; }
};

TEST_F(FirstSyncTest, GivesItemsTheTypeOfTheirList) {
  options.resource.kind.clear();
  Keeper keeper;
  server.Push(Answer::Json(PodListJson("9", {kA})));
  (*Reflector::Create(options, &server, &keeper))->Run(stop.get_token());
  ASSERT_EQ(keeper.objects.size(), 1U);
  EXPECT_EQ(keeper.objects[0]->kind(), "Pod");
  EXPECT_EQ(keeper.objects[0]->api_version(), "v1");
}

TEST_F(FirstSyncTest, GivesMetadataTheKindOfItsResource) {
  options.metadata_only = true;
  options.resource = {"apps", "v1", "deployments", "Deployment", true};
  Keeper keeper;
  server.Push(Answer::Json(MetadataListJson("9", {kA})));
  server.Push(Answer::Watch({MetadataEventLine("MODIFIED", {.name = "a", .version = "10"})}));
  (*Reflector::Create(options, &server, &keeper))->Run(stop.get_token());
  ASSERT_EQ(keeper.objects.size(), 2U);
  for (const ObjectPtr& object : keeper.objects) {
    EXPECT_EQ(object->kind(), "Deployment");
    EXPECT_EQ(object->api_version(), "apps/v1");
    EXPECT_EQ(object->key().ToString(), "x/a");
    EXPECT_EQ(object->json().find("PartialObjectMetadata"), std::string_view::npos);
  }
  EXPECT_EQ(keeper.objects[1]->resource_version(), "10");
}

}  // namespace
}  // namespace larder
