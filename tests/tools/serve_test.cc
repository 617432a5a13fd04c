// `larder serve` with the real kubectl, and with a plain client where there is none.
#include <gtest/gtest.h>
#include <httplib.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "apiserver/simulator.h"
#include "client/api_client.h"
#include "informer/shared_informer.h"
#include "tests/tools/background.h"
#include "tests/tools/sample_store.h"
#include "tools/serve/host_filter.h"

namespace larder {
namespace {

bool HasKubectl() {
  static const bool has = RunLarder({"version", "--client"}, {.program = "kubectl"}).exit_code == 0;
  return has;
}

class ServeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FillSampleStore(Path());
    server_ = std::make_unique<Background>(std::vector<std::string>{
        "serve", "--store", Path(), "--write-kubeconfig", scratch_ / "kubeconfig"});
    ASSERT_EQ(server_->line().rfind("http://127.0.0.1:", 0), 0u) << server_->line();
  }
  std::string Path() const { return scratch_ / "store"; }

  RunOptions KubectlOptions() const {
    RunOptions options;
    options.program = "kubectl";
    options.environment = {"KUBECONFIG=" + (scratch_ / "kubeconfig"), "HOME=" + scratch_.path()};
    return options;
  }
  Outcome Kubectl(const std::vector<std::string>& words) const {
    return RunLarder(words, KubectlOptions());
  }
  Outcome Larder(std::vector<std::string> words) const {
    words.insert(words.end(), {"--store", Path()});
    return RunLarder(words);
  }

  ScratchDirectory scratch_;
  std::unique_ptr<Background> server_;
};

#define SKIP_WITHOUT_KUBECTL() \
  if (!HasKubectl()) GTEST_SKIP() << "kubectl is not installed"

TEST_F(ServeTest, KubectlShowsTheSameTables) {
  SKIP_WITHOUT_KUBECTL();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"get", "pods", "-n", "shop"},
           {"get", "pods", "-A"},
           {"get", "po", "-A", "-o", "wide"},
           {"get", "pods", "-n", "shop", "-l", "app=web"},
           {"get", "pods", "-n", "shop", "--field-selector", "metadata.name=db-0"},
           {"get", "pods", "-n", "shop", "--field-selector", "spec.hostNetwork=false"},
           {"get", "nodes", "--field-selector", "spec.unschedulable=false"},
           {"get", "pods", "-A", "--show-labels"},
           {"get", "pods", "-A", "-L", "app"},
           {"get", "deploy,rs", "-n", "shop"},
           {"get", "nodes"},
           {"get", "events", "-n", "shop"},
           {"get", "wd", "-n", "shop", "-o", "wide"},
           {"get", "crd"},
           {"get", "pod/web-0", "deploy/web", "-n", "shop"},
           {"get", "pods", "-A", "-o", "name"},
           {"get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.name}"},
           {"get", "pods", "-A", "-o", "custom-columns=N:.metadata.name,P:.status.phase"},
           {"get", "pods", "-A", "--sort-by", ".metadata.name", "--no-headers"},
           {"get", "pod", "db-0", "-n", "shop", "-o", "yaml"},
           {"get", "pods", "-n", "shop", "-o", "yaml"}}) {
    const Outcome theirs = Kubectl(words), ours = Larder(words);
    EXPECT_EQ(theirs.exit_code, 0) << theirs.err;
    EXPECT_EQ(ours.exit_code, 0) << ours.err;
    EXPECT_EQ(theirs.out, ours.out) << ::testing::PrintToString(words);
    EXPECT_NE(theirs.out, "") << ::testing::PrintToString(words);
  }
}

TEST_F(ServeTest, KubectlGetsTheSameDocuments) {
  SKIP_WITHOUT_KUBECTL();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"get", "pods", "-n", "shop", "-o", "json"},
           {"get", "pod", "web-0", "-n", "shop", "-o", "json", "--show-managed-fields"},
           {"get", "wd", "small", "-n", "shop", "-o", "json"}}) {
    const Outcome theirs = Kubectl(words), ours = Larder(words);
    EXPECT_EQ(Json::parse(theirs.out, nullptr, false), Json::parse(ours.out, nullptr, false))
        << theirs.err << ours.err;
  }
}

