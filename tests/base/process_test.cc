// What a process does first changes all of it: each test has a child.
#include "base/process.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>

#include "tests/base/resident_memory.h"

namespace larder {
namespace {

// The mode of a file that was just made.
mode_t ModeOfNewFile() {
  std::string path = ::testing::TempDir() + "larder-process-" + std::to_string(::getpid());
  std::ofstream(path) << "x";
  struct stat status {};
  const bool there = ::stat(path.c_str(), &status) == 0;
  std::filesystem::remove(path);
  return there ? status.st_mode & 0777 : 0;
}

TEST(ProcessTest, FilesAreForTheirOwnerOnlyWhateverTheCallersHabits) {
  const auto mode_after = [](void (*prepare)()) {
    ::umask(0);
    prepare();
    std::_Exit(ModeOfNewFile() == 0600 ? 0 : 1);
  };
  EXPECT_EXIT(mode_after([] {}), ::testing::ExitedWithCode(1), "") << "the test can tell";
  EXPECT_EXIT(mode_after(KeepFilesPrivate), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(mode_after(PrepareProcess), ::testing::ExitedWithCode(0), "");
}

TEST(ProcessTest, LogLinesBeginWithTheTimeInUtcWhereverTheMachineIs) {
  ::setenv("TZ", "UTC-9", 1);  // nine hours ahead
  ::tzset();
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  UseLogFormat();
  const std::time_t start = std::time(nullptr);
  spdlog::info("hello");
  spdlog::set_default_logger(before);
  ::unsetenv("TZ");
  ::tzset();
  std::tm parts{};
  const std::string line = text.str();
  const char* const end = ::strptime(line.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  ASSERT_NE(end, nullptr) << line;
  EXPECT_LE(::timegm(&parts) - start, 60) << line;
  EXPECT_GE(::timegm(&parts) - start, 0) << line;
  EXPECT_TRUE(std::regex_match(end, std::regex("\\.[0-9]{3}Z info hello\n"))) << line;
}

TEST(ProcessTest, GivesFreedMemoryBackOnceItIsPrepared) {
  if (testing::kSanitizerSlack > 0) GTEST_SKIP() << "a sanitizer has an allocator of its own";
  const auto percent_left = [] { return testing::PercentLeftAfter(ReturnFreeMemory); };
  EXPECT_EXIT(std::_Exit(percent_left() > 80 ? 0 : 1), ::testing::ExitedWithCode(0), "")
      << "the allocator of a process that was not prepared is left alone";
  EXPECT_EXIT(
      {
        PrepareProcess();
        std::_Exit(percent_left() < 50 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace larder
