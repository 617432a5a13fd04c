// `larder serve` with the real kubectl, and with a plain client where there is none.
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "apiserver/simulator.h"
#include "client/api_client.h"
#include "client/config.h"
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
    ASSERT_EQ(server_->line().rfind("https://127.0.0.1:", 0), 0u) << server_->line();
  }
  // Another one, for a plain client.
  const std::string& OpenUrl() {
    if (!open_) {
      open_ = std::make_unique<Background>(
          std::vector<std::string>{"serve", "--store", Path(), "--no-token"});
    }
    return open_->line();
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
  std::unique_ptr<Background> server_, open_;
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
  auto config = LoadKubeconfig(scratch_ / "kubeconfig");
  ASSERT_TRUE(config) << config.error().ToString();
  auto transport = MakeTransport(*config);
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
  const std::string url = OpenUrl();
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
  const Background named(
      {"serve", "--store", Path(), "--allow-host", "store.example", "--no-token"});
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
  httplib::Client client(OpenUrl());
  for (const char* parameter : {"limit=x", "limit=-1", "resourceVersion=abc",
                                "watch=1&resourceVersion=abc", "watch=1&timeoutSeconds=x"}) {
    const auto answer = client.Get(std::string("/api/v1/pods?") + parameter);
    ASSERT_TRUE(answer) << parameter;
    EXPECT_EQ(answer->status, 400) << parameter << answer->body;
    EXPECT_EQ(Json::parse(answer->body, nullptr, false)["reason"], "BadRequest");
  }
}

// Other users of the machine reach the port, and the owner of the store alone the kubeconfig.
TEST_F(ServeTest, WhoHasNoTokenReadsNothing) {
  httplib::Client client(server_->line());
  client.enable_server_certificate_verification(false);
  const auto status = [&](const std::string& path, const std::string& authorization) {
    httplib::Headers headers;
    if (!authorization.empty()) headers.emplace("Authorization", authorization);
    const auto answer = client.Get(path, headers);
    return answer ? answer->status : 0;
  };
  std::ifstream file(scratch_ / "kubeconfig");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t begin = text.find("token: \"") + 8;
  const std::string token = text.substr(begin, text.find('"', begin) - begin);
  ASSERT_GE(token.size(), 43u) << text;
  std::string wrong = token;
  wrong.back() = wrong.back() == 'A' ? 'B' : 'A';
  for (const char* path : {"/api", "/apis", "/openapi/v3", "/api/v1/pods", "/api/v1/pods?watch=1",
                           "/api/v1/namespaces/shop/pods/db-0", "/nowhere"}) {
    for (const std::string& authorization :
         {std::string(), "Bearer " + wrong, "Bearer " + token + "x", std::string("Bearer "),
          token}) {
      EXPECT_EQ(status(path, authorization), 401) << path << " " << authorization;
    }
  }
  EXPECT_EQ(status("/api/v1/pods", "Bearer " + token), 200);
  for (const char* path : {"/healthz", "/readyz", "/livez", "/version"}) {
    EXPECT_EQ(status(path, ""), 200) << path;
  }
  struct stat info {};
  ASSERT_EQ(::stat((scratch_ / "kubeconfig").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(ServeTest, AKubeconfigOfSomebodyElseIsLeftAlone) {
  // Its own from an earlier start is replaced.
  {
    const Background again(
        {"serve", "--store", Path(), "--write-kubeconfig", scratch_ / "kubeconfig"});
  }
  const std::string mine = "apiVersion: v1\nkind: Config\n";
  std::ofstream(scratch_ / "mine") << mine;
  const Outcome refused =
      RunLarder({"serve", "--store", Path(), "--write-kubeconfig", scratch_ / "mine"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("was not written by larder serve"), std::string::npos) << refused.err;
  std::ifstream file(scratch_ / "mine");
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()),
            mine);
}

TEST_F(ServeTest, ATokenMayBeChosenOrDoneWithout) {
  std::ofstream(scratch_ / "token") << "chosen-one\n";
  const std::vector<std::string> chosen = {"serve", "--store", Path(), "--token-file",
                                           scratch_ / "token"};
  ::chmod((scratch_ / "token").c_str(), 0644);
  const Outcome open = RunLarder(chosen);
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_NE(open.err.find("chmod 600"), std::string::npos) << open.err;
  ::chmod((scratch_ / "token").c_str(), 0600);
  const Background server(chosen);
  httplib::Client client(server.line());
  client.enable_server_certificate_verification(false);
  const auto answer = client.Get("/api/v1/pods", {{"Authorization", "Bearer chosen-one"}});
  EXPECT_TRUE(answer && answer->status == 200);
  RunOptions options;
  options.signal = SIGINT;
  options.stop_when = [](const std::string& out) { return !out.empty(); };
  const Outcome without = RunLarder({"serve", "--store", Path(), "--no-token"}, options);
  EXPECT_EQ(without.out.rfind("http://127.0.0.1:", 0), 0u) << without.out;
  EXPECT_NE(without.err.find("warning: --no-token"), std::string::npos) << without.err;
  EXPECT_NE(RunLarder({"serve", "--store", Path(), "--no-token", "--token-file", "x"}).exit_code,
            0);
}

// What is printed works as it stands, also where no file was asked for, and leaves nothing behind.
TEST_F(ServeTest, TheCommandThatItPrintsWorks) {
  SKIP_WITHOUT_KUBECTL();
  RunOptions options;
  options.signal = SIGINT;
  options.environment = {"TMPDIR=" + scratch_.path(), "HOME=" + scratch_.path()};
  Outcome list;
  options.stop_when = [&](const std::string& out) {
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
      const std::string config = entry.path() / "kubeconfig";
      if (out.empty() || !std::filesystem::exists(config) || entry.path() == scratch_ / "store") {
        continue;
      }
      list = RunLarder({"--kubeconfig", config, "get", "pods", "-A"}, {.program = "kubectl"});
      return true;
    }
    return false;
  };
  const Outcome server = RunLarder({"serve", "--store", Path()}, options);
  EXPECT_EQ(server.exit_code, 0) << server.err;
  EXPECT_NE(server.err.find("kubectl --kubeconfig " + scratch_.path() + "/larder-serve-"),
            std::string::npos)
      << server.err;
  EXPECT_NE(list.out.find("web-0"), std::string::npos) << list.out << list.err;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
    EXPECT_EQ(entry.path().filename().string().find("larder-serve-"), std::string::npos);
  }
}

