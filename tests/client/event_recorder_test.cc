#include "client/event_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/client/fake_transport.h"

namespace larder {
namespace {

using ::larder::testing::FakeTransport;
using namespace std::chrono_literals;

ObjectPtr Pod(const std::string& name) {
  return *Object::Parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"x","name":")" +
                        name + R"(","uid":"u-)" + name + R"(","resourceVersion":"7"}})");
}

Result<Response> Echo(const Request& request) {
  Json object = Json::parse(request.body);
  object["metadata"]["name"] = "e";
  return FakeTransport::Json200(object.dump());
}

EventRecorder::Options Named() {
  EventRecorder::Options options;
  options.component = "tester";
  options.instance = "host-1";
  return options;
}

Clock::Steady Soon() { return RealClock()->Now() + 10s; }

TEST(EventRecorder, WritesCoreEvents) {
  FakeTransport transport(&Echo);
  EventRecorder recorder(transport, Named());
  recorder.Event(*Pod("a"), EventLevel::kWarning, "Failed", "no room");
  ASSERT_TRUE(recorder.Flush(Soon()));
  ASSERT_EQ(transport.requests().size(), 1u);
  const Request request = transport.requests()[0];
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/api/v1/namespaces/x/events");
  const Json event = Json::parse(request.body);
  EXPECT_EQ(event["kind"], "Event");
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["reason"], "Failed");
  EXPECT_EQ(event["message"], "no room");
  EXPECT_EQ(event["count"], 1);
  EXPECT_EQ(event["involvedObject"]["uid"], "u-a");
  EXPECT_EQ(event["involvedObject"]["kind"], "Pod");
  EXPECT_EQ(event["source"]["component"], "tester");
  EXPECT_EQ(event["reportingInstance"], "host-1");
  EXPECT_EQ(recorder.written(), 1u);
}

TEST(EventRecorder, WritesTheNewerApiWhenAskedTo) {
  FakeTransport transport(&Echo);
  EventRecorder::Options options = Named();
  options.api = EventRecorder::Api::kEventsV1;
  EventRecorder recorder(transport, options);
  recorder.Event(*Pod("a"), EventLevel::kNormal, "Started", "it runs", "Starting");
  ASSERT_TRUE(recorder.Flush(Soon()));
  recorder.Event(*Pod("a"), EventLevel::kNormal, "Started", "it runs", "Starting");
  ASSERT_TRUE(recorder.Flush(Soon()));
  ASSERT_EQ(transport.requests().size(), 2u);
  EXPECT_EQ(transport.requests()[0].path, "/apis/events.k8s.io/v1/namespaces/x/events");
  const Json event = Json::parse(transport.requests()[0].body);
  EXPECT_EQ(event["regarding"]["name"], "a");
  EXPECT_EQ(event["note"], "it runs");
  EXPECT_EQ(event["action"], "Starting");
  EXPECT_FALSE(event.contains("series"));
  const Json patch = Json::parse(transport.requests()[1].body);
  EXPECT_EQ(patch["series"]["count"], 2);
}

TEST(EventRecorder, ARepeatRaisesTheCount) {
  FakeTransport transport(&Echo);
  EventRecorder recorder(transport, Named());
  for (int i = 0; i < 3; ++i) {
    recorder.Event(*Pod("a"), EventLevel::kNormal, "R", "m");
    ASSERT_TRUE(recorder.Flush(Soon()));
  }
  const auto requests = transport.requests();
  ASSERT_EQ(requests.size(), 3u);
  const std::string name = Json::parse(requests[0].body)["metadata"]["name"];
  EXPECT_EQ(requests[2].method, "PATCH");
  EXPECT_EQ(requests[2].path, "/api/v1/namespaces/x/events/" + name);
  EXPECT_EQ(Json::parse(requests[2].body)["count"], 3);
}

