// The conformance suite's server: the one the environment names, or else a simulator of its own.
//
//   LARDER_CONFORMANCE_URL    https://127.0.0.1:6443
//   LARDER_CONFORMANCE_TOKEN  a bearer token that may do everything
//   LARDER_CONFORMANCE_CA     the file with the server's CA
//   LARDER_KUBE               kube/kube.sh, and
//   LARDER_KUBE_DIR           its directory; without them what needs etcd is skipped
//
// The tests use only what every server has (namespaces, config maps, secrets, leases, CRDs), each
// in a namespace of its own, and leave the cluster's other contents alone. Where the simulator and
// a real server differ, the simulator is wrong.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "apiserver/simulator.h"
#include "tests/apiserver/api_client.h"

namespace larder::apiserver {

class ConformanceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (const char* url = std::getenv("LARDER_CONFORMANCE_URL")) {
      const char* token = std::getenv("LARDER_CONFORMANCE_TOKEN");
      const char* ca = std::getenv("LARDER_CONFORMANCE_CA");
      address_ = ServerAddress{url, token ? token : "", ca ? ca : ""};
      // httplib's client writes to sockets that the server has closed; the simulator's server part
      // would have seen to it.
      std::signal(SIGPIPE, SIG_IGN);
      return;
    }
    Result<std::unique_ptr<Simulator>> started =
        Simulator::Start({.tls = true, .users = {{.name = "tester", .token = "conformance"}}});
    ASSERT_TRUE(started) << started.error().ToString();
    simulator_ = *std::move(started);
    ca_file_ = std::filesystem::path(testing::TempDir()) /
               ("conformance-ca-" + std::to_string(getpid()) + ".pem");
    std::ofstream(ca_file_) << simulator_->CaCertificate();
    address_ = ServerAddress{simulator_->Url(), "conformance", ca_file_};
  }

  static void TearDownTestSuite() {
    simulator_.reset();
    if (!ca_file_.empty()) std::filesystem::remove(ca_file_);
  }

  void SetUp() override {
    client_ = std::make_unique<ApiClient>(address_);
    static std::atomic<int> counter = 0;
    ns_ = "conformance-" + std::to_string(getpid()) + "-" + std::to_string(++counter);
    const HttpAnswer made = client_->Post("/api/v1/namespaces", {{"metadata", {{"name", ns_}}}});
    ASSERT_EQ(made.code, 201) << made.body;
  }

  void TearDown() override { client_->Delete("/api/v1/namespaces/" + ns_); }

  // Compacts the server's history: older versions are gone. False: it cannot be told to.
  static bool Compact() {
    if (simulator_) {
      simulator_->ExpireHistory();
      return true;
    }
    const char* script = std::getenv("LARDER_KUBE");
    const char* folder = std::getenv("LARDER_KUBE_DIR");
    if (!script || !folder) return false;
    const auto kube = [&](const std::string& verb, const std::string& program = "") {
      const std::string command =
          std::string("'") + script + "' " + verb + " '" + folder + "' " + program + " >/dev/null";
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    };
    kube("compact");
    // The watch cache outlives what etcd forgets; that of a new process begins later.
    kube("stop", "apiserver");
    kube("start", "apiserver");
    return true;
  }

  std::string Path(const std::string& resource, const std::string& name = "") const {
    return "/api/v1/namespaces/" + ns_ + "/" + resource + (name.empty() ? "" : "/" + name);
  }

  Json Make(const std::string& name, Json labels = Json::object()) {
    const HttpAnswer made = client_->Post(
        Path("configmaps"),
        {{"apiVersion", "v1"},
         {"kind", "ConfigMap"},
         {"metadata", {{"name", name}, {"namespace", ns_}, {"labels", std::move(labels)}}},
         {"data", {{"k", "v"}}}});
    EXPECT_EQ(made.code, 201) << made.body;
    return made.json();
  }

  HttpAnswer Change(const std::string& name, const Json& patch) {
    return client_->Patch(Path("configmaps", name), patch, "application/merge-patch+json");
  }

  std::unique_ptr<WatchReader> Watch(const std::string& query, Headers headers = {}) {
    return std::make_unique<WatchReader>(address_, Path("configmaps") + "?watch=true&" + query,
                                         std::move(headers));
  }

  std::string ListVersion() { return VersionOf(client_->Get(Path("configmaps")).json()); }

  // "ADDED NAME": the namespace of a test is not its own choice.
  std::string Short(const Json& event) const {
    std::string text = Summary(event);
    if (const size_t at = text.find(ns_ + "/"); at != std::string::npos) {
      text.erase(at, ns_.size() + 1);
    }
    return text;
  }

  static std::vector<std::string> Names(const Json& list) {
    std::vector<std::string> out;
    for (const Json& item : list["items"]) out.push_back(item["metadata"]["name"]);
    return out;
  }

  static inline ServerAddress address_;
  std::unique_ptr<ApiClient> client_;
  std::string ns_;

 private:
  static inline std::unique_ptr<Simulator> simulator_;
  static inline std::string ca_file_;
};

}  // namespace larder::apiserver
