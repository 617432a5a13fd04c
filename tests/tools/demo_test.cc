// `larder demo`, as a person or a script runs it.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apiserver/simulator.h"
#include "schema/object.h"
#include "tests/tools/process.h"

namespace larder {
namespace {

TEST(DemoTest, ResumesWithoutAListAndLosesNothing) {
  const ScratchDirectory scratch;
  const Outcome demo =
      RunLarder({"demo", "--objects", "1000", "--json", "--store", scratch / "store"});
  ASSERT_EQ(demo.exit_code, 0) << demo.err;
  const Json json = Json::parse(demo.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << demo.out;
  EXPECT_EQ(json["objects"], 1000);
  EXPECT_EQ(json["cold"]["lists"], 1);
  EXPECT_EQ(json["cold"]["objects"], 1000);
  EXPECT_EQ(json["resume"]["lists"], 0);
  EXPECT_GE(json["resume"]["objects"], json["changed_while_down"]);
  EXPECT_LT(json["resume"]["objects"], 300);
  EXPECT_LT(json["resume"]["bytes"], json["cold"]["bytes"].get<double>() * 4);
  EXPECT_EQ(json["pending_resumed"], json["pending_at_kill"]);
  EXPECT_GT(json["pending_at_kill"], 0);
  EXPECT_GT(json["deleted_while_down"], 0);
  EXPECT_EQ(json["deletes_delivered"], json["deleted_while_down"]);
  EXPECT_LT(json["relist"]["rewritten"], 100);
  EXPECT_GT(json["relist"]["rewritten"], 0);
  EXPECT_EQ(json["lost"], 0);
  // The store stays, and the command that the table names works on it.
  const Outcome get =
      RunLarder({"get", "pods", "--store", scratch / "store", "-A", "--limit", "5"});
  EXPECT_EQ(get.exit_code, 0) << get.err;
  EXPECT_EQ(std::count(get.out.begin(), get.out.end(), '\n'), 6);
}

TEST(DemoTest, ShowsATableForPeople) {
  const Outcome demo = RunLarder({"demo", "--objects", "200"});
  ASSERT_EQ(demo.exit_code, 0) << demo.err;
  for (const char* words :
       {"first start", "after kill -9", "lists of the cluster", "Lost: 0", "larder get"}) {
    EXPECT_NE(demo.out.find(words), std::string::npos) << words << "\n" << demo.out;
  }
}

TEST(DemoTest, CtrlCEndsItWithinTwoSeconds) {
  for (const int after_ms : {50, 700, 1500}) {
    const Outcome demo =
        RunLarder({"demo", "--objects", "5000"},
                  {.signal = SIGINT, .signal_after = std::chrono::milliseconds(after_ms)});
    EXPECT_EQ(demo.exit_code, 130) << demo.err;
    EXPECT_LT(demo.after_signal.count(), 2000) << "after " << after_ms << " ms";
  }
}

TEST(DemoTest, DirectoryThatIsNotEmptyIsOneClearSentence) {
  const ScratchDirectory scratch;
  std::ofstream(scratch / "mine.txt") << "mine";
  const Outcome demo = RunLarder({"demo", "--objects", "200", "--store", scratch.path()});
  EXPECT_EQ(demo.exit_code, 2);
  EXPECT_NE(demo.err.find("is not empty"), std::string::npos) << demo.err;
  EXPECT_TRUE(std::filesystem::exists(scratch / "mine.txt"));
}

TEST(DemoTest, DirectoryThatCannotBeMadeIsOneClearSentence) {
  const ScratchDirectory scratch;
  std::ofstream(scratch / "file") << "";
  const Outcome demo = RunLarder({"demo", "--objects", "200", "--store", scratch / "file/store"});
  EXPECT_EQ(demo.exit_code, 3);
  EXPECT_NE(demo.err.find("cannot make the directory"), std::string::npos) << demo.err;
}

TEST(SimulateTest, PortInUseIsOneClearSentence) {
  auto simulator = apiserver::Simulator::Start({});
  ASSERT_TRUE(simulator);
  const std::string port = std::to_string((*simulator)->Port());
  const Outcome second = RunLarder({"simulate", "--objects", "10", "--port", port});
  EXPECT_EQ(second.exit_code, 3);
  EXPECT_NE(second.err.find(port), std::string::npos) << second.err;
  EXPECT_EQ(std::count(second.err.begin(), second.err.end(), '\n'), 1) << second.err;
}

}  // namespace
}  // namespace larder
