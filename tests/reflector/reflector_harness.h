// A reflector between a scripted server and a recording target. Fill the script, Run(), look at
// what happened.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "reflector/reflector.h"
#include "tests/reflector/recording_target.h"
#include "tests/reflector/scripted_transport.h"
#include "tests/reflector/wire_text.h"

namespace larder {

inline const TestPod kA{.name = "a", .version = "5"};
inline const TestPod kB{.name = "b", .version = "7"};

class ReflectorTest : public testing::Test {
 protected:
  ReflectorTest() : server(&clock, &stop) {
    options.name = "test";
    options.resource = {"", "v1", "pods", "Pod", true};
    options.random_seed = 42;
    options.clock = &clock;
  }

  // The target has this cursor, from the cluster with uid "cluster".
  void StoredAt(const std::string& version) {
    target.position.resource_version = version;
    target.position.cluster_uid = "cluster";
    server.Always("C", Answer::Json(NamespaceJson("cluster")));
    server.Always("V", Answer::Json(PodListJson("1000", {})));
  }

  // Runs until the script is used up.
  Reflector::Outcome Run() {
    auto made = Reflector::Create(options, &server, &target);
    EXPECT_TRUE(made.has_value()) << made.error().ToString();
    reflector = *std::move(made);
    return reflector->Run(stop.get_token());
  }

  // The requests but for the two checks of a start.
  std::vector<std::string> Requests() const {
    std::vector<std::string> all = server.Requests();
    std::erase(all, "C");
    std::erase_if(all, [](const std::string& request) {
      return request == "V" || request.starts_with("V ");
    });
    return all;
  }
  uint64_t Restarts(const std::string& reason) const {
    const ReflectorStatus status = reflector->Status();
    const auto found = status.restarts.find(reason);
    return found == status.restarts.end() ? 0 : found->second;
  }

  InstantClock clock;
  std::stop_source stop;
  ScriptedTransport server;
  RecordingTarget target;
  ReflectorOptions options;
  std::unique_ptr<Reflector> reflector;
};

}  // namespace larder
