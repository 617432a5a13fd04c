// Two managers, one lease: looked at from outside, never two leaders.
#include <gtest/gtest.h>
#include <httplib.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "testing/environment.h"
#include "tests/controller/child_program.h"

namespace larder {
namespace {

using std::chrono::milliseconds;

// One replica: the program, started again whenever it ends, as a kubelet does.
class Replica {
 public:
  Replica(testing::Environment& environment, const std::string& kubeconfig, const std::string& name)
      : environment_(environment), kubeconfig_(kubeconfig), name_(name), port_(FreePort()) {}

  void KeepRunning() {
    if (program_ && program_->Running()) return;
    program_ = std::make_unique<ChildProgram>(
        std::string(LARDER_EXAMPLES) + "/pod_watcher",
        std::vector<std::string>{
            "--kubeconfig", kubeconfig_, "--store", environment_.directory() + "/" + name_,
            "--listen", "127.0.0.1:" + std::to_string(port_), "--leader-election-enabled",
            "--leader-election-namespace", "default", "--leader-election-id", name_,
            "--lease-duration", "1s", "--renew-deadline", "500ms", "--retry-period", "50ms"},
        environment_.directory() + "/" + name_ + ".log");
  }
  // Nothing: it does not answer, so it does nothing either.
  bool Leads() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_connection_timeout(0, 200'000);
    client.set_read_timeout(0, 200'000);
    const auto answer = client.Get("/metrics");
    return answer && answer->body.find("leader_election_master_status{name=\"pod-watcher\"} 1") !=
                         std::string::npos;
  }
  ChildProgram& program() { return *program_; }

 private:
  testing::Environment& environment_;
  const std::string kubeconfig_;
  const std::string name_;
  const int port_;
  std::unique_ptr<ChildProgram> program_;
};

TEST(LeadershipTest, NeverTwoLeadersThroughKillsPausesAndOutages) {
  // LARDER_LEADERSHIP_ROUNDS=30 for the long form.
  const char* rounds_text = std::getenv("LARDER_LEADERSHIP_ROUNDS");
  const int rounds = rounds_text ? std::atoi(rounds_text) : 4;
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  auto environment = testing::Environment::Start();
  ASSERT_TRUE(environment) << environment.error().ToString();
  const std::string kubeconfig = (*environment)->directory() + "/kubeconfig";
  ASSERT_TRUE((*environment)->cluster().WriteKubeconfig(kubeconfig));
  Replica one(**environment, kubeconfig, "one");
  Replica two(**environment, kubeconfig, "two");
  int looks = 0;
  // Looks at both, 100 times a second. Asked one after the other, so that a change of leader in
  // between could look like two: the second answer is checked against a third.
  const auto look = [&](bool& led) {
    one.KeepRunning();
    two.KeepRunning();
    const bool first = one.Leads();
    const bool second = two.Leads();
    ASSERT_FALSE(first && second && one.Leads());
    led = first || second;
    ++looks;
    RealClock()->SleepFor(milliseconds(10), {});
  };
  const auto wait_for_leader = [&] {
    bool led = false;
    const auto deadline = RealClock()->Now() + std::chrono::seconds(30);
    while (!led && RealClock()->Now() < deadline && !::testing::Test::HasFatalFailure()) look(led);
    ASSERT_TRUE(led);
  };
  for (int round = 0; round < rounds && !::testing::Test::HasFatalFailure(); ++round) {
    wait_for_leader();
    Replica& leader = one.Leads() ? one : two;
    switch (round % 4) {
      case 0:
        leader.program().Kill();
        break;
      case 1: {
        // Past the lease: the other takes over, and this one wakes up as if nothing had happened.
        leader.program().Signal(SIGSTOP);
        Replica& other = &leader == &one ? two : one;
        const auto deadline = RealClock()->Now() + std::chrono::seconds(30);
        while (!other.Leads() && RealClock()->Now() < deadline) {
          RealClock()->SleepFor(milliseconds(10), {});
        }
        ASSERT_TRUE(other.Leads());
        leader.program().Signal(SIGCONT);
        break;
      }
      case 2:
        // The server is away for longer than the deadline.
        (*environment)->cluster().AddFault({.type = apiserver::FaultType::kDrop, .times = -1});
        (*environment)->cluster().DropConnections();
        for (int i = 0; i < 60; ++i) {
          bool led = false;
          look(led);
        }
        (*environment)->cluster().ClearFaults();
        break;
      default:
        leader.program().Signal(SIGTERM);  // released: the next one leads at once
        break;
    }
    for (int i = 0; i < static_cast<int>(random() % 20) + 20; ++i) {
      bool led = false;
      look(led);
    }
  }
  wait_for_leader();
  EXPECT_GT(looks, rounds * 20);
}

}  // namespace
}  // namespace larder
