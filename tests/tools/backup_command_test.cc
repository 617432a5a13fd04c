// `larder backup create` that is killed in the middle, and what it leaves to others meanwhile.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/tools/sample_store.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

class BackupCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FillSampleStore(Path());
    ASSERT_EQ(Create().exit_code, 0);
    // Whoever opens the backups now waits for a writer that never comes.
    ASSERT_EQ(::mkfifo(Trap().c_str(), 0600), 0);
  }
  std::string Path() const { return scratch_ / "store"; }
  std::string Trap() const { return scratch_ / "backups/meta/7"; }
  Outcome Create(const RunOptions& options = {}) const {
    return RunLarder({"backup", "create", scratch_ / "backups", "--store", Path()}, options);
  }
  bool IsCopying() const {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(Path() + "/snapshots", error)) {
      if (fs::exists(entry.path() / "LOCK", error)) return true;
    }
    return false;
  }
  std::string Snapshots() const { return RunLarder({"snapshot", "ls", "--store", Path()}).out; }

  ScratchDirectory scratch_;
  const std::string none_ = "NAME   AGE   SIZE\n";
};

TEST_F(BackupCommandTest, WhatAKilledOneLeftIsRemovedByTheNext) {
  {
    const auto owner = Store::Open({.path = Path()});
    ASSERT_TRUE(owner);
    ASSERT_EQ(
        Create({.signal = SIGKILL, .stop_when = [&](const std::string&) { return IsCopying(); }})
            .exit_code,
        128 + SIGKILL);
    ASSERT_NE(Snapshots(), none_);
    fs::remove(Trap());
    const Outcome next = Create();
    EXPECT_EQ(next.exit_code, 0) << next.err;
    EXPECT_EQ(Snapshots(), none_);
  }
  // Nor does one stay where nobody has the store open, nor what is left of a removal.
  fs::create_directory(Path() + "/snapshots/backup-in-progress");
  EXPECT_EQ(Create().exit_code, 0);
  EXPECT_EQ(Snapshots(), none_);
}

TEST_F(BackupCommandTest, OneThatIsInterruptedEndsAtOnceAndLeavesNoSnapshot) {
  const Outcome ended =
      Create({.signal = SIGTERM, .stop_when = [&](const std::string&) { return IsCopying(); }});
  EXPECT_EQ(ended.exit_code, 130) << ended.err;
  EXPECT_EQ(Snapshots(), none_);
}

TEST_F(BackupCommandTest, AControllerStartsWhileACopyIsMade) {
  bool started = false;
  const auto start = [&](const std::string&) {
    started = IsCopying() && Store::Open({.path = Path()}).has_value();
    return started;
  };
  (void)Create({.signal = SIGKILL, .stop_when = start});
  EXPECT_TRUE(started);
}

TEST_F(BackupCommandTest, OneAtATimeOfAStore) {
  Outcome second;
  const auto start = [&](const std::string&) {
    if (!IsCopying()) return false;
    second = RunLarder({"backup", "create", scratch_ / "others", "--store", Path()});
    return true;
  };
  (void)Create({.signal = SIGKILL, .stop_when = start});
  EXPECT_EQ(second.exit_code, 3);
  EXPECT_NE(second.err.find("another backup of " + Path()), std::string::npos) << second.err;
}

}  // namespace
}  // namespace larder
