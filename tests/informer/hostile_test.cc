// A hostile API server against the whole path, socket to disk. Each thing it does: the failure is
// reported, the stored cursor stays, memory is bounded, Stop is prompt, and once the server behaves
// the next process is whole again. (Each part by itself: tests/client and tests/reflector.)
#include <fmt/format.h>

#include <fstream>

#include "tests/base/resident_memory.h"
#include "tests/client/gzip.h"
#include "tests/informer/fixture.h"
#include "tests/reflector/wire_text.h"

namespace larder {
namespace {

using apiserver::Fault;
using apiserver::FaultType;
using ::larder::testing::Gzip;
using ::larder::testing::kSanitizerSlack;
using ::larder::testing::ResidentBytes;
using namespace std::chrono_literals;

struct Hostility {
  const char* name;
  const char* verb;    // what is answered so; a list follows an expired history
  const char* reason;  // why the reflector began again
  Fault fault;
};

void PrintTo(const Hostility& hostility, std::ostream* out) { *out << hostility.name; }

Fault Line(std::string line) { return {.type = FaultType::kInject, .body = std::move(line)}; }
Fault Event(const std::string& type, const std::string& metadata, const std::string& more = "") {
  return Line(fmt::format(
      R"({{"type":"{}","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{{}}}{}}}}})", type,
      metadata, more));
}
Fault ErrorOfManyKeys() {
  std::string keys;
  for (int i = 0; i < 80'000; ++i) keys += fmt::format(R"(,"a{:05}":0)", i);
  return Line(R"({"type":"ERROR","object":{"kind":"Status")" + keys + "}}");
}
Fault Status(int code) { return {.type = FaultType::kError, .code = code}; }
Fault Body(std::string body, int64_t repeat = 1) {
  Fault fault{.type = FaultType::kBody, .code = 200, .content_type = "application/json"};
  fault.body = std::move(body);
  fault.repeat = repeat;
  return fault;
}
// The form that is asked for first, and that the simulated server does not speak by itself.
Fault Frames(std::string frames) {
  Fault fault = Body(std::move(frames));
  fault.content_type = "application/vnd.kubernetes.protobuf;stream=watch";
  return fault;
}
Fault GzipBomb() {
  Fault fault = Body(Gzip(std::string(16 << 20, ' ')), -1);
  fault.headers = {{"Content-Encoding", "gzip"}};
  return fault;
}
Fault LateRetry() {
  Fault fault = Status(429);
  fault.retry_after = 2'000'000'000;
  return fault;
}
Fault Redirect() {
  Fault fault = Body("");
  fault.code = 302;
  return fault;
}

const std::string kGood = R"("name":"a","namespace":"x","uid":"u","resourceVersion":"999999")";

std::vector<Hostility> All() {
  return {
      {"OneByteASecond", "watch", "Timeout", {.type = FaultType::kSlow, .bytes_per_second = 1}},
      {"StalledInMidLine", "watch", "silent", {.type = FaultType::kStall}},
      {"EndlessLine", "watch", "Protocol", Body(std::string(4096, 'x'), -1)},
      {"JsonCutOff", "watch", "Protocol", Line(R"({"type":"ADDED","object":{"metadata":)")},
      {"ConnectionCutInMidLine", "watch", "Unavailable", {.type = FaultType::kCut}},
      {"NestedDeep", "watch", "Protocol",
       Event("ADDED", kGood, ",\"s\":" + std::string(100'000, '[') + std::string(100'000, ']'))},
      {"InvalidUtf8", "watch", "Protocol", Event("ADDED", kGood, ",\"s\":\"\xc3\x28\"")},
      {"NulInAName", "watch", "Protocol",
       Event("ADDED", R"("name":"a\u0000b","namespace":"x","uid":"u","resourceVersion":"999999")")},
      {"SlashInAName", "watch", "Protocol",
       Event("ADDED", R"("name":"a/b","namespace":"x","uid":"u","resourceVersion":"999999")")},
      {"ErrorOfManyKeys", "watch", "Unavailable", ErrorOfManyKeys()},
      {"UnknownEventType", "watch", "Protocol", Event("RENAMED", kGood)},
      {"NoVersion", "watch", "Protocol",
       Event("MODIFIED", R"("name":"a","namespace":"x","uid":"u","resourceVersion":"")")},
      {"FrameOfFourGigabytes", "watch", "Protocol", Frames("\xff\xff\xff\xff")},
      {"FrameOfHtml", "watch", "Protocol", Frames(WithLength("<html>proxy error</html>"))},
      {"FrameOfAnotherKind", "watch", "Protocol",
       Frames(Frame("ADDED", UnknownProtobuf("v1", "Node", "")))},
      {"SlashInANameOfAFrame", "watch", "Protocol",
       Frames(EventFrame("ADDED", {.name = "a/b", .version = "999999"}))},
      {"FrameCutOff", "watch", "Unavailable",
       Frames(EventFrame("ADDED", {.name = "a", .version = "999999"}).substr(0, 50))},
      {"Html", "watch", "Protocol", {.type = FaultType::kContentType, .content_type = "text/html"}},
      {"Redirect", "watch", "Protocol", Redirect()},
      {"Unauthorized", "watch", "Unauthorized", Status(401)},
      {"Forbidden", "watch", "Forbidden", Status(403)},
      {"AbsurdRetryAfter", "watch", "TooManyRequests", LateRetry()},
      {"InternalError", "watch", "Unavailable", Status(500)},
      {"BadGateway", "watch", "Unavailable", Status(502)},
      {"InstantClose", "watch", "Unavailable", {.type = FaultType::kDrop}},
      {"EndlessList", "list", "Protocol", Body(R"({"items":[{"a":")" + std::string(4096, 'x'), -1)},
      {"GzipBomb", "list", "Protocol", GzipBomb()},
      {"ListCutOff", "list", "Unavailable", {.type = FaultType::kCut}},
      {"ListOfHtml", "list", "Protocol", Body("<html>log in</html>")},
      {"EmptyObject", "list", "Protocol", Body("{}")},
      {"ListRefused", "list", "Forbidden", Status(403)},
  };
}

class HostileServerTest : public InformerTest, public ::testing::WithParamInterface<Hostility> {
 protected:
  bool WaitForRestart(const std::string& reason) {
    for (const auto patience = RealClock()->Now() + 20s; RealClock()->Now() < patience;) {
      auto restarts = informer_->Status().reflector.restarts;
      if (restarts[reason] > 0) return true;
      RealClock()->SleepFor(10ms, {});
    }
    return false;
  }
  // The watch is broken, something happens, and its place in the history expires.
  void MissAnEvent() {
    const int broken = simulator_->AddFault(
        {.type = FaultType::kDrop, .resource = "pods", .verb = "watch", .times = -1});
    simulator_->DropConnections();
    TouchPod("b");
    simulator_->ExpireHistory("pods");
    simulator_->RemoveFault(broken);
  }
  std::string StoredVersion() const {
    return store_->GetCursor(informer_->GetIndexer().collection().id)->resource_version;
  }
  InformerOptions Impatient() const {
    InformerOptions options;
    options.reflector.silent_timeout = 500ms;
    options.reflector.request_timeout = 2s;
    options.reflector.max_event_bytes = 1 << 20;
    return options;
  }
};

TEST_P(HostileServerTest, IsReportedMovesNothingAndIsGotOver) {
  const Hostility& hostility = GetParam();
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  const auto elsewhere = *apiserver::Simulator::Start({});
  Open(Impatient());
  Sync();
  CatchUp();
  const std::string version = StoredVersion();
  const size_t memory = ResidentBytes();

  Fault fault = hostility.fault;
  fault.resource = "pods";
  fault.verb = hostility.verb;
  fault.times = -1;
  if (fault.code == 302) fault.headers["Location"] = elsewhere->Url() + "/api/v1/pods";
  simulator_->AddFault(fault);
  if (fault.verb == "list") MissAnEvent();
  simulator_->DropConnections();
  TouchPod("a");
  EXPECT_TRUE(WaitForRestart(hostility.reason)) << [this] {
    std::string reasons;
    for (const auto& [reason, count] : informer_->Status().reflector.restarts) {
      reasons += fmt::format("{} {}; ", reason, count);
    }
    return reasons;
  }();
  EXPECT_EQ(StoredVersion(), version);
  EXPECT_LT(ResidentBytes(), memory + (size_t{48} << 20) + kSanitizerSlack);
  const auto stopping = RealClock()->Now();
  informer_->Stop();
  EXPECT_LT(RealClock()->Now() - stopping, 2s);
  EXPECT_EQ(StoredVersion(), version);
  for (const auto& [resource, stats] : elsewhere->Stats()) {
    EXPECT_EQ(stats.lists + stats.watches + stats.gets, 0U) << "it followed to " << resource;
  }
  Close();

  simulator_->ClearFaults();
  Open();
  Sync();
  CatchUp();
  for (const auto& [key, expected] : simulator_->Snapshot("pods")) {
    const auto pod = informer_->GetIndexer().GetByKey(*ObjectKey::Parse(key));
    ASSERT_TRUE(pod) << pod.error().ToString();
    EXPECT_EQ((*pod)->resource_version(), expected.second);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostileServerTest, ::testing::ValuesIn(All()),
                         [](const auto& test) { return std::string(test.param.name); });

// From the socket to the disk: the same object as JSON would have brought.
TEST_F(InformerTest, AnEventInProtobufIsStoredAsItsJson) {
  CreatePod("a");
  Open();
  Sync();
  CatchUp();
  ASSERT_TRUE(simulator_->CreateNamespace("elsewhere"));  // the version goes on
  const std::string version = std::to_string(simulator_->Version());
  Fault fault = Frames(EventFrame("ADDED", {.name = "wire", .version = version}));
  fault.resource = "pods";
  fault.verb = "watch";
  simulator_->AddFault(fault);
  simulator_->DropConnections();
  const auto handler = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(handler));
  ASSERT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add x/wire") == 1; }));
  const auto pod = informer_->GetIndexer().GetByKey({"x", "wire"});
  ASSERT_TRUE(pod) << pod.error().ToString();
  EXPECT_EQ((*pod)->json(),
            fmt::format(R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"wire",)"
                        R"("namespace":"x","uid":"uid-wire","resourceVersion":"{}"}},)"
                        R"("spec":{{"containers":null}},"status":{{}}}})",
                        version));
}

// Nothing is stored, nobody is told, and the version counts: the server says that it passed it.
TEST_F(InformerTest, TheDeleteOfAnUnknownObjectIsNoNews) {
  CreatePod("a");
  Open();
  const auto handler = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(handler));
  Sync();
  CatchUp();
  Fault fault = Event(
      "DELETED", fmt::format(R"("name":"never","namespace":"x","uid":"u","resourceVersion":"{}")",
                             simulator_->Version()));
  fault.resource = "pods";
  fault.verb = "watch";
  simulator_->AddFault(fault);
  simulator_->DropConnections();
  TouchPod("a");
  ASSERT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("update x/a") == 1; }));
  EXPECT_EQ(handler->Count("delete"), 0U);
}

}  // namespace
}  // namespace larder
