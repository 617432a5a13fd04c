// A fixture with a fresh simulator and a client for it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "apiserver/simulator.h"
#include "tests/apiserver/api_client.h"

namespace larder::apiserver {

class SimulatorTest : public testing::Test {
 protected:
  void StartWith(SimulatorOptions options) {
    Result<std::unique_ptr<Simulator>> started = Simulator::Start(std::move(options));
    ASSERT_TRUE(started) << started.error().ToString();
    simulator_ = *std::move(started);
    client_ = std::make_unique<ApiClient>(ServerAddress{simulator_->Url(), "", ""});
  }

  void SetUp() override { StartWith({}); }

  const ServerAddress& address() const { return client_->address(); }

  // A config map in default; returns it as the server answered.
  Json MakeConfigMap(const std::string& name, Json labels = Json::object(),
                     const std::string& ns = "default") {
    const HttpAnswer made = client_->Post(
        "/api/v1/namespaces/" + ns + "/configmaps",
        {{"metadata", {{"name", name}, {"labels", std::move(labels)}}}, {"data", {{"k", "v"}}}});
    EXPECT_EQ(made.code, 201) << made.body;
    return made.json();
  }

  std::string Version() const { return std::to_string(simulator_->Version()); }

  std::unique_ptr<Simulator> simulator_;
  std::unique_ptr<ApiClient> client_;
};

constexpr const char* kConfigMaps = "/api/v1/namespaces/default/configmaps";

}  // namespace larder::apiserver
