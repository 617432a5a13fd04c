// What the commands do when they are told to end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/tools/background.h"
#include "tests/tools/sample_store.h"

namespace larder {
namespace {

// A file that a command opens, and then waits for: nobody writes.
class Trap {
 public:
  explicit Trap(const std::string& path) : path_(path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  }
  ~Trap() { ::close(writer_); }
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

  bool HasCaught() {
    if (writer_ < 0) writer_ = ::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return writer_ >= 0;
  }

 private:
  const std::string path_;
  int writer_ = -1;
};

TEST(SignalsTest, TheFirstOneEndsACommandThatHasNothingToTidyUp) {
  const ScratchDirectory scratch;
  const std::string store = scratch / "store", backups = scratch / "backups";
  FillSampleStore(store);
  ASSERT_EQ(RunLarder({"backup", "create", backups, "--store", store}).exit_code, 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::vector<std::pair<std::string, std::vector<std::string>>> commands = {
        {backups + "/meta/7", {"backup", "verify", backups}},
        {backups + "/meta/7", {"backup", "restore", backups, "--store", scratch / "other"}},
        {scratch / "file",
         {"get", "pods", "--store", store, "-o", "jsonpath-file=" + scratch / "file"}},
        {scratch / "file", {"import", "--store", scratch / "other", "--file", scratch / "file"}},
    };
    for (const auto& [path, words] : commands) {
      Trap trap(path);
      const Outcome outcome = RunLarder(
          words,
          {.signal = signal, .stop_when = [&](const std::string&) { return trap.HasCaught(); }});
      EXPECT_EQ(outcome.exit_code, 130) << words.front() << " " << signal << outcome.err;
      std::filesystem::remove(path);
    }
  }
}

TEST(SignalsTest, OneThatIsNotOursIsIgnoredAndTheNextIsHeard) {
  Background simulator({"simulate", "--objects", "10"});
  simulator.Signal(SIGUSR1);
  EXPECT_EQ(simulator.Stop(SIGTERM), 0);
}

}  // namespace
}  // namespace larder
