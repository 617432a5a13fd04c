// The reflector over real sockets: the real transport against the simulated API server.
#include "apiserver/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "reflector/reflector.h"
#include "reflector/shard_selector.h"
#include "tests/reflector/mirror_target.h"

namespace larder {
namespace {

using apiserver::Fault;
using apiserver::FaultType;
using apiserver::Simulator;
using apiserver::SimulatorOptions;
using ::testing::HasSubstr;

constexpr uint64_t kPods = 300;

class SimulatedTest : public testing::TestWithParam<FirstSync> {
 protected:
  void SetUp() override {
    SimulatorOptions wanted;
    wanted.bookmark_interval = std::chrono::milliseconds(200);
    wanted.workload_namespaces = 3;
    Start(wanted);
    ASSERT_TRUE(simulator_->Load(kPods));
  }
  void TearDown() override {
    Stop();
    transport_.reset();
  }

  void Start(const SimulatorOptions& wanted) {
    auto started = Simulator::Start(wanted);
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
    simulator_ = *std::move(started);
    Connect(ForUrl(simulator_->Url()));
    options_.name = "pods";
    options_.resource = *LookupResource("pods");
    // Failures are over quickly here, and so is the waiting for them.
    options_.backoff.maximum = std::chrono::milliseconds(200);
  }
  void Connect(const ClientConfig& config) {
    auto transport = MakeTransport(config);
    ASSERT_TRUE(transport.has_value()) << transport.error().ToString();
    transport_ = *std::move(transport);
  }

  // Lives until the reflector's thread has ended, however the test ends.
  MirrorTarget& MakeTarget(std::string cluster_uid = {}) {
    return targets_.emplace_back(std::move(cluster_uid));
  }
  void Run(MirrorTarget* target) {
    auto made = Reflector::Create(options_, transport_.get(), target);
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    reflector_ = *std::move(made);
    thread_ =
        std::jthread([this](const std::stop_token& stop) { outcome_ = reflector_->Run(stop); });
  }
  // Returns how long it took.
  std::chrono::steady_clock::duration Stop() {
    const auto before = std::chrono::steady_clock::now();
    thread_ = std::jthread();
    return std::chrono::steady_clock::now() - before;
  }
  bool Equal(const MirrorTarget& target) {
    return target.WaitFor(
        [&](const auto& objects) { return objects == simulator_->Snapshot("pods"); });
  }
  // Some pods changed, made and deleted.
  void Change(uint64_t changes, uint64_t seed) {
    apiserver::ChurnOptions churn;
    churn.seed = seed;
    simulator_->RunChurn(changes, churn);
  }
  bool WaitFor(const std::function<bool(const ReflectorStatus&)>& reached) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!reached(reflector_->Status())) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  bool WaitForState(ReflectorState state) {
    return WaitFor([&](const ReflectorStatus& status) { return status.state == state; });
  }
  bool WaitForError(ErrorCode code) {
    return WaitFor([&](const ReflectorStatus& status) {
      return status.last_error && status.last_error->code == code;
    });
  }
  bool WaitForRestart(const std::string& reason) {
    return WaitFor([&](const ReflectorStatus& status) { return status.restarts.contains(reason); });
  }
  // Makes the next watch misbehave. The first one must be open before that: it would take the
  // faults, and be dropped with them.
  void FailTheNextWatch(std::vector<Fault> faults) {
    EXPECT_TRUE(WaitFor([](const ReflectorStatus& status) { return status.watches > 0; }));
    for (Fault& fault : faults) {
      fault.resource = "pods";
      fault.verb = "watch";
      simulator_->AddFault(std::move(fault));
    }
    simulator_->DropConnections();
  }

