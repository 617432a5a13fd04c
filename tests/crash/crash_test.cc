// The crash programme in its short form, and the proof that its oracle can fail: a process with a
// known bug is caught.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/crash/journal.h"
#include "tests/crash/process.h"
#include "tests/crash/subject.h"

namespace larder::crash {
namespace {

// What it printed, and its exit code.
std::pair<std::string, int> RunCrash(const std::string& arguments) {
  const std::string command = std::string(LARDER_CRASH) + " --quiet " + arguments + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> chunk;
  while (const size_t size = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    output.append(chunk.data(), size);
  }
  const int status = ::pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

void ExpectNoViolation(const std::string& arguments) {
  const auto [output, code] = RunCrash(arguments);
  std::printf("%s", output.c_str());
  if (code == 77) GTEST_SKIP() << "this machine lets nobody mount a file system";
  EXPECT_EQ(code, 0) << output;
}

// What is chosen is fixed by the seed; how far the process gets before it breaks is not, and need
// not be: no moment may break a promise. The long counts are ./dev crash's.
TEST(Crash, KillBreaksNoPromise) { ExpectNoViolation("--mode kill --runs 200 --seed 1"); }
TEST(Crash, PowerLossBreaksNoPromise) { ExpectNoViolation("--mode power --runs 100 --seed 2"); }
TEST(Crash, DiskErrorsBreakNoPromise) { ExpectNoViolation("--mode io --runs 60 --seed 3"); }
TEST(Crash, AProcessWhoseDiskFailsForAMomentComesToRest) {
  ExpectNoViolation("--mode io --fail-at-rest --runs 30 --seed 501");
}
// Every sixth append and sync of a short life fails, once or for good; ./dev crash --mode io
// --sweep takes each one of all kinds.
TEST(Crash, NoAppendOrSyncThatFailsBreaksAPromise) {
  ExpectNoViolation("--mode io --sweep --operation append --operation sync --stride 6 --seed 1");
}
TEST(Crash, NoReadThatFailsBreaksAPromise) {
  ExpectNoViolation("--mode io --sweep --operation read --stride 24 --seed 1");
}
// Two or three of a short life.
TEST(Crash, NoRenameThatFailsBreaksAPromise) {
  ExpectNoViolation("--mode io --sweep --operation rename --seed 1");
}
TEST(Crash, AControllerGetsOverAFullDisk) {
  ExpectNoViolation("--mode full --fail-at-rest --runs 10 --seed 6");
}
TEST(Crash, AFullDiskBreaksNoPromise) { ExpectNoViolation("--mode full --runs 10 --seed 4"); }
TEST(Crash, DamageIsAnErrorOrAnOlderPrefix) {
  ExpectNoViolation("--mode flip --runs 100 --seed 5");
}

// What breaks nothing must not count as a proof.
class SoundDisk : public ::testing::TestWithParam<const char*> {};
TEST_P(SoundDisk, IsNoProof) {
  const auto [output, code] = RunCrash(std::string(GetParam()) + " --seed 8 --mutant sound-disk");
  EXPECT_EQ(code, 3) << output;
}
INSTANTIATE_TEST_SUITE_P(Crash, SoundDisk,
                         ::testing::Values("--mode kill --runs 150", "--mode power --runs 20",
                                           "--mode io --runs 20",
                                           "--mode io --sweep --operation sync"));

TEST(Crash, AnAssertionIsKnownOnlyWhereItMayBe) {
  const std::string of_a_disk = AssertionIn(
      "program: ./file/writable_file_writer.h:312: int F(): Assertion `sync_without_flush_called_' "
      "failed.\n");
  EXPECT_TRUE(IsKnownAssertion(of_a_disk, true));
  EXPECT_FALSE(IsKnownAssertion(of_a_disk, false));
  const std::string of_two_flushes = AssertionIn(
      "program: ./db/db_impl/db_impl_compaction_flush.cc:423: int F(): Assertion "
      "`cfd->GetFlushReason() == cfds[0]->GetFlushReason()' failed.\n");
  EXPECT_TRUE(IsKnownAssertion(of_two_flushes, false));
  EXPECT_FALSE(IsKnownAssertion(AssertionIn("p: ./a.h:1: int F(): Assertion `x' failed."), true));
}

// A disk that is full in the middle of a line ends the process; the next one's line is whole.
TEST(Journal, WhatADyingProcessWroteHalfDoesNotSpoilTheNextLine) {
  const std::string path = ::testing::TempDir() + "larder-journal-half";
  std::ofstream(path) << "S one\nH one update shop/cart-1 5 77 4\nH one update shop/cart-2";
  Journal(path).Started("two");
  const std::vector<JournalLine> lines = ReadJournal(path);
  std::filesystem::remove(path);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].key, "shop/cart-1");
  EXPECT_EQ(lines[2].kind, 'S');
  EXPECT_EQ(lines[2].cluster, "two");
}

class Mutants : public ::testing::TestWithParam<Mutant> {};

TEST_P(Mutants, IsCaughtWithin200Runs) {
  const Mutant& mutant = GetParam();
  const std::string kept = ::testing::TempDir() + "larder-mutant-" + mutant.name;
  const auto [output, code] =
      RunCrash(std::string("--mode ") + mutant.mode + " --runs 200 --seed 7 --mutant " +
               mutant.name + " --keep " + kept);
  if (code == 77) GTEST_SKIP() << "this machine lets nobody mount a file system";
  EXPECT_EQ(code, 1) << output;
  const std::string promises = std::string("promise (") + mutant.promises + "):";
  EXPECT_TRUE(std::regex_search(output, std::regex(promises))) << promises << "\n" << output;
  EXPECT_NE(output.find("to repeat: ./dev crash"), std::string::npos) << output;
  std::printf("%s", output.c_str());
  std::filesystem::remove_all(kept);
}

INSTANTIATE_TEST_SUITE_P(All, Mutants, ::testing::ValuesIn(kMutants), [](const auto& mutant) {
  std::string name = mutant.param.name;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace larder::crash
