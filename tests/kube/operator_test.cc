// A whole operator on the real server: examples/anomaly_remediator.cc, killed while its objects
// change, and the manifests that run it in a cluster.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "client/subprocess.h"
#include "tests/controller/child_program.h"
#include "tests/kube/kube_fixture.h"

namespace larder {
namespace {

const std::string kDeploy = std::string(LARDER_SOURCE_DIR) + "/deploy";

class KubeOperator : public KubeTest {
 protected:
  void SetUp() override {
    KubeTest::SetUp();
    if (IsSkipped()) return;
    directory_ = std::filesystem::path(testing::TempDir()) / (ns_ + "-operator");
    std::filesystem::create_directories(directory_);
    pods_ = *LookupResource("pods");
    remediations_ = {"aiops.example.com", "v1alpha1", "remediations", "Remediation", true};
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
    KubeTest::TearDown();
  }

  static std::string Kubeconfig() { return Environment("LARDER_KUBE_DIR") + "/kubeconfig"; }
  // What kubectl printed; a failure is a failure of the test, with what it said.
  std::string Kubectl(std::vector<std::string> words) const {
    const std::string said = (directory_ / "kubectl").string();
    std::string command = "exec kubectl --kubeconfig \"$0\" \"$@\" >" + said + " 2>&1";
    ProgramSpec program;
    program.argv = {"sh", "-c", command, Kubeconfig()};
    program.argv.insert(program.argv.end(), words.begin(), words.end());
    const auto outcome = RunProgram(program, {});
    const std::string text = Read(said);
    EXPECT_TRUE(outcome) << text;
    return text;
  }
  static std::string Read(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string Log() const { return Read(directory_ / "log"); }

  void DefineRemediations() {
    Kubectl({"apply", "-f", kDeploy + "/base/crd.yaml"});
    Kubectl({"wait", "--for=condition=Established", "--timeout=30s",
             "crd/remediations.aiops.example.com"});
  }
  std::unique_ptr<ChildProgram> StartRemediator() {
    return std::make_unique<ChildProgram>(
        std::string(LARDER_EXAMPLES) + "/anomaly_remediator",
        std::vector<std::string>{"--store", (directory_ / "store").string(), "--listen", "0"},
        (directory_ / "log").string(),
        std::vector<std::pair<std::string, std::string>>{{"KUBECONFIG", Kubeconfig()},
                                                         {"INFORMER_NAMESPACE", ns_}});
  }
  void SetPod(const std::string& name, int restarts, const std::string& reason) {
    const Json pod = {{"metadata", {{"name", name}, {"namespace", ns_}}},
                      {"spec", {{"containers", {{{"name", "main"}, {"image", "i"}}}}}}};
    const auto made = client_->Create(pods_, pod);
    ASSERT_TRUE(made || made.error().code == ErrorCode::kAlreadyExists) << made.error().ToString();
    Json container = {{"name", "main"},
                      {"image", "i"},
                      {"imageID", ""},
                      {"ready", true},
                      {"restartCount", restarts}};
    // A container that waits is not running: the other state must go.
    container["state"] = reason.empty()
                             ? Json{{"running", Json::object()}, {"waiting", nullptr}}
                             : Json{{"waiting", {{"reason", reason}}}, {"running", nullptr}};
    const Json status = {{"status", {{"containerStatuses", {container}}}}};
    const auto patched = client_->Patch(pods_, {ns_, name}, PatchType::kJsonMerge, status,
                                        {.subresource = "status"});
    ASSERT_TRUE(patched) << patched.error().ToString();
  }
  // What all remediations of the namespace say: "reason restarts" by pod.
  std::map<std::string, std::string> Remediations() {
    std::map<std::string, std::string> all;
    const auto list = client_->ListAll(remediations_, {.ns = ns_});
    EXPECT_TRUE(list) << list.error().ToString();
    if (!list) return all;
    for (const ObjectPtr& object : list->items) {
      const Json spec = object->ToMutable()["spec"];
      all[std::string(object->name())] =
          spec.value("reason", "") + " " + std::to_string(spec.value("restarts", 0));
    }
    return all;
  }

  std::filesystem::path directory_;
  Resource pods_;
  Resource remediations_;
};

TEST_F(KubeOperator, KilledAgainAndAgainItSkipsNothing) {
  constexpr int kKills = 20;
  constexpr int kChanges = 2'000;
  constexpr int kPods = 100;
  DefineRemediations();
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::map<std::string, std::string> expected;
  auto program = StartRemediator();
  for (int change = 0; change < kChanges; ++change) {
    const std::string name = "p" + std::to_string(random() % kPods);
    const int restarts = static_cast<int>(random() % 10);
    const bool broken = random() % 4 == 0;
    expected.erase(name);
    if (random() % 20 == 0) {
      static_cast<void>(client_->Delete(pods_, {ns_, name}, {.grace_period_seconds = 0}));
    } else {
      SetPod(name, restarts, broken ? "CrashLoopBackOff" : "");
      if (HasFatalFailure()) return;
      const std::string count = " " + std::to_string(restarts);
      if (broken) expected[name] = "CrashLoopBackOff" + count;
      if (!broken && restarts > 5) expected[name] = "TooManyRestarts" + count;
    }
    // The last time early enough that there is work for the last process, too: once that is done,
    // it is there to be told to end.
    if (change % (kChanges / kKills) == kChanges / kKills / 2) {
      program->Kill();
      program = StartRemediator();
    }
  }
  std::map<std::string, std::string> actual;
  EXPECT_TRUE(Eventually([&] { return (actual = Remediations()) == expected; }))
      << testing::PrintToString(actual) << "\nexpected " << testing::PrintToString(expected) << "\n"
      << Log().substr(Log().size() > 4000 ? Log().size() - 4000 : 0);
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait(), 0) << Log();
}

// All that a cluster would refuse shows here: unknown fields, wrong types, rules that contradict.
TEST_F(KubeOperator, TheServerAcceptsEveryManifest) {
  for (const char* overlay : {"statefulset", "deployment", "ha"}) {
    const std::string said = Kubectl(
        {"apply", "--dry-run=server", "--validate=strict", "-k", kDeploy + "/overlays/" + overlay});
    EXPECT_THAT(said, testing::HasSubstr("clusterrole.rbac.authorization.k8s.io/")) << overlay;
    EXPECT_THAT(said, testing::Not(testing::HasSubstr("unknown field"))) << overlay;
  }
}

}  // namespace
}  // namespace larder