  std::unique_ptr<Simulator> simulator_;
  std::unique_ptr<HttpTransport> transport_;
  std::list<MirrorTarget> targets_;
  ReflectorOptions options_;
  std::unique_ptr<Reflector> reflector_;
  std::optional<Reflector::Outcome> outcome_;
  std::jthread thread_;
};

TEST_P(SimulatedTest, FirstSyncThenEvents) {
  options_.first_sync = GetParam();
  options_.page_size = 50;
  MirrorTarget& target = MakeTarget();
  Run(&target);
  EXPECT_TRUE(Equal(target));
  EXPECT_TRUE(target.WaitForCursor());
  Change(300, 7);
  EXPECT_TRUE(Equal(target));
  const ReflectorStatus status = reflector_->Status();
  EXPECT_EQ(status.lists, 1U);
  EXPECT_EQ(status.watches, 1U);
  EXPECT_FALSE(status.last_error.has_value()) << status.last_error->ToString();
  EXPECT_LT(Stop(), std::chrono::seconds(2));
}

INSTANTIATE_TEST_SUITE_P(EveryWay, SimulatedTest,
                         testing::Values(FirstSync::kList, FirstSync::kPagedList,
                                         FirstSync::kWatchList));

using SimulatorTest = SimulatedTest;

TEST_F(SimulatorTest, ResumesWithoutAListAfterARestart) {
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  ASSERT_TRUE(Equal(target));
  ASSERT_TRUE(target.WaitForCursor());
  Stop();
  Change(200, 3);
  simulator_->ResetStats();
  Run(&target);
  EXPECT_TRUE(Equal(target));
  EXPECT_EQ(reflector_->Status().lists, 0U);
  // The one list is the check for a rewound version, of one object.
  EXPECT_EQ(simulator_->StatsOf("pods").lists, 1U);
  EXPECT_LE(simulator_->StatsOf("pods").objects, 1U);
}

TEST_F(SimulatorTest, RelistsOnlyWhatDiffersAfterAnExpiredVersion) {
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  ASSERT_TRUE(Equal(target));
  ASSERT_TRUE(target.WaitForCursor());
  Stop();
  Change(40, 3);
  simulator_->ExpireHistory();
  const auto before = target.Objects();
  size_t changed = 0;
  const auto now = simulator_->Snapshot("pods");
  for (const auto& [key, id] : now) {
    const auto found = before.find(key);
    changed += found == before.end() || found->second != id;
  }
  Run(&target);
  EXPECT_TRUE(Equal(target));
  ASSERT_TRUE(WaitForState(ReflectorState::kWatching));
  const ReflectorStatus status = reflector_->Status();
  EXPECT_EQ(status.relists, 1U);
  EXPECT_EQ(status.fetched, changed);
  EXPECT_EQ(status.unchanged, now.size() - changed);
}

TEST_F(SimulatorTest, RelistsWhenHistoryExpiresUnderARunningWatch) {
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  ASSERT_TRUE(Equal(target));
  for (uint64_t round = 0; round < 3; ++round) {
    Change(50, round);
    simulator_->ExpireHistory();
    simulator_->DropConnections();
    EXPECT_TRUE(Equal(target)) << round;
  }
}

TEST_F(SimulatorTest, KeepsUpWithChurnWhileConnectionsBreak) {
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  apiserver::ChurnOptions churn;
  churn.rate = 2000;
  churn.limit = 2000;
  simulator_->StartChurn(churn);
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    simulator_->DropConnections();
    if (i % 4 == 3) simulator_->ExpireHistory();
  }
  simulator_->WaitForChurnLimit();
  EXPECT_TRUE(Equal(target));
}

TEST_F(SimulatorTest, NoticesAnotherClusterAtTheSameAddress) {
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  ASSERT_TRUE(target.WaitForCursor());
  Stop();
  ASSERT_TRUE(simulator_->SetClusterUid("11111111-2222-3333-4444-555555555555"));
  Run(&target);
  ASSERT_TRUE(WaitForState(ReflectorState::kAnotherCluster));
  Stop();
  EXPECT_EQ(outcome_, Reflector::Outcome::kAnotherCluster);
  EXPECT_THAT(reflector_->Status().error->message, HasSubstr("11111111"));
}