TEST_F(ServeTest, ADefinitionThatIsMetadataOnlyHasASchemaToo) {
  for (const char* rest :
       {"}", R"(,"spec":null})", R"(,"spec":{"versions":["v1",{"name":1},{"name":"v1"}]}})",
        R"(,"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":"x"}}]}})"}) {
    {
      const auto store = Store::Open({.path = Path()});
      PutObject(**store, "customresourcedefinitions",
                R"({"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{
                    "name":"widgets.example.com","uid":"crd","resourceVersion":"30"})" +
                    std::string(rest));
    }
    open_.reset();
    httplib::Client client(OpenUrl());
    const auto answer = client.Get("/openapi/v3/apis/example.com/v1");
    ASSERT_TRUE(answer) << rest;
    ASSERT_EQ(answer->status, 200) << rest << answer->body;
    const Json schemas = Json::parse(answer->body, nullptr, false)
                             .value("components", Json::object())
                             .value("schemas", Json::object());
    ASSERT_EQ(schemas.size(), 1U) << answer->body;
    EXPECT_EQ(schemas.front().value("type", ""), "object") << answer->body;
  }
}

TEST_F(ServeTest, AnAddressOfIpv6IsSpelledWithBrackets) {
  for (const char* listen : {"[::1]:0", "::1:0"}) {
    const Background server({"serve", "--store", Path(), "--listen", listen, "--no-token"});
    if (server.line().empty()) GTEST_SKIP() << "there is no IPv6 here";
    EXPECT_EQ(server.line().rfind("http://[::1]:", 0), 0u) << server.line();
    httplib::Client client("::1", std::stoi(server.line().substr(server.line().rfind(':') + 1)));
    const auto answer = client.Get("/api/v1/pods");
    EXPECT_TRUE(answer && answer->status == 200) << listen;
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
