// `larder run` and `larder doctor` on a simulated cluster.
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "apiserver/simulator.h"
#include "tests/tools/background.h"
#include "tests/tools/sample_store.h"
#include "tools/doctor/metrics_text.h"
#include "tools/doctor/report.h"

namespace larder {
namespace {

class RunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto simulator = apiserver::Simulator::Start({});
    ASSERT_TRUE(simulator) << simulator.error().ToString();
    simulator_ = *std::move(simulator);
    ASSERT_TRUE(simulator_->Load(200));
  }
  std::string Path() const { return scratch_ / "store"; }

  ScratchDirectory scratch_;
  std::unique_ptr<apiserver::Simulator> simulator_;
};

TEST_F(RunTest, FillsAStoreAndResumes) {
  const std::vector<std::string> words = {"run",
                                          "pods,ns",
                                          "--store",
                                          Path(),
                                          "--server",
                                          simulator_->Url(),
                                          "--until-synced",
                                          "--index",
                                          "pods:node=spec.nodeName",
                                          "--index",
                                          "po:label=app"};
  const Outcome first = RunLarder(words);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const Outcome pods = RunLarder({"get", "pods", "-A", "-o", "name", "--store", Path()});
  EXPECT_EQ(std::count(pods.out.begin(), pods.out.end(), '\n'), 200);
  EXPECT_NE(RunLarder({"index", "ls", "--store", Path()}).out.find("field:spec.nodeName"),
            std::string::npos);
  EXPECT_EQ(RunLarder({"diff", Path(), "--live", "--server", simulator_->Url()}).exit_code, 0);
  const auto objects = simulator_->StatsOf("pods").objects;
  EXPECT_EQ(RunLarder(words).exit_code, 0);
  // But for the one that tells whether the version was rewound, and the one for the version that
  // it has to reach.
  EXPECT_LE(simulator_->StatsOf("pods").objects, objects + 2);
}