TEST_F(SimulatorTest, NoticesARewoundServer) {
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  Change(100, 5);
  ASSERT_TRUE(Equal(target));
  Stop();
  // The same cluster, restored from an older backup: lower versions, fewer pods.
  SimulatorOptions older;
  older.cluster_uid = simulator_->ClusterUid();
  older.first_version = 10;
  Start(older);
  ASSERT_TRUE(simulator_->Load(20));
  Run(&target);
  EXPECT_TRUE(Equal(target));
  EXPECT_EQ(reflector_->Status().restarts.at("rewound"), 1U);
}

TEST_F(SimulatorTest, FollowsASelectorAndANamespace) {
  options_.ns = simulator_->Snapshot("pods").begin()->first.substr(
      0, simulator_->Snapshot("pods").begin()->first.find('/'));
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  auto expected = [&] {
    auto all = simulator_->Snapshot("pods");
    std::erase_if(all, [&](const auto& pod) { return !pod.first.starts_with(options_.ns + "/"); });
    return all;
  };
  EXPECT_TRUE(target.WaitFor([&](const auto& objects) { return objects == expected(); }));
  Stop();
  // And a relist with a selector fetches by the selector.
  options_.label_selector = "no-such-label";
  MirrorTarget& none = MakeTarget();
  Run(&none);
  EXPECT_TRUE(none.WaitForCursor());
  EXPECT_TRUE(none.Objects().empty());
}

TEST_F(SimulatorTest, ReadsMetadataOnly) {
  options_.metadata_only = true;
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  EXPECT_TRUE(Equal(target));
  Change(50, 9);
  EXPECT_TRUE(Equal(target));
  EXPECT_LT(reflector_->Status().body_bytes, kPods * 6000);
}

TEST_F(SimulatorTest, TwoShardsAreTheWhole) {
  MirrorTarget::Content both;
  for (uint32_t part = 0; part < 2; ++part) {
    options_.shard_selector = ShardSelector::ForPart(part, 2);
    MirrorTarget& target = MakeTarget();
    Run(&target);
    ASSERT_TRUE(target.WaitForCursor());
    Stop();
    EXPECT_EQ(reflector_->Status().sharded_by_server, true);
    const auto objects = target.Objects();
    EXPECT_GT(objects.size(), kPods / 4);
    both.insert(objects.begin(), objects.end());
  }
  EXPECT_EQ(both, simulator_->Snapshot("pods"));
}

TEST_F(SimulatorTest, ReportsRefusedRightsAndGoesOnWhenTheyCome) {
  ClientConfig config = ForUrl(simulator_->Url());
  config.token = "secret";
  Connect(config);
  simulator_->SetUsers({{.name = "me", .token = "secret", .forbidden = {"pods"}}});
  MirrorTarget& target = MakeTarget();
  Run(&target);
  EXPECT_TRUE(WaitForError(ErrorCode::kForbidden));
  EXPECT_EQ(reflector_->Status().error->code, ErrorCode::kForbidden);
  simulator_->SetUsers({{.name = "me", .token = "other"}});
  EXPECT_TRUE(WaitForError(ErrorCode::kUnauthorized));
  simulator_->SetUsers({{.name = "me", .token = "secret"}});
  EXPECT_TRUE(Equal(target));
}

TEST_F(SimulatorTest, PausesAndResumes) {
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  ASSERT_TRUE(Equal(target));
  reflector_->Pause();
  ASSERT_TRUE(WaitForState(ReflectorState::kPaused));
  Change(30, 2);
  EXPECT_NE(target.Objects(), simulator_->Snapshot("pods"));
  reflector_->Resume();
  EXPECT_TRUE(Equal(target));
}