TEST_F(ServeTest, KubectlDiscoversDescribesAndExplains) {
  SKIP_WITHOUT_KUBECTL();
  const Outcome resources = Kubectl({"api-resources"});
  EXPECT_EQ(resources.exit_code, 0) << resources.err;
  EXPECT_NE(resources.out.find("widgets"), std::string::npos) << resources.out;
  EXPECT_NE(resources.out.find("deploy"), std::string::npos);
  const Outcome describe = Kubectl({"describe", "pod", "web-0", "-n", "shop"});
  EXPECT_EQ(describe.exit_code, 0) << describe.err;
  EXPECT_NE(describe.out.find("ReplicaSet/web-1"), std::string::npos) << describe.out;
  EXPECT_NE(describe.out.find("it fell over"), std::string::npos) << describe.out;
  const Outcome custom = Kubectl({"describe", "widget", "small", "-n", "shop"});
  EXPECT_NE(custom.out.find("Colour:"), std::string::npos) << custom.out << custom.err;
  EXPECT_EQ(Kubectl({"version"}).exit_code, 0);
  const Outcome explain = Kubectl({"explain", "widgets"});
  EXPECT_EQ(explain.exit_code, 0) << explain.err;
}

TEST_F(ServeTest, WritesAreRefusedAndMissingThingsAreNotFound) {
  SKIP_WITHOUT_KUBECTL();
  const Outcome removed = Kubectl({"delete", "pod", "web-0", "-n", "shop"});
  EXPECT_NE(removed.exit_code, 0);
  EXPECT_NE(removed.err.find("read-only"), std::string::npos) << removed.err;
  const Outcome missing = Kubectl({"get", "pod", "nobody", "-n", "shop"});
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_NE(missing.err.find("pods \"nobody\" not found"), std::string::npos) << missing.err;
}