TEST_F(RunTest, UntilSyncedBringsWhatHappenedSinceTheLastRun) {
  const std::vector<std::string> words = {
      "run", "pods", "--store", Path(), "--server", simulator_->Url(), "--until-synced"};
  ASSERT_EQ(RunLarder(words).exit_code, 0);
  simulator_->RunChurn(3'000, {});
  ASSERT_EQ(RunLarder(words).exit_code, 0);
  EXPECT_EQ(RunLarder({"diff", Path(), "--live", "--server", simulator_->Url()}).exit_code, 0);
}

TEST_F(RunTest, UntilSyncedEndsAlsoWhereChangesNeverDo) {
  const std::vector<std::string> words = {
      "run", "pods", "--store", Path(), "--server", simulator_->Url(), "--until-synced"};
  ASSERT_EQ(RunLarder(words).exit_code, 0);
  simulator_->StartChurn({.rate = 50});
  EXPECT_EQ(RunLarder(words).exit_code, 0);
  simulator_->StopChurn();
}

TEST_F(RunTest, ServesMetricsAndHealthAndStopsOnSigterm) {
  Background run(
      {"run", "pods", "--store", Path(), "--server", simulator_->Url(), "--listen", "127.0.0.1:0"});
  const std::string base = run.line().substr(0, run.line().rfind('/'));
  httplib::Client client(base);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  int status = 0;
  while (status != 200 && std::chrono::steady_clock::now() < deadline) {
    const auto answer = client.Get("/readyz");
    status = answer ? answer->status : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(status, 200) << run.line();
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_NE(metrics->body.find("cache_size"), std::string::npos) << metrics->body;
  const Outcome live = RunLarder({"get", "pods", "-A", "--limit", "1", "--store", Path()});
  EXPECT_EQ(live.exit_code, 0) << live.err;
  const Outcome doctor = RunLarder(
      {"doctor", "--store", Path(), "--metrics", run.line(), "--seconds", "0.6", "-o", "json"});
  EXPECT_EQ(doctor.exit_code, 0) << doctor.err << doctor.out;
  const Json report = Json::parse(doctor.out, nullptr, false);
  EXPECT_EQ(report["tables"][0]["title"], "Sync");
  EXPECT_NE(report.value("subject", "").find(Path() + ", process at "), std::string::npos)
      << report;
  EXPECT_EQ(run.Stop(SIGTERM), 0);
}

// The thread that drops the connections ends with the process under test.
TEST_F(RunTest, AnotherClusterAtTheSameAddressEndsIt) {
  std::jthread other([&](const std::stop_token& stop) {
    while (simulator_->StatsOf("pods").watches == 0 && !stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ASSERT_TRUE(simulator_->SetClusterUid("99999999-9999-4999-8999-999999999999"));
    simulator_->DropConnections();
  });
  const Outcome run = RunLarder({"run", "pods", "--store", Path(), "--server", simulator_->Url()});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_NE(run.err.find("another cluster"), std::string::npos) << run.err;
}

TEST_F(RunTest, UntilSyncedThatIsInterruptedIsNotDone) {
  simulator_->AddFault(
      {.type = apiserver::FaultType::kError, .resource = "pods", .times = -1, .code = 503});
  Background run({"run", "pods", "--store", Path(), "--server", simulator_->Url(), "--listen",
                  "127.0.0.1:0", "--until-synced"});
  EXPECT_EQ(run.Stop(SIGINT), 130);
}

TEST_F(RunTest, BadInputIsOneClearSentence) {
  const Outcome resource =
      RunLarder({"run", "gadgets", "--store", Path(), "--server", simulator_->Url()});
  EXPECT_EQ(resource.exit_code, 1) << resource.err;
  EXPECT_NE(resource.err.find("gadgets"), std::string::npos) << resource.err;
  const Outcome index =
      RunLarder({"run", "pods", "--store", Path(), "--server", simulator_->Url(), "--index", "x"});
  EXPECT_EQ(index.exit_code, 2) << index.err;
  const Outcome server =
      RunLarder({"run", "pods", "--store", Path(), "--server", "http://127.0.0.1:1"});
  EXPECT_EQ(server.exit_code, 3) << server.err;
  const Outcome memory = RunLarder(
      {"run", "pods", "--store", Path(), "--server", simulator_->Url(), "--memory-limit", "10"});
  EXPECT_EQ(memory.exit_code, 2) << memory.err;
  EXPECT_NE(memory.err.find("16 MiB"), std::string::npos) << memory.err;
  for (const char* listen : {"127.0.0.1:70000", "127.0.0.1:x", "here"}) {
    const Outcome port = RunLarder({"run", "pods", "--store", Path(), "--server", simulator_->Url(),
                                    "--until-synced", "--listen", listen});
    EXPECT_EQ(port.exit_code, 2) << listen;
    EXPECT_NE(port.err.find("65535"), std::string::npos) << port.err;
  }
  const Outcome secrets =
      RunLarder({"run", "secrets", "--store", Path(), "--server", simulator_->Url()});
  EXPECT_EQ(secrets.exit_code, 2) << secrets.err;
  EXPECT_NE(secrets.err.find("--encryption-key-file"), std::string::npos) << secrets.err;
  EXPECT_FALSE(std::filesystem::exists(Path())) << "what was misspelt leaves nothing behind";
  const Outcome refused =
      RunLarder({"run", "pods", "--store", Path(), "--server", simulator_->Url(), "--until-synced",
                 "--field-selector", "spec.colour=red"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_NE(refused.err.find("spec.colour"), std::string::npos) << refused.err;
}

TEST(SimulateTest, RefusesAPortThatDoesNotExist) {
  RunOptions options;
  options.signal = SIGINT;
  options.stop_when = [](const std::string& out) { return !out.empty(); };
  const Outcome port = RunLarder({"simulate", "--objects", "1", "--port", "70000"}, options);
  EXPECT_EQ(port.exit_code, 2) << port.out;
  EXPECT_NE(port.err.find("65535"), std::string::npos) << port.err;
}

TEST_F(RunTest, KubectlAppliesToTheSimulator) {
  if (RunLarder({"version", "--client"}, {.program = "kubectl"}).exit_code != 0) {
    GTEST_SKIP() << "kubectl is not installed";
  }
  const std::string file = scratch_ / "object.yaml";
  for (const char* value : {"a", "b"}) {
    std::ofstream(file)
        << "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n"
           "data: {k: "
        << value << "}\n";
    const Outcome apply =
        RunLarder({"-s", simulator_->Url(), "apply", "-f", file},
                  {.environment = {"HOME=" + scratch_.path()}, .program = "kubectl"});
    EXPECT_EQ(apply.exit_code, 0) << apply.err;
  }
  const auto object = simulator_->Get("configmaps", "default", "c");
  ASSERT_TRUE(object);
  EXPECT_EQ((*object)->ToMutable()["data"]["k"], "b");
}

TEST_F(RunTest, AKubeconfigThatIsNoUseIsBadInput) {
  ::mkdir(Path().c_str(), 0700);
  const std::string bad = scratch_ / "bad";
  std::ofstream(bad) << "clusters: {}\n: [";
  for (const std::string& file : {scratch_ / "none", Path(), bad}) {
    const Outcome run =
        RunLarder({"run", "pods", "--store", scratch_ / "new", "--kubeconfig", file});
    EXPECT_EQ(run.exit_code, 2) << file << run.err;
  }
}

TEST_F(RunTest, ATokenIsInNoLogAndInNoFileOfTheStore) {
  const std::string canary = "canary-5f0e9b";
  auto simulator = apiserver::Simulator::Start({.users = {{"admin", canary, {}}}});
  ASSERT_TRUE(simulator) << simulator.error().ToString();
  ASSERT_TRUE((*simulator)->Load(20));
  ASSERT_TRUE((*simulator)->WriteKubeconfig(scratch_ / "kubeconfig"));
  const std::vector<std::string> words = {
      "--log-level",           "trace",         "run", "pods", "--store", Path(), "--kubeconfig",
      scratch_ / "kubeconfig", "--until-synced"};
  const auto expect_no_canary = [&](const Outcome& outcome) {
    EXPECT_EQ((outcome.out + outcome.err).find(canary), std::string::npos) << outcome.err;
    size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path())) {
      if (!entry.is_regular_file()) continue;
      ++files;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(file), {});
      EXPECT_EQ(bytes.find(canary), std::string::npos) << entry.path();
    }
    EXPECT_GT(files, 5U);
  };

  const Outcome synced = RunLarder(words);
  ASSERT_EQ(synced.exit_code, 0) << synced.err;
  EXPECT_NE(synced.err.find("GET /api/v1/pods 200"), std::string::npos) << synced.err;
  expect_no_canary(synced);

  (*simulator)->SetUsers({{"admin", "another", {}}});
  const Outcome refused = RunLarder(words);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("Unauthorized"), std::string::npos) << refused.err;
  expect_no_canary(refused);
}

TEST(DoctorTest, ReportsOnAStoreAlone) {
  const ScratchDirectory scratch;
  FillSampleStore(scratch / "store");
  const std::string store = scratch / "store";
  const Outcome text = RunLarder({"doctor", "--store", store});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("warning pods has dead letters: 1 items"), std::string::npos) << text.out;
  const Outcome markdown = RunLarder({"doctor", "--store", store, "-o", "markdown"});
  EXPECT_NE(markdown.out.find("| collection | state |"), std::string::npos) << markdown.out;
  const Outcome html =
      RunLarder({"doctor", "--store", store, "-o", "html", "-f", scratch / "report.html"});
  ASSERT_EQ(html.exit_code, 0) << html.err;
  std::ifstream file(scratch / "report.html");
  std::ostringstream body;
  body << file.rdbuf();
  EXPECT_NE(body.str().find("<svg"), std::string::npos);
  EXPECT_EQ(body.str().find("http"), std::string::npos);  // fetches nothing
  EXPECT_EQ(RunLarder({"doctor"}).exit_code, 2);
  const Outcome nobody = RunLarder({"doctor", "--metrics", "http://127.0.0.1:1"});
  EXPECT_EQ(nobody.exit_code, 3);
  EXPECT_NE(nobody.err.find("nobody answers there"), std::string::npos) << nobody.err;
}

