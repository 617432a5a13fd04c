// The server as a whole: start and stop, TLS, users, statistics, history.
#include <gmock/gmock.h>
#include <httplib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "apiserver/workload.h"
#include "tests/apiserver/simulator_fixture.h"

namespace larder::apiserver {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class ServerTest : public SimulatorTest {
 protected:
  // A file with the text, gone with the test.
  std::string TempFile(const std::string& name, const std::string& text) {
    const std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) /
        (std::to_string(getpid()) + "-" +
         testing::UnitTest::GetInstance()->current_test_info()->name() + "-" + name);
    std::ofstream(path) << text;
    files_.push_back(path);
    return path;
  }
  void TearDown() override {
    for (const std::filesystem::path& file : files_) std::filesystem::remove(file);
  }

 private:
  std::vector<std::filesystem::path> files_;
};

TEST_F(ServerTest, APortInUseIsAnErrorThatNamesIt) {
  const Result<std::unique_ptr<Simulator>> second = Simulator::Start({.port = simulator_->Port()});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(simulator_->Port())));
}

TEST_F(ServerTest, StopsAtOnceWithOpenWatchesAndIdleConnections) {
  std::vector<std::unique_ptr<WatchReader>> watches;
  for (int i = 0; i < 50; ++i) {
    watches.push_back(std::make_unique<WatchReader>(
        address(), "/api/v1/pods?watch=1&resourceVersion=" + Version()));
  }
  for (const auto& watch : watches) ASSERT_EQ(watch->Code(), 200);
  httplib::Client idle(simulator_->Url());
  idle.set_keep_alive(true);
  ASSERT_TRUE(idle.Get("/readyz"));
  const auto start = std::chrono::steady_clock::now();
  simulator_->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
  for (const auto& watch : watches) EXPECT_TRUE(watch->Ended());
}

TEST_F(ServerTest, AWatcherThatDoesNotReadHoldsNobodyUp) {
  ASSERT_TRUE(simulator_->Load(10));
  // Connects, asks, and never reads.
  httplib::Client silent(simulator_->Url());
  std::mutex gate;
  std::unique_lock hold(gate);
  std::thread stuck([&] {
    silent.Get("/api/v1/pods?watch=1", [&](const char*, size_t) {
      const std::lock_guard wait(gate);
      return false;
    });
  });
  WatchReader reader(address(), "/api/v1/pods?watch=1&resourceVersion=" + Version());
  ASSERT_EQ(reader.Code(), 200);
  // More than the kernel buffers for a connection.
  simulator_->RunChurn(2000);
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(reader.NextLine()) << i;
  const auto start = std::chrono::steady_clock::now();
  simulator_->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
  hold.unlock();
  stuck.join();
}

TEST_F(ServerTest, ServesTlsWithItsOwnAuthority) {
  StartWith({.tls = true});
  EXPECT_THAT(simulator_->Url(), HasSubstr("https://"));
  const ServerAddress trusted{simulator_->Url(), "", TempFile("ca", simulator_->CaCertificate())};
  EXPECT_EQ(ApiClient(trusted).Get("/readyz").code, 200);
  WatchReader watch(trusted, std::string(kConfigMaps) + "?watch=1&resourceVersion=" + Version());
  ASSERT_EQ(watch.Code(), 200);
  EXPECT_EQ(ApiClient(trusted).Post(kConfigMaps, {{"metadata", {{"name", "a"}}}}).code, 201);
  EXPECT_EQ(Summary(watch.Next()), "ADDED default/a");
  // Somebody else's authority does not vouch for it.
  const Result<std::unique_ptr<Simulator>> other = Simulator::Start({.tls = true});
  ASSERT_TRUE(other);
  const ServerAddress wrong{simulator_->Url(), "", TempFile("wrong", (*other)->CaCertificate())};
  EXPECT_EQ(ApiClient(wrong).Get("/readyz").code, 0);
}

TEST_F(ServerTest, ACertificateOfAnotherHostIsNotAccepted) {
  StartWith({.tls = true, .certificate_hosts = {"elsewhere.example.com"}});
  const ServerAddress address{simulator_->Url(), "", TempFile("ca", simulator_->CaCertificate())};
  EXPECT_EQ(ApiClient(address).Get("/readyz").code, 0);
}

