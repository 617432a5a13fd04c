// client-go's informer on `larder serve`: it lists or streams the store and follows what the
// store's owner commits. Run by `./dev kube test`, which builds the peer of the benchmarks in Go.
#include <gtest/gtest.h>
#include <httplib.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "schema/object.h"
#include "tests/tools/background.h"
#include "tests/tools/process.h"

namespace larder {
namespace {

constexpr int kPodCount = 300;

struct Way {
  const char* media;
  const char* stream;
};

class ClientGoTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    const char* const program = std::getenv("LARDER_CLIENT_GO");
    if (!program) GTEST_SKIP() << "run by ./dev kube test, where there is Go";
    program_ = program;
    cluster_ = std::make_unique<Background>(
        std::vector<std::string>{"simulate", "--objects", std::to_string(kPodCount)});
    std::vector<std::string> run = {
        "run",      "pods",           "--store",       scratch_ / "store",
        "--server", cluster_->line(), "--until-synced"};
    const Outcome filled = RunLarder(run);
    ASSERT_EQ(filled.exit_code, 0) << filled.err;
    run.back() = "--listen";
    run.emplace_back("127.0.0.1:0");
    owner_ = std::make_unique<Background>(run);
    server_ = std::make_unique<Background>(
        std::vector<std::string>{"serve", "--store", scratch_ / "store", "--no-token"});
  }

  // Writes a mark that the peer waits for into a pod of the cluster.
  void Mark(const std::string& mark) {
    const Outcome pod = RunLarder({"get", "pods", "-A", "--limit", "1", "--no-headers", "-o",
                                   "custom-columns=A:.metadata.namespace,B:.metadata.name",
                                   "--store", scratch_ / "store"});
    std::istringstream words(pod.out);
    std::string ns, name;
    words >> ns >> name;
    httplib::Client client(cluster_->line());
    const auto answer = client.Patch(
        "/api/v1/namespaces/" + ns + "/pods/" + name,
        Json{{"metadata", {{"annotations", {{"bench.larder.dev/mark", mark}}}}}}.dump(),
        "application/merge-patch+json");
    ASSERT_TRUE(answer) << ns << "/" << name;
    EXPECT_EQ(answer->status, 200) << answer->body;
  }

  ScratchDirectory scratch_;
  std::string program_;
  std::unique_ptr<Background> cluster_, owner_, server_;
};

TEST_P(ClientGoTest, InformerSyncsAndFollows) {
  RunOptions options;
  options.program = program_;
  options.environment = {std::string("KUBE_FEATURE_WatchListClient=") + GetParam().stream};
  options.signal = SIGKILL;  // if it never hears of the mark
  bool marked = false;
  options.stop_when = [&](const std::string& out) {
    // Only then is it a watch that brings the change.
    if (!marked && out.find("steady_mib") != std::string::npos) {
      marked = true;
      Mark("changed");
    }
    return false;
  };
  const Outcome peer = RunLarder(
      {"sync", "-server", server_->line(), "-media", GetParam().media, "-follow", "changed"},
      options);
  EXPECT_EQ(peer.exit_code, 0) << peer.out << peer.err;
  const Json synced = Json::parse(peer.out.substr(0, peer.out.find('\n')), nullptr, false);
  ASSERT_TRUE(synced.is_object()) << peer.out << peer.err;
  EXPECT_EQ(synced["objects"], kPodCount);
  EXPECT_EQ(synced["handled"], kPodCount);
  EXPECT_TRUE(marked);
}

INSTANTIATE_TEST_SUITE_P(Ways, ClientGoTest,
                         ::testing::Values(Way{"json", "false"}, Way{"json", "true"},
                                           Way{"protobuf", "false"}, Way{"protobuf", "true"}),
                         [](const auto& way) {
                           return std::string(way.param.media) +
                                  (way.param.stream[0] == 't' ? "Streamed" : "Listed");
                         });

}  // namespace
}  // namespace larder