TEST(DoctorTest, WorkThatOnlyFailsIsAComplaint) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "store";
  {
    const auto store = Store::Open({.path = path});
    Transaction transaction = (*store)->Begin();
    const int64_t later = 4'000'000'000'000;
    transaction.PutQueueItem("pods", "a/b", 1,
                             {.added_ms = 1, .not_before_ms = later, .failures = 4});
    ASSERT_TRUE((*store)->Commit(std::move(transaction), Durability::kSync));
  }
  const Outcome text = RunLarder({"doctor", "--store", path});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("warning pods: items fail: 1 of 1 item "), std::string::npos) << text.out;
}

TEST(DoctorTest, WhatStoreAndProcessSayIsSaidOnce) {
  tools::DoctorInput input;
  input.moments.push_back({0, tools::Metrics::Parse("workqueue_depth{name=\"pods\"} 0\n"
                                                    "workqueue_dead_letters{name=\"pods\"} 3\n")});
  input.stats.emplace();
  input.queues.push_back({.name = "pods", .dead = 2});
  const tools::DoctorReport report = tools::Diagnose(input);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].evidence.substr(0, 2), "3 ");
}

TEST(DoctorTest, ARefusedResourceIsAProblem) {
  tools::DoctorInput input;
  input.moments.push_back(
      {0, tools::Metrics::Parse(
              "larder_reflector_state{collection=\"widgets\"} 7\n"
              "larder_reflector_state{collection=\"pods\"} 6\n"
              "larder_reflector_restarts_total{collection=\"widgets\",reason=\"NotFound\"} 12\n"
              "larder_reflector_restarts_total{collection=\"widgets\",reason=\"closed\"} 2\n"
              "larder_reflector_restarts_total{collection=\"pods\",reason=\"Gone\"} 1\n")});
  const tools::DoctorReport report = tools::Diagnose(input);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.Worst(), tools::Severity::kProblem);
  EXPECT_NE(report.findings[0].title.find("widgets"), std::string::npos);
  EXPECT_EQ(report.findings[0].evidence, "so far 12 NotFound");
}