TEST_F(ServerTest, KnowsUsersByTokenAndForbidsWhatTheyMayNot) {
  StartWith({.users = {{.name = "alice", .token = "t1"},
                       {.name = "bob", .token = "t2", .forbidden = {"secrets", "list:pods"}}}});
  const auto code = [&](const std::string& token, const std::string& path) {
    return ApiClient({simulator_->Url(), token, ""}).Get(path).code;
  };
  EXPECT_EQ(code("", "/api/v1/pods"), 401);
  EXPECT_EQ(code("nonsense", "/api/v1/pods"), 401);
  EXPECT_EQ(code("", "/readyz"), 200);
  EXPECT_EQ(code("t1", "/api/v1/secrets"), 200);
  EXPECT_EQ(code("t2", "/api/v1/secrets"), 403);
  EXPECT_EQ(code("t2", "/api/v1/pods"), 403);
  EXPECT_EQ(code("t2", "/api/v1/nodes"), 200);
  const Json denied =
      ApiClient({simulator_->Url(), "t2", ""}).Get("/api/v1/namespaces/default/pods").json();
  EXPECT_EQ(denied["reason"], "Forbidden");
  EXPECT_EQ(
      denied["message"],
      "pods is forbidden: User \"bob\" cannot list resource \"pods\" in API group \"\" in the "
      "namespace \"default\"");
  // A token expires.
  simulator_->SetUsers({{.name = "alice", .token = "t9"}});
  EXPECT_EQ(code("t1", "/api/v1/pods"), 401);
  EXPECT_EQ(code("t9", "/api/v1/pods"), 200);
}

TEST_F(ServerTest, KnowsUsersByClientCertificate) {
  StartWith({.tls = true, .users = {{.name = "carol"}}});
  const auto pair = simulator_->ClientCertificate("carol");
  ASSERT_TRUE(pair);
  const std::string ca = TempFile("ca", simulator_->CaCertificate());
  const std::string certificate = TempFile("cert", pair->first);
  const std::string key = TempFile("key", pair->second);
  httplib::Client with(simulator_->Url(), certificate, key);
  with.set_ca_cert_path(ca);
  const httplib::Result allowed = with.Get("/api/v1/pods");
  ASSERT_TRUE(allowed);
  EXPECT_EQ(allowed->status, 200);
  EXPECT_EQ(ApiClient({simulator_->Url(), "", ca}).Get("/api/v1/pods").code, 401);
}

TEST_F(ServerTest, WritesAKubeconfigForItsOwnerOnly) {
  StartWith({.tls = true, .users = {{.name = "alice", .token = "t1"}}});
  const std::string path = TempFile("kubeconfig", "");
  std::filesystem::remove(path);
  ASSERT_TRUE(simulator_->WriteKubeconfig(path));
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  std::ifstream file(path);
  std::string mark;
  std::getline(file, mark);
  EXPECT_EQ(mark, "# Written by larder simulate.");
  const Json config = Json::parse(file);
  EXPECT_EQ(config["clusters"][0]["cluster"]["server"], simulator_->Url());
  EXPECT_EQ(config["users"][0]["user"]["token"], "t1");
  EXPECT_FALSE(simulator_->WriteKubeconfig("/no/such/directory/config"));
}

// kubectl asks for a name and a password where a server with TLS has no user.
TEST_F(ServerTest, AKubeconfigOfAServerWithTlsHasAToken) {
  StartWith({.tls = true});
  const Json config = Json::parse(simulator_->Kubeconfig());
  EXPECT_FALSE(config["users"][0]["user"].value("token", "").empty());
}

// kubectl applies to a server that says by OpenAPI that it validates.
TEST_F(ServerTest, OpenApiSaysWhatCanBePatched) {
  const Json root = client_->Get("/openapi/v3").json();
  EXPECT_EQ(root["paths"]["apis/apps/v1"]["serverRelativeURL"], "/openapi/v3/apis/apps/v1");
  const Json core = client_->Get("/openapi/v3/api/v1").json();
  const Json& patch = core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
  EXPECT_EQ(patch["x-kubernetes-group-version-kind"]["kind"], "Pod") << core;
  EXPECT_EQ(patch["parameters"][0]["name"], "fieldValidation");
  EXPECT_EQ(client_->Get("/openapi/v3/api/v9").code, 404);
}

TEST_F(ServerTest, CountsRequestsObjectsAndBytes) {
  ASSERT_TRUE(simulator_->Load(20));
  const HttpAnswer list = client_->Get("/api/v1/pods?limit=15");
  client_->Get("/api/v1/pods?continue=" + list.json()["metadata"]["continue"].get<std::string>());
  client_->Get("/api/v1/namespaces/x/pods/none");
  const ResourceStats stats = simulator_->StatsOf("pods");
  EXPECT_EQ(stats.lists, 2U);
  EXPECT_EQ(stats.gets, 1U);
  EXPECT_EQ(stats.objects, 20U);
  EXPECT_EQ(stats.errors, 1U);
  EXPECT_GT(stats.bytes, list.body.size());
  const Json over_http = client_->Get("/simulator/stats").json();
  EXPECT_EQ(over_http["resources"]["pods"]["lists"], 2);
  EXPECT_EQ(client_->Post("/simulator/stats/reset", Json()).code, 200);
  EXPECT_EQ(simulator_->StatsOf("pods").lists, 0U);
}

