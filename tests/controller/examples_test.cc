// The examples as a user runs them, on a simulated cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "testing/environment.h"
#include "tests/controller/child_program.h"

namespace larder {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr const char* kRemediations = "remediations.aiops.example.com";

class ExamplesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto environment = testing::Environment::Start();
    ASSERT_TRUE(environment) << environment.error().ToString();
    environment_ = *std::move(environment);
    kubeconfig_ = environment_->directory() + "/kubeconfig";
    ASSERT_TRUE(cluster().WriteKubeconfig(kubeconfig_));
    log_ = environment_->directory() + "/log";
  }
  apiserver::Simulator& cluster() { return environment_->cluster(); }
  std::unique_ptr<ChildProgram> Start(const std::string& example,
                                      std::vector<std::string> arguments) {
    return std::make_unique<ChildProgram>(
        std::string(LARDER_EXAMPLES) + "/" + example, arguments, log_,
        std::vector<std::pair<std::string, std::string>>{{"KUBECONFIG", kubeconfig_}});
  }
  std::unique_ptr<ChildProgram> StartManaged(const std::string& example) {
    return Start(example, {"--store", environment_->directory() + "/store", "--listen", "0"});
  }
  std::string Log() const {
    std::ifstream file(log_);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static bool Eventually(const std::function<bool()>& condition) {
    return testing::Environment::Eventually(condition);
  }
  // A pod with a container that restarted so often; `reason`: what it waits for.
  static std::string PodJson(const std::string& name, int restarts, const std::string& reason) {
    Json pod;
    pod["metadata"]["namespace"] = "default";
    pod["metadata"]["name"] = name;
    pod["status"]["phase"] = "Running";
    Json container;
    container["name"] = "main";
    container["restartCount"] = restarts;
    if (!reason.empty()) container["state"]["waiting"]["reason"] = reason;
    pod["status"]["containerStatuses"] = Json::array({container});
    return pod.dump();
  }

  std::unique_ptr<testing::Environment> environment_;
  std::string kubeconfig_;
  std::string log_;
};

TEST_F(ExamplesTest, PodWatcherSaysWhatBecomesOfEachPodAndEndsOnSigterm) {
  auto program = StartManaged("pod_watcher");
  ASSERT_TRUE(cluster().Create("pods", PodJson("a", 0, "")));
  ASSERT_TRUE(Eventually([&] { return Log().find("the pod is Running") != std::string::npos; }))
      << Log();
  EXPECT_THAT(Log(), HasSubstr("controller=pods key=default/a reconcileID="));
  ASSERT_TRUE(cluster().Delete("pods", "default", "a"));
  ASSERT_TRUE(Eventually([&] { return Log().find("the pod is gone") != std::string::npos; }));
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait(), 0) << Log();
}

TEST_F(ExamplesTest, AWrongSettingIsNamedAndHelpListsAll) {
  EXPECT_EQ(Start("pod_watcher", {"--lease-duration", "soon"})->Wait(), 2);
  EXPECT_THAT(Log(), HasSubstr("--lease-duration: \"soon\" is not a duration"));
  EXPECT_EQ(Start("pod_watcher", {"--help"})->Wait(), 0);
  EXPECT_THAT(Log(), HasSubstr("WORKQUEUE_MAX_RETRIES"));
}

TEST_F(ExamplesTest, InformerAndQueueRunWithoutTheManager) {
  auto program = Start("informer_and_queue", {environment_->directory() + "/plain"});
  ASSERT_TRUE(cluster().Create("pods", PodJson("a", 0, "")));
  ASSERT_TRUE(Eventually([&] { return cluster().StatsOf("pods").open_watches > 0; }));
  ASSERT_TRUE(cluster().Create("pods", PodJson("b", 0, "")));
  ASSERT_TRUE(Eventually([&] { return Log().find("default/b is there") != std::string::npos; }))
      << Log();
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait(), 0) << Log();
}

TEST_F(ExamplesTest, InformerAndQueueEndWithTheErrorThatEndsThem) {
  auto program = Start("informer_and_queue", {kubeconfig_});  // no directory
  EXPECT_EQ(program->Wait(), 1);
  EXPECT_THAT(Log(), HasSubstr("informer_and_queue: "));
}

class RemediatorTest : public ExamplesTest {
 protected:
  void SetUp() override {
    ExamplesTest::SetUp();
    const auto made =
        environment_->CreateYamlFile(std::string(LARDER_SOURCE_DIR) + "/deploy/base/crd.yaml");
    ASSERT_TRUE(made) << made.error().ToString();
  }
  void SetPolicy(int max_restarts) {
    Json policy;
    policy["metadata"]["namespace"] = "default";
    policy["metadata"]["name"] = "remediation-policy";
    policy["data"]["maxRestarts"] = std::to_string(max_restarts);
    if (!cluster().Update("configmaps", policy.dump())) {
      ASSERT_TRUE(cluster().Create("configmaps", policy.dump()));
    }
  }
  // What the remediation of a pod says: "reason restarts", or nothing.
  std::string Remediation(const std::string& name) {
    const auto found = cluster().Get(kRemediations, "default", name);
    if (!found) return {};
    const Json spec = (*found)->ToMutable()["spec"];
    return spec.value("reason", "") + " " + std::to_string(spec.value("restarts", 0));
  }
};