TEST(EventRecorder, RepeatsThatWaitAreOneWrite) {
  std::atomic<bool> go_on{false};
  FakeTransport transport([&](const Request& request) -> Result<Response> {
    while (!go_on) std::this_thread::yield();
    return Echo(request);
  });
  EventRecorder recorder(transport, Named());
  recorder.Event(*Pod("first"), EventLevel::kNormal, "R", "m");
  while (transport.requests().empty()) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) recorder.Event(*Pod("a"), EventLevel::kNormal, "R", "m");
  go_on = true;
  ASSERT_TRUE(recorder.Flush(Soon()));
  ASSERT_EQ(transport.requests().size(), 2u);
  EXPECT_EQ(Json::parse(transport.requests()[1].body)["count"], 100);
}

TEST(EventRecorder, AnEventThatTheServerForgotIsWrittenAnew) {
  FakeTransport transport([](const Request& request) -> Result<Response> {
    if (request.method == "PATCH") return MakeError(ErrorCode::kNotFound, "gone");
    return Echo(request);
  });
  EventRecorder recorder(transport, Named());
  for (int i = 0; i < 2; ++i) {
    recorder.Event(*Pod("a"), EventLevel::kNormal, "R", "m");
    ASSERT_TRUE(recorder.Flush(Soon()));
  }
  const auto requests = transport.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[2].method, "POST");
  EXPECT_EQ(Json::parse(requests[2].body)["count"], 1);
}

TEST(EventRecorder, ABlockedServerNeitherBlocksTheCallerNorGrowsTheQueue) {
  std::atomic<bool> go_on{false};
  FakeTransport transport([&](const Request& request) -> Result<Response> {
    while (!go_on) std::this_thread::yield();
    return Echo(request);
  });
  EventRecorder::Options options = Named();
  options.max_pending = 10;
  EventRecorder recorder(transport, options);
  for (int i = 0; i < 100; ++i) {
    recorder.Event(*Pod("p" + std::to_string(i)), EventLevel::kNormal, "R", "m");
  }
  EXPECT_GE(recorder.dropped(), 89u);
  EXPECT_FALSE(recorder.Flush(RealClock()->Now() + 20ms));
  go_on = true;
  EXPECT_TRUE(recorder.Flush(Soon()));
  EXPECT_EQ(recorder.written() + recorder.dropped(), 100u);
}

TEST(EventRecorder, ARefusedEventIsDroppedAndARetryableOneIsNot) {
  FakeClock clock;
  std::atomic<int> attempts{0};
  FakeTransport transport([&](const Request& request) -> Result<Response> {
    if (request.path.find("/refused/") != std::string::npos) {
      return MakeError(ErrorCode::kForbidden, "no");
    }
    if (++attempts < 3) return MakeError(ErrorCode::kUnavailable, "later");
    return Echo(request);
  });
  EventRecorder::Options options = Named();
  options.clock = &clock;
  EventRecorder recorder(transport, options);
  recorder.Event(**Object::Parse(R"({"kind":"Pod","metadata":{"namespace":"refused","name":"a"}})"),
                 EventLevel::kNormal, "R", "m");
  recorder.Event(*Pod("a"), EventLevel::kNormal, "R", "m");
  while (recorder.written() == 0) {
    clock.Advance(1s);
    std::this_thread::yield();
  }
  EXPECT_EQ(recorder.dropped(), 1u);
  EXPECT_EQ(attempts, 3);
}

TEST(EventRecorder, AnAbsurdRetryAfterHoldsEventsUpForAMinuteAtMost) {
  FakeClock clock;
  std::atomic<int> attempts{0};
  FakeTransport transport([&](const Request& request) -> Result<Response> {
    if (++attempts > 1) return Echo(request);
    return tl::unexpected(Error{ErrorCode::kTooManyRequests, "not now", 10min, {}});
  });
  EventRecorder::Options options = Named();
  options.clock = &clock;
  EventRecorder recorder(transport, options);
  recorder.Event(*Pod("a"), EventLevel::kNormal, "R", "m");
  while (attempts == 0 || clock.Waiters() == 0) std::this_thread::yield();
  clock.Advance(1min);
  const Clock::Steady give_up = Soon();
  while (attempts == 1 && RealClock()->Now() < give_up) std::this_thread::yield();
  EXPECT_EQ(attempts, 2);
}

