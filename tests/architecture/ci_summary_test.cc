// What a run of continuous integration says at its end is what ctest said.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace larder::architecture {
namespace {

// As ctest 3.25 prints them.
constexpr char kLog[] =
    "  1/7 Test  #10: Suite.Works ....................   Passed    0.05 sec\n"
    "  2/7 Test  #11: Suite.Fails ....................***Failed    0.05 sec\n"
    "  3/7 Test   #7: Suite.Crashes ..................***Exception: SegFault  0.10 sec\n"
    "  4/7 Test #123: Pages/Suite.Aborts/0 ...........Subprocess aborted***Exception:   0.10 sec\n"
    "  5/7 Test   #9: Suite.Hangs ....................***Timeout   1.00 sec\n"
    "  6/7 Test  #12: Suite.IsLeftOut ................***Skipped   0.01 sec\n"
    "  7/7 Test  #13: Nodes/Suite.Dies/4-byte object <01-00 00-00> ...Subprocess "
    "aborted***Exception:   0.10 sec\n"
    "        Test #11: Suite.Fails ....................   Passed    0.05 sec\n";

// The tests that ended so, each on a line.
std::string EndedWith(const std::string& how) {
  const std::string log = ::testing::TempDir() + "ci_summary_" + std::to_string(::getpid());
  if (std::FILE* file = std::fopen(log.c_str(), "w")) {
    std::fputs(kLog, file);
    std::fclose(file);
  }
  const std::string command = "bash -c '. \"" LARDER_SOURCE_DIR "/.ci/summary\" && ended_with \"" +
                              log + "\" \"" + how + "\"'";
  std::string output;
  if (std::FILE* pipe = ::popen(command.c_str(), "r")) {
    std::array<char, 256> line{};
    while (std::fgets(line.data(), line.size(), pipe) != nullptr) output += line.data();
    ::pclose(pipe);
  }
  std::remove(log.c_str());
  return output;
}

TEST(CiSummary, NamesEveryTestThatDidNotJustPass) {
  EXPECT_EQ(EndedWith("Exception"),
            "Nodes/Suite.Dies/4-byte object <01-00 00-00>\nPages/Suite.Aborts/0\nSuite.Crashes\n");
  EXPECT_EQ(EndedWith("Failed|Timeout"), "Suite.Fails\nSuite.Hangs\n");
  EXPECT_EQ(EndedWith("Skipped"), "Suite.IsLeftOut\n");
}

}  // namespace
}  // namespace larder::architecture