TEST_F(RemediatorTest, KeepsARemediationForEachPodThatIsNotWell) {
  auto program = StartManaged("anomaly_remediator");
  ASSERT_TRUE(cluster().Create("pods", PodJson("well", 2, "")));
  ASSERT_TRUE(cluster().Create("pods", PodJson("crashing", 1, "CrashLoopBackOff")));
  ASSERT_TRUE(Eventually([&] { return Remediation("crashing") == "CrashLoopBackOff 1"; })) << Log();
  const auto made = cluster().Get(kRemediations, "default", "crashing");
  EXPECT_EQ((*made)->Owners().at(0).kind, "Pod");
  // The policy's change puts all pods into the queue.
  SetPolicy(1);
  ASSERT_TRUE(Eventually([&] { return Remediation("well") == "TooManyRestarts 2"; })) << Log();
  SetPolicy(5);
  ASSERT_TRUE(Eventually([&] { return Remediation("well").empty(); })) << Log();
  // Somebody deletes what the controller owns: it comes back.
  ASSERT_TRUE(cluster().Delete(kRemediations, "default", "crashing"));
  ASSERT_TRUE(Eventually([&] { return Remediation("crashing") == "CrashLoopBackOff 1"; })) << Log();
  ASSERT_TRUE(cluster().Delete("pods", "default", "crashing"));
  ASSERT_TRUE(Eventually([&] { return Remediation("crashing").empty(); })) << Log();
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait(), 0) << Log();
}

TEST_F(RemediatorTest, LeavesARemediationThatSomebodyElseMade) {
  ASSERT_TRUE(cluster().Create("pods", PodJson("well", 0, "")));
  const auto by_hand = environment_->CreateYaml(R"(
apiVersion: aiops.example.com/v1alpha1
kind: Remediation
metadata: {namespace: default, name: well}
spec: {podName: well, reason: ByHand, restarts: 0, action: Report}
)");
  ASSERT_TRUE(by_hand) << by_hand.error().ToString();
  auto program = StartManaged("anomaly_remediator");
  ASSERT_TRUE(cluster().Create("pods", PodJson("crashing", 1, "CrashLoopBackOff")));
  ASSERT_TRUE(Eventually([&] { return Remediation("crashing") == "CrashLoopBackOff 1"; })) << Log();
  // It ends when what it has begun is done.
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait(), 0) << Log();
  EXPECT_EQ(Remediation("well"), "ByHand 0") << Log();
}

// Killed at random while objects change: in the end every object is as it should be.
TEST_F(RemediatorTest, KilledTwentyTimesItSkipsNothing) {
  constexpr int kKills = 20;
  constexpr int kChanges = 2'000;
  constexpr int kPods = 200;
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  SetPolicy(5);
  std::map<std::string, std::string> expected;  // pod: its remediation
  auto program = StartManaged("anomaly_remediator");
  for (int change = 0; change < kChanges; ++change) {
    const std::string name = "p" + std::to_string(random() % kPods);
    const int restarts = static_cast<int>(random() % 10);
    const bool broken = random() % 4 == 0;
    if (random() % 20 == 0) {
      static_cast<void>(cluster().Delete("pods", "default", name));
      expected[name] = "";
    } else {
      const std::string pod = PodJson(name, restarts, broken ? "CrashLoopBackOff" : "");
      if (!cluster().Update("pods", pod)) {
        ASSERT_TRUE(cluster().Create("pods", pod));
      }
      expected[name] = broken         ? "CrashLoopBackOff " + std::to_string(restarts)
                       : restarts > 5 ? "TooManyRestarts " + std::to_string(restarts)
                                      : "";
    }
    if (change % (kChanges / kKills) == kChanges / kKills - 1) {
      // At any moment: while it opens its store, lists, resumes, or works.
      RealClock()->SleepFor(milliseconds(random() % 250), {});
      program->Kill();
      program = StartManaged("anomaly_remediator");
    }
  }
  std::string wrong;
  EXPECT_TRUE(Eventually([&] {
    wrong.clear();
    for (const auto& [name, remediation] : expected) {
      const std::string actual = Remediation(name);
      if (actual != remediation) wrong += name + ": " + actual + ", not " + remediation + "\n";
    }
    return wrong.empty();
  })) << wrong
      << Log().substr(Log().size() > 4000 ? Log().size() - 4000 : 0);
}

}  // namespace
}  // namespace larder
