// The real API server that ./dev kube started, and reflectors against it.
//
// The environment says where it is (kube/kube.sh environment). Each test has a namespace of its
// own. Without the environment every test is skipped.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/api_client.h"
#include "client/config.h"
#include "reflector/reflector.h"
#include "tests/reflector/mirror_target.h"

namespace larder {

inline constexpr std::chrono::seconds kPatience{60};

// True as soon as `reached` is; false after kPatience.
bool Eventually(const std::function<bool()>& reached);

class KubeTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // An administrator with a token.
  static ClientConfig Admin();
  static std::string Environment(const char* name);
  // Runs kube.sh on the server's directory; its output without the newline.
  static std::string Kube(std::vector<std::string> words);
  static std::unique_ptr<HttpTransport> Connect(const ClientConfig& config);

  Json ConfigMap(const std::string& name, const std::string& value = "v") const;
  void Make(const std::string& name);
  // `count` config maps: "a-0", "a-1", …
  void MakeMany(const std::string& prefix, int count);
  void Change(const std::string& name, const std::string& value);
  void Delete(const std::string& name);
  // What the server has now, read by the client and not by the reflector.
  MirrorTarget::Content Content();
  bool Equal(const MirrorTarget& target);

  void Run(MirrorTarget* target, HttpTransport* transport = nullptr);
  std::chrono::steady_clock::duration Stop();
  ReflectorStatus Status() const { return reflector_->Status(); }
  // Waits for a status.
  bool Reaches(const std::function<bool(const ReflectorStatus&)>& reached);

  // Makes the server forget its history: a watch from an older version is refused. Writes in
  // between, so that any version from before is older.
  void ExpireHistory();

  std::string ns_;
  std::string cluster_uid_;
  std::unique_ptr<HttpTransport> transport_;
  std::unique_ptr<ApiClient> client_;
  Resource resource_;  // config maps, unless a test changes it
  ReflectorOptions options_;
  std::unique_ptr<Reflector> reflector_;
  std::optional<Reflector::Outcome> outcome_;
  std::jthread thread_;
};

}  // namespace larder
