#include <gmock/gmock.h>

#include "tests/apiserver/simulator_fixture.h"

namespace larder::apiserver {
namespace {

using testing::StartsWith;
using namespace std::chrono_literals;

class FaultTest : public SimulatorTest {
 protected:
  std::unique_ptr<WatchReader> Watch() {
    auto watch = std::make_unique<WatchReader>(
        address(), std::string(kConfigMaps) + "?watch=1&resourceVersion=" + Version());
    EXPECT_EQ(watch->Code(), 200);
    return watch;
  }
};

TEST_F(FaultTest, AnswersWithAnErrorAsOftenAsAsked) {
  simulator_->AddFault({.type = FaultType::kError,
                        .resource = "configmaps",
                        .verb = "list",
                        .times = 2,
                        .code = 429,
                        .retry_after = 3});
  for (int i = 0; i < 2; ++i) {
    const HttpAnswer answer = client_->Get(kConfigMaps);
    EXPECT_EQ(answer.code, 429);
    EXPECT_EQ(answer.json()["reason"], "TooManyRequests");
    EXPECT_EQ(answer.Header("Retry-After"), "3");
  }
  EXPECT_EQ(client_->Get(kConfigMaps).code, 200);
  EXPECT_EQ(client_->Get("/api/v1/secrets").code, 200);
}

TEST_F(FaultTest, LastsUntilRemovedWhereAsked) {
  const int id = simulator_->AddFault({.type = FaultType::kError, .times = -1, .code = 503});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client_->Get(kConfigMaps).code, 503);
  EXPECT_TRUE(simulator_->RemoveFault(id));
  EXPECT_EQ(client_->Get(kConfigMaps).code, 200);
}

TEST_F(FaultTest, DropsTheConnection) {
  simulator_->AddFault({.type = FaultType::kDrop, .verb = "get"});
  EXPECT_EQ(client_->Get("/api/v1/namespaces/default").code, 0);
  EXPECT_EQ(client_->Get("/api/v1/namespaces/default").code, 200);
}

TEST_F(FaultTest, CutsAWatchInMidLine) {
  simulator_->AddFault({.type = FaultType::kCut, .verb = "watch", .after_events = 1});
  const auto watch = Watch();
  MakeConfigMap("a");
  MakeConfigMap("b");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/a");
  EXPECT_TRUE(watch->Ended());
  EXPECT_FALSE(watch->EndedCleanly());
  const std::string rest = watch->Rest();
  EXPECT_THAT(rest, StartsWith("{\"type\":\"ADDED\""));
  EXPECT_TRUE(Json::parse(rest, nullptr, false).is_discarded());
}

TEST_F(FaultTest, StallsAWatchInMidLineUntilCleared) {
  simulator_->AddFault({.type = FaultType::kStall, .verb = "watch"});
  const auto watch = Watch();
  MakeConfigMap("a");
  EXPECT_FALSE(watch->Ended(200ms));
  EXPECT_TRUE(watch->Next(0ms).is_null());
  simulator_->ClearFaults();
  EXPECT_TRUE(watch->Ended());
}

TEST_F(FaultTest, AStalledWatchDoesNotHoldUpStop) {
  simulator_->AddFault({.type = FaultType::kStall, .verb = "watch"});
  const auto watch = Watch();
  MakeConfigMap("a");
  const auto start = std::chrono::steady_clock::now();
  simulator_->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
  EXPECT_TRUE(watch->Ended());
}

TEST_F(FaultTest, CutsAListInTheMiddle) {
  ASSERT_TRUE(simulator_->Load(100));
  simulator_->AddFault({.type = FaultType::kCut, .verb = "list"});
  EXPECT_EQ(client_->Get("/api/v1/pods").code, 0);
  EXPECT_EQ(client_->Get("/api/v1/pods").json()["items"].size(), 100U);
}

TEST_F(FaultTest, ClosesAWatchCleanly) {
  simulator_->AddFault({.type = FaultType::kClose, .verb = "watch", .after_events = 1});
  const auto watch = Watch();
  MakeConfigMap("a");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/a");
  EXPECT_TRUE(watch->Ended());
  EXPECT_TRUE(watch->EndedCleanly());
  simulator_->AddFault({.type = FaultType::kClose, .verb = "watch"});
  EXPECT_TRUE(Watch()->Ended());
}

TEST_F(FaultTest, SendsGarbage) {
  simulator_->AddFault({.type = FaultType::kGarbage, .verb = "watch"});
  const auto watch = Watch();
  EXPECT_TRUE(watch->Next().is_discarded());
  MakeConfigMap("a");
  EXPECT_EQ(Summary(watch->Next()), "ADDED default/a");
  simulator_->AddFault({.type = FaultType::kGarbage, .verb = "list"});
  EXPECT_TRUE(client_->Get(kConfigMaps).json().is_discarded());
}

TEST_F(FaultTest, InjectsALine) {
  simulator_->AddFault(
      {.type = FaultType::kInject, .verb = "watch", .body = R"({"type":"SURPRISE","object":{}})"});
  EXPECT_EQ(Watch()->Next()["type"], "SURPRISE");
}

TEST_F(FaultTest, AnswersWithAnyBody) {
  simulator_->AddFault({.type = FaultType::kBody,
                        .code = 302,
                        .content_type = "text/html",
                        .body = "<html>",
                        .repeat = 1000,
                        .headers = {{"Location", "http://127.0.0.1:1/"}}});
  const HttpAnswer answer = client_->Get(kConfigMaps);
  EXPECT_EQ(answer.code, 302);
  EXPECT_EQ(answer.body.size(), 6000U);
  EXPECT_EQ(answer.Header("Location"), "http://127.0.0.1:1/");
  EXPECT_EQ(answer.Header("Content-Type"), "text/html");
}

TEST_F(FaultTest, AnswersWithAWrongContentType) {
  simulator_->AddFault(
      {.type = FaultType::kContentType, .verb = "list", .content_type = "text/html"});
  const HttpAnswer answer = client_->Get(kConfigMaps);
  EXPECT_EQ(answer.Header("Content-Type"), "text/html");
  EXPECT_EQ(answer.json()["kind"], "ConfigMapList");
}

TEST_F(FaultTest, LiesAboutVersions) {
  MakeConfigMap("a");
  const auto lie = [&](const char* mode) {
    simulator_->AddFault({.type = FaultType::kVersion, .mode = mode});
  };
  lie("older");
  EXPECT_EQ(VersionOf(client_->Get(kConfigMaps).json()), "1");
  lie("empty");
  EXPECT_EQ(VersionOf(client_->Get(kConfigMaps).json()), "");
  lie("duplicate");
  const auto twice = Watch();
  lie("future");
  const auto future = Watch();
  MakeConfigMap("b");
  EXPECT_EQ(Summary(twice->Next()), "ADDED default/b");
  EXPECT_EQ(Summary(twice->Next()), "ADDED default/b");
  EXPECT_GT(VersionOf(future->Next()["object"]).size(), Version().size());
}

TEST_F(FaultTest, IsSlow) {
  MakeConfigMap("a");
  const size_t size = client_->Get(kConfigMaps).body.size();
  simulator_->AddFault({.type = FaultType::kSlow, .verb = "list", .bytes_per_second = size * 4});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(client_->Get(kConfigMaps).body.size(), size);
  EXPECT_GT(std::chrono::steady_clock::now() - start, 150ms);
}

TEST_F(FaultTest, DelaysByTheClock) {
  FakeClock clock;
  StartWith({.clock = &clock});
  simulator_->AddFault({.type = FaultType::kDelay, .verb = "list", .delay_ms = 60'000});
  std::thread waiter([&] { EXPECT_EQ(client_->Get(kConfigMaps).code, 200); });
  while (clock.Waiters() == 0) std::this_thread::yield();
  clock.Advance(60s);
  waiter.join();
}

TEST_F(FaultTest, DropsOpenConnections) {
  const auto watch = Watch();
  simulator_->DropConnections();
  EXPECT_TRUE(watch->Ended());
  EXPECT_FALSE(watch->EndedCleanly());
}

TEST_F(FaultTest, IsSteeredOverHttp) {
  const HttpAnswer added = client_->Post(
      "/simulator/faults", {{"type", "error"}, {"verb", "list"}, {"times", -1}, {"code", 500}});
  const int id = added.json()["id"];
  EXPECT_EQ(client_->Get(kConfigMaps).code, 500);
  EXPECT_EQ(client_->Get("/simulator/faults").json().size(), 1U);
  EXPECT_EQ(client_->Delete("/simulator/faults/" + std::to_string(id)).code, 200);
  EXPECT_EQ(client_->Get(kConfigMaps).code, 200);
  EXPECT_EQ(client_->Post("/simulator/faults", {{"type", "nonsense"}}).code, 400);

  const std::string old = Version();
  MakeConfigMap("a");
  EXPECT_EQ(client_->Post("/simulator/faults", {{"type", "expire_history"}}).code, 200);
  WatchReader watch(address(), std::string(kConfigMaps) + "?watch=1&resourceVersion=" + old);
  EXPECT_EQ(Summary(watch.Next()), "ERROR 410");
  const auto open = Watch();
  EXPECT_EQ(client_->Post("/simulator/faults", {{"type", "drop_connections"}}).code, 200);
  EXPECT_TRUE(open->Ended());
}

}  // namespace
}  // namespace larder::apiserver