TEST(MetricsTextTest, ReadsSamplesAndQuantiles) {
  const auto metrics = tools::Metrics::Parse(
      "# HELP x y\nx{a=\"1\",b=\"q\\\"\"} 2\nx{a=\"2\"} 3\ny 7 \n"
      "h_bucket{le=\"1\"} 50\nh_bucket{le=\"2\"} 100\nh_bucket{le=\"+Inf\"} 100\nbroken\n");
  EXPECT_EQ(metrics.Sum("x"), 5);
  EXPECT_EQ(metrics.Sum("x", {{"a", "1"}}), 2);
  EXPECT_EQ(metrics.Sum("none"), std::nullopt);
  EXPECT_EQ(metrics.Sum("y"), 7);
  EXPECT_EQ(metrics.ValuesOf("x", "a"), (std::vector<std::string>{"1", "2"}));
  EXPECT_DOUBLE_EQ(*metrics.Quantile("h", {}, 0.5), 1);
  EXPECT_DOUBLE_EQ(*metrics.Quantile("h", {}, 0.99), 1.98);
  EXPECT_EQ(metrics.Quantile("none", {}, 0.5), std::nullopt);
}

TEST_F(RunTest, NoColorIsForLogLinesToo) {
  RunOptions terminal;
  terminal.program = "script";
  for (const bool colour : {true, false}) {
    terminal.environment = {"TERM=xterm", colour ? "NO_COLOR=" : "NO_COLOR=1"};
    const Outcome run = RunLarder(
        {"-qec",
         std::string(LARDER_COMMAND) + " run pods --until-synced --log-level info --store " +
             Path() + (colour ? "a" : "b") + " --server " + simulator_->Url(),
         "/dev/null"},
        terminal);
    EXPECT_NE(run.out.find(": listed "), std::string::npos) << run.out << run.err;
    EXPECT_EQ(run.out.find("\033[32minfo") != std::string::npos, colour) << run.out;
  }
}

// `run` and `diff` read the file of that option.
TEST(SimulateTest, AKubeconfigOfSomebodyElseIsLeftAlone) {
  const ScratchDirectory scratch;
  const std::string mine = "apiVersion: v1\nkind: Config\n";
  std::ofstream(scratch / "mine") << mine;
  RunOptions until_it_serves;
  until_it_serves.signal = SIGTERM;
  until_it_serves.stop_when = [](const std::string& out) { return !out.empty(); };
  const Outcome refused =
      RunLarder({"simulate", "--tls", "--kubeconfig", scratch / "mine"}, until_it_serves);
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_NE(refused.err.find("was not written by larder simulate"), std::string::npos)
      << refused.err;
  std::stringstream left;
  left << std::ifstream(scratch / "mine").rdbuf();
  EXPECT_EQ(left.str(), mine);
  // Its own from an earlier start is replaced, by one that is its owner's, too.
  const std::string own = scratch / "own";
  for (int times = 0; times < 2; ++times) {
    const Background simulator({"simulate", "--objects", "1", "--tls", "--kubeconfig", own});
    struct stat info {};
    ASSERT_EQ(::stat(own.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
    ::chmod(own.c_str(), 0644);
  }
}

}  // namespace
}  // namespace larder