// Each of these once or a few times; then the server behaves and the mirror must be whole again.
TEST_F(SimulatorTest, RecoversFromEveryFault) {
  const std::vector<Fault> faults = {
      {.type = FaultType::kDrop, .times = 2},
      {.type = FaultType::kError, .times = 2, .code = 503},
      {.type = FaultType::kError, .times = 2, .code = 500},
      {.type = FaultType::kError, .times = 1, .code = 429, .retry_after = 0},
      {.type = FaultType::kError, .times = 1, .code = 401},
      {.type = FaultType::kCut, .verb = "watch", .times = 3, .after_events = 2},
      {.type = FaultType::kCut, .verb = "list", .times = 1},
      {.type = FaultType::kClose, .verb = "watch", .times = 3, .after_events = 1},
      {.type = FaultType::kGarbage, .verb = "watch", .times = 2, .after_events = 2},
      {.type = FaultType::kGarbage, .verb = "list", .times = 1},
      {.type = FaultType::kInject,
       .verb = "watch",
       .times = 1,
       .after_events = 1,
       .body = R"({"type":"RENAMED","object":{}})"},
      {.type = FaultType::kInject,
       .verb = "watch",
       .times = 1,
       .after_events = 1,
       .body = R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}})"},
      {.type = FaultType::kContentType, .verb = "watch", .times = 1, .content_type = "text/html"},
      {.type = FaultType::kHttpGone, .verb = "watch", .times = 2},
      {.type = FaultType::kVersion, .verb = "watch", .times = 1, .mode = "empty"},
      {.type = FaultType::kVersion, .verb = "watch", .times = 1, .mode = "duplicate"},
  };
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  ASSERT_TRUE(Equal(target));
  uint64_t seed = 100;
  for (Fault fault : faults) {
    SCOPED_TRACE(fault.ToJson().dump());
    fault.resource = "pods";
    simulator_->AddFault(fault);
    simulator_->DropConnections();
    Change(20, ++seed);
    EXPECT_TRUE(Equal(target));
    simulator_->ClearFaults();
  }
  EXPECT_LT(Stop(), std::chrono::seconds(2));
}

TEST_F(SimulatorTest, AnEndlessListIsRefusedWithinItsBuffersAndStopsAtOnce) {
  options_.max_event_bytes = 1 << 20;
  Fault endless{
      .type = FaultType::kBody, .resource = "pods", .verb = "list", .times = -1, .code = 200};
  endless.content_type = "application/json";
  endless.body = R"({"items":[{"a":")" + std::string(4096, 'x');
  endless.repeat = -1;
  simulator_->AddFault(endless);
  MirrorTarget& target = MakeTarget();
  Run(&target);
  EXPECT_TRUE(WaitForError(ErrorCode::kProtocol));
  EXPECT_TRUE(target.Cursor().empty());
  EXPECT_LT(Stop(), std::chrono::seconds(2));
}

// A server that lied about its version leaves a cursor in the future, at which a watch hears
// nothing and gets no error.
TEST_F(SimulatorTest, ACursorInTheFutureIsNoticedWhenTheStreamEnds) {
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  ASSERT_TRUE(Equal(target));
  // One event from the future, and then the end of that stream.
  FailTheNextWatch({{.type = FaultType::kVersion, .mode = "future"},
                    {.type = FaultType::kClose, .after_events = 1}});
  Change(5, 1);
  EXPECT_TRUE(WaitForRestart("rewound"));
  Change(5, 2);
  EXPECT_TRUE(Equal(target));
}

TEST_F(SimulatorTest, AStalledWatchIsGivenUpCatchesUpAndStopsAtOnce) {
  options_.silent_timeout = std::chrono::milliseconds(1000);
  MirrorTarget& target = MakeTarget(simulator_->ClusterUid());
  Run(&target);
  ASSERT_TRUE(Equal(target));
  FailTheNextWatch({{.type = FaultType::kStall, .after_events = 1}});
  Change(10, 1);
  EXPECT_TRUE(Equal(target));
  EXPECT_GE(reflector_->Status().restarts["silent"], 1U);
  EXPECT_LT(Stop(), std::chrono::seconds(2));
}

}  // namespace
}  // namespace larder