TEST_F(ServerTest, KeepsItsWholeHistory) {
  const uint64_t start = simulator_->Version();
  const Json made = MakeConfigMap("a");
  ASSERT_TRUE(simulator_->Patch("configmaps", "default", "a", R"({"data":{"k":"2"}})"));
  ASSERT_TRUE(simulator_->Delete("configmaps", "default", "a"));
  simulator_->ExpireHistory();
  const std::vector<HistoryEntry> history = simulator_->History(start);
  ASSERT_EQ(history.size(), 3U);
  EXPECT_EQ(history[0].type, EventType::kAdded);
  EXPECT_EQ(history[1].type, EventType::kModified);
  EXPECT_EQ(history[2].type, EventType::kDeleted);
  EXPECT_EQ(history[2].version, simulator_->Version());
  EXPECT_EQ(history[2].ns + "/" + history[2].name, "default/a");
  EXPECT_EQ(history[0].uid, made["metadata"]["uid"]);
  EXPECT_NE(history[0].hash, history[1].hash);

  const HttpAnswer lines = client_->Get("/simulator/history?from=" + std::to_string(start));
  std::istringstream stream(lines.body);
  std::string line;
  std::vector<Json> entries;
  while (std::getline(stream, line)) entries.push_back(Json::parse(line));
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0]["version"], start + 1);
  EXPECT_EQ(entries[0]["type"], "ADDED");
  EXPECT_EQ(entries[0]["resource"], "configmaps");
  EXPECT_EQ(entries[2]["name"], "a");
}

TEST_F(ServerTest, TheClusterHasAnIdentityThatCanChange) {
  StartWith({.cluster_uid = "00000000-0000-4000-8000-000000000001"});
  const auto uid = [&] {
    return client_->Get("/api/v1/namespaces/kube-system").json()["metadata"]["uid"];
  };
  EXPECT_EQ(uid(), "00000000-0000-4000-8000-000000000001");
  EXPECT_EQ(simulator_->ClusterUid(), "00000000-0000-4000-8000-000000000001");
  ASSERT_TRUE(simulator_->SetClusterUid("00000000-0000-4000-8000-000000000002"));
  EXPECT_EQ(uid(), "00000000-0000-4000-8000-000000000002");
}

TEST_F(ServerTest, ARestoredBackupGivesVersionsOutAgain) {
  EXPECT_FALSE(simulator_->RestoreState());
  MakeConfigMap("kept");
  simulator_->SaveState();
  const uint64_t saved = simulator_->Version();
  MakeConfigMap("lost");
  WatchReader watch(address(), std::string(kConfigMaps) + "?watch=1&resourceVersion=" + Version());
  ASSERT_EQ(watch.Code(), 200);
  ASSERT_TRUE(simulator_->RestoreState());
  EXPECT_TRUE(watch.Ended());
  EXPECT_EQ(simulator_->Version(), saved);
  EXPECT_EQ(simulator_->History().back().name, "kept");
  EXPECT_EQ(client_->Get(std::string(kConfigMaps) + "/lost").code, 404);
  EXPECT_EQ(VersionOf(MakeConfigMap("other")), std::to_string(saved + 1));
}

TEST_F(ServerTest, TheCppInterfaceWritesWhatItIsGiven) {
  const Result<ObjectPtr> pod = simulator_->Create(
      "pods",
      R"({"metadata":{"name":"a","namespace":"default","uid":"u-1"},"status":{"phase":"Failed"}})");
  ASSERT_TRUE(pod) << pod.error().ToString();
  EXPECT_EQ((*pod)->uid(), "u-1");
  EXPECT_EQ((*pod)->kind(), "Pod");
  EXPECT_EQ(client_->Get("/api/v1/namespaces/default/pods/a").json()["status"]["phase"], "Failed");
  EXPECT_EQ(
      simulator_->Create("pods", R"({"metadata":{"name":"a","namespace":"no"}})").error().code,
      ErrorCode::kNotFound);
  EXPECT_EQ(simulator_->Create("unknowns", "{}").error().code, ErrorCode::kNotFound);
  const auto snapshot = simulator_->Snapshot("pods");
  ASSERT_EQ(snapshot.count("default/a"), 1U);
  EXPECT_EQ(snapshot.at("default/a").second, Version());
}

}  // namespace
}  // namespace larder::apiserver