TEST_F(ServeTest, KubectlPagesThroughALongList) {
  SKIP_WITHOUT_KUBECTL();
  {
    const auto store = Store::Open({.path = Path()});
    ASSERT_TRUE(store);
    Transaction transaction = (*store)->Begin();
    for (int i = 0; i < 40; ++i) PutPod(**store, "p-" + std::to_string(i), "Running", "9");
  }
  const auto count = [&] {
    const Outcome list = Kubectl({"get", "pods", "-A", "-o", "name", "--chunk-size", "7"});
    return std::count(list.out.begin(), list.out.end(), '\n');
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (count() != 43 && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_EQ(count(), 43);
}

TEST_F(ServeTest, KubectlWatchesALiveStore) {
  SKIP_WITHOUT_KUBECTL();
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  std::jthread changes([&](const std::stop_token& stop) {
    for (int version = 100; !stop.stop_requested(); version += 3) {
      PutPod(**owner, "new-0", "Pending", std::to_string(version));
      PutPod(**owner, "new-0", "Running", std::to_string(version + 1));
      // The server looks at the store from time to time: what comes and goes in between it misses.
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      DeletePod(**owner, "new-0", std::to_string(version + 2));
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  });
  RunOptions options = KubectlOptions();
  options.signal = SIGINT;
  options.stop_when = [](const std::string& out) {
    return out.find("DELETED    new-0") != std::string::npos;
  };
  const Outcome watch =
      RunLarder({"get", "pods", "-n", "shop", "-w", "--output-watch-events"}, options);
  EXPECT_NE(watch.out.find("ADDED"), std::string::npos) << watch.out << watch.err;
  EXPECT_NE(watch.out.find("DELETED    new-0"), std::string::npos) << watch.out << watch.err;
}

TEST_F(ServeTest, AnInformerSyncsFromItAndFollows) {
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  auto transport = MakeTransport(ForUrl(server_->line()));
  ASSERT_TRUE(transport);
  const auto copy = Store::Open({.path = "copy", .in_memory = true});
  ASSERT_TRUE(copy);
  InformerOptions options;
  options.resource = *LookupResource("pods");
  InformerContext context;
  context.store = copy->get();
  context.transport = transport->get();
  context.cluster_uid = "x";
  auto pods = SharedInformer::Open(context, options);
  ASSERT_TRUE(pods) << pods.error().ToString();
  (*pods)->Start();
  const auto deadline = RealClock()->Now() + std::chrono::seconds(30);
  ASSERT_TRUE((*pods)->WaitForSync(deadline, {}));
  EXPECT_EQ(*(*pods)->GetIndexer().Count(), 3u);
  PutPod(**owner, "new-0", "Running", "100");
  DeletePod(**owner, "db-0", "101");
  const auto there = [&] {
    return (*pods)->GetIndexer().GetByKey({"shop", "new-0"}).has_value() &&
           !(*pods)->GetIndexer().GetByKey({"shop", "db-0"}).has_value();
  };
  while (!there() && RealClock()->Now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(there());
  (*pods)->Stop();
}

// A page that DNS rebinding led here still calls it by the page's name.
TEST_F(ServeTest, AnswersOnlyToItsOwnNames) {
  const auto status = [&](const std::string& url, const std::string& host) {
    httplib::Client client(url);
    const auto answer = client.Get("/api/v1/pods", {{"Host", host}});
    return answer ? answer->status : 0;
  };
  const std::string url = server_->line();
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1:80", "127.0.0.2", "[::1]:80"}) {
    EXPECT_EQ(status(url, host), 200) << host;
  }
  for (const char* host :
       {"evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", "localhost.x"}) {
    EXPECT_EQ(status(url, host), 403) << host;
  }
  httplib::Client client(url);
  const auto answer = client.Get("/api/v1/pods", {{"Host", "evil.example"}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(Json::parse(answer->body, nullptr, false)["kind"], "Status") << answer->body;
  const Background named({"serve", "--store", Path(), "--allow-host", "store.example"});
  EXPECT_EQ(status(named.line(), "Store.Example:443"), 200);
  EXPECT_EQ(status(named.line(), "evil.example"), 403);
}

TEST(HostFilterTest, OfAWildcardEveryAddressIsAllowedAndNoName) {
  const tools::HostFilter hosts("0.0.0.0", {});
  EXPECT_TRUE(hosts.Allows("10.1.2.3:8080"));
  EXPECT_TRUE(hosts.Allows("[fd00::1]:8080"));
  EXPECT_FALSE(hosts.Allows("node-1:8080"));
  EXPECT_FALSE(hosts.Allows(""));
}

TEST_F(ServeTest, ParametersThatAreNoNumbersAreRefused) {
  httplib::Client client(server_->line());
  for (const char* parameter : {"limit=x", "limit=-1", "resourceVersion=abc",
                                "watch=1&resourceVersion=abc", "watch=1&timeoutSeconds=x"}) {
    const auto answer = client.Get(std::string("/api/v1/pods?") + parameter);
    ASSERT_TRUE(answer) << parameter;
    EXPECT_EQ(answer->status, 400) << parameter << answer->body;
    EXPECT_EQ(Json::parse(answer->body, nullptr, false)["reason"], "BadRequest");
  }
}

TEST_F(ServeTest, ListensOnLoopbackUnlessToldOtherwise) {
  const Outcome open = RunLarder({"serve", "--store", Path(), "--listen", "0.0.0.0:0"});
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_NE(open.err.find("--allow-remote"), std::string::npos) << open.err;
  EXPECT_EQ(RunLarder({"serve", "--store", Path(), "--listen", "here"}).exit_code, 2);
  EXPECT_EQ(server_->Stop(SIGTERM), 0);
}

}  // namespace
}  // namespace larder