// A create whose answer was lost may have been done.
TEST(EventRecorder, ARetryHasTheSameNameAndOneThatIsThereIsDone) {
  FakeClock clock;
  std::set<std::string> there;
  FakeTransport transport([&](const Request& request) -> Result<Response> {
    if (request.method == "PATCH") return Echo(request);
    const std::string name = Json::parse(request.body)["metadata"]["name"];
    if (!there.insert(name).second) return MakeError(ErrorCode::kAlreadyExists, "there is one");
    return MakeError(ErrorCode::kUnavailable, "the answer was lost");
  });
  EventRecorder::Options options = Named();
  options.clock = &clock;
  EventRecorder recorder(transport, options);
  for (const uint64_t events : {1u, 2u}) {
    recorder.Event(*Pod("a"), EventLevel::kNormal, "R", "m");
    while (recorder.written() + recorder.dropped() < events) {
      clock.Advance(1s);
      std::this_thread::yield();
    }
    EXPECT_EQ(recorder.written(), events);
  }
  EXPECT_EQ(there.size(), 1u);
  const auto requests = transport.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[2].method, "PATCH");
  EXPECT_EQ(requests[2].path, "/api/v1/namespaces/x/events/" + *there.begin());
  EXPECT_EQ(Json::parse(requests[2].body)["count"], 2);
}

// A name that is somebody else's is not ours to count on.
TEST(EventRecorder, ANewEventWhoseNameIsTakenIsNotWritten) {
  FakeTransport transport([](const Request&) -> Result<Response> {
    return MakeError(ErrorCode::kAlreadyExists, "there is one");
  });
  EventRecorder recorder(transport, Named());
  recorder.Event(*Pod("a"), EventLevel::kNormal, "R", "m");
  ASSERT_TRUE(recorder.Flush(Soon()));
  EXPECT_EQ(recorder.written(), 0u);
  EXPECT_EQ(recorder.dropped(), 1u);
}

TEST(EventRecorder, ANoisyObjectIsLimitedAndOthersAreNot) {
  FakeTransport transport(&Echo);
  FakeClock clock;
  EventRecorder::Options options = Named();
  options.clock = &clock;
  EventRecorder recorder(transport, options);
  for (int i = 0; i < 60; ++i) {
    recorder.Event(*Pod("noisy"), EventLevel::kNormal, "R", "m" + std::to_string(i));
  }
  recorder.Event(*Pod("quiet"), EventLevel::kNormal, "R", "m");
  while (recorder.written() + recorder.dropped() < 61) std::this_thread::yield();
  EXPECT_EQ(recorder.written(), 26u);
  EXPECT_EQ(recorder.dropped(), 35u);
}

TEST(EventRecorder, NamesOfEventsAreDistinctAndValid) {
  FakeTransport transport(&Echo);
  FakeClock clock;  // stands still
  EventRecorder::Options options = Named();
  options.clock = &clock;
  EventRecorder recorder(transport, options);
  const std::string odd = "System:Node-" + std::string(300, 'x');
  for (const char* message : {"m1", "m2"}) {
    recorder.Event(*Pod(odd), EventLevel::kNormal, "R", message);
  }
  while (recorder.written() < 2) std::this_thread::yield();
  std::set<std::string> names;
  for (const Request& request : transport.requests()) {
    const std::string name = Json::parse(request.body)["metadata"]["name"];
    EXPECT_THAT(name, ::testing::MatchesRegex("system-node-x+\\.[0-9a-f]+"));
    EXPECT_LE(name.size(), 253u);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 2u);
}

TEST(EventRecorder, ClusterScopedObjectsHaveTheirEventsInDefault) {
  FakeTransport transport(&Echo);
  EventRecorder recorder(transport, Named());
  recorder.Event(**Object::Parse(R"({"kind":"Node","metadata":{"name":"n"}})"), EventLevel::kNormal,
                 "R", std::string(5000, 'm'));
  ASSERT_TRUE(recorder.Flush(Soon()));
  EXPECT_EQ(transport.requests()[0].path, "/api/v1/namespaces/default/events");
  EXPECT_EQ(Json::parse(transport.requests()[0].body)["message"].get<std::string>().size(), 1024u);
}

}  // namespace
}  // namespace larder
