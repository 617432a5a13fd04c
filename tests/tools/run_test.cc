// `larder run` and `larder doctor` on a simulated cluster.
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "apiserver/simulator.h"
#include "tests/tools/background.h"
#include "tests/tools/sample_store.h"
#include "tools/doctor/metrics_text.h"

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
                                          "pods",
                                          "ns",
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
  // But for the one that tells whether the version was rewound.
  EXPECT_LE(simulator_->StatsOf("pods").objects, objects + 1);
}

TEST_F(RunTest, UntilSyncedBringsWhatHappenedSinceTheLastRun) {
  const std::vector<std::string> words = {
      "run", "pods", "--store", Path(), "--server", simulator_->Url(), "--until-synced"};
  ASSERT_EQ(RunLarder(words).exit_code, 0);
  simulator_->RunChurn(3'000, {});
  ASSERT_EQ(RunLarder(words).exit_code, 0);
  EXPECT_EQ(RunLarder({"diff", Path(), "--live", "--server", simulator_->Url()}).exit_code, 0);
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
  EXPECT_EQ(run.Stop(SIGTERM), 0);
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
  EXPECT_EQ(RunLarder({"doctor", "--metrics", "http://127.0.0.1:1"}).exit_code, 3);
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

}  // namespace
}  // namespace larder
