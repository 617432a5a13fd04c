// `larder backup`: made, verified, restored; killed in the middle, and what is left to others
// meanwhile.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/sample_store.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

class BackupCommandTest : public ::testing::Test {
 protected:
  void SetUp() override { FillSampleStore(Path()); }
  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.end(), {"--store", Path()});
    return RunLarder(words);
  }
  std::string Path() const { return scratch_ / "store"; }
  ScratchDirectory scratch_;
};

TEST_F(BackupCommandTest, BackupsThatCannotBeReadAreNotMissing) {
  // Stands for a directory without permission, which a superuser would not notice.
  const std::string loop = scratch_ / "loop";
  fs::create_symlink(loop, loop);
  const Outcome ls = RunLarder({"backup", "ls", loop});
  EXPECT_EQ(ls.exit_code, 3);
  EXPECT_NE(ls.err.find("cannot read " + loop), std::string::npos) << ls.err;
}

TEST_F(BackupCommandTest, BackupsAreMadeVerifiedAndRestored) {
  const std::string backups = scratch_ / "backups", other = scratch_ / "other";
  ASSERT_EQ(RunLarder({"backup", "ls", backups}).exit_code, 1);
  const Outcome made = Run({"backup", "create", backups});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_NE(made.out.find("verified"), std::string::npos) << made.out;
  {
    const auto store = Store::Open({.path = Path()});
    DeletePod(**store, "db-0", "20");
  }
  ASSERT_EQ(Run({"backup", "create", backups}).exit_code, 0);
  const Json list = Json::parse(RunLarder({"backup", "ls", backups, "--json"}).out);
  ASSERT_EQ(list.size(), 2u);
  // Into a directory that is not there yet, and over a store.
  const Outcome restored = RunLarder({"backup", "restore", backups, "1", "--store", other});
  ASSERT_EQ(restored.exit_code, 0) << restored.err;
  EXPECT_NE(RunLarder({"get", "pods", "-A", "--store", other}).out.find("db-0"), std::string::npos);
  EXPECT_EQ(RunLarder({"verify", "--store", other}).exit_code, 0);
  const Outcome over = RunLarder({"backup", "restore", backups, "--store", other});
  EXPECT_EQ(over.exit_code, 2);
  EXPECT_NE(over.err.find("--force"), std::string::npos) << over.err;
  ASSERT_EQ(RunLarder({"backup", "restore", backups, "--force", "--store", other}).exit_code, 0);
  EXPECT_EQ(RunLarder({"diff", Path(), other}).exit_code, 0);
  EXPECT_EQ(RunLarder({"backup", "prune", backups, "--keep", "1"}).exit_code, 0);
  const Outcome gone = RunLarder({"backup", "verify", backups, "1"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_NE(gone.err.find("there is 2"), std::string::npos) << gone.err;
  EXPECT_EQ(RunLarder({"backup", "verify", backups}).exit_code, 0);
  // One byte of a table: said, and not restored from.
  for (const auto& entry : fs::recursive_directory_iterator(backups)) {
    if (entry.path().extension() != ".sst") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.put('x');
  }
  EXPECT_NE(RunLarder({"backup", "verify", backups}).exit_code, 0);
}

TEST_F(BackupCommandTest, WhileOneIsMadeNoneIsMadeOrRemovedInTheSamePlace) {
  const std::string backups = scratch_ / "backups";
  ASSERT_EQ(Run({"backup", "create", backups}).exit_code, 0);
  // As one of another store does.
  const int file = ::open((backups + "/larder.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct flock first {};
  first.l_type = F_WRLCK;
  first.l_whence = SEEK_SET;
  first.l_len = 1;
  ASSERT_EQ(::fcntl(file, F_OFD_SETLK, &first), 0);
  for (const Outcome& held : {Run({"backup", "create", backups, "--keep", "1"}),
                              RunLarder({"backup", "prune", backups, "--keep", "1"})}) {
    EXPECT_EQ(held.exit_code, 3);
    EXPECT_EQ(held.err, "larder: another process makes or removes backups at " + backups +
                            "; try again when it is done\n");
  }
  EXPECT_EQ(RunLarder({"backup", "ls", backups}).exit_code, 0);
  ::close(file);
  EXPECT_EQ(RunLarder({"backup", "prune", backups, "--keep", "1"}).exit_code, 0);
}

TEST_F(BackupCommandTest, ADamagedBackupIsNotSaidToBeADamagedStore) {
  const std::string backups = scratch_ / "backups";
  ASSERT_EQ(Run({"backup", "create", backups}).exit_code, 0);
  for (const auto& entry : fs::directory_iterator(backups + "/shared_checksum")) {
    fs::resize_file(entry.path(), 10);
  }
  ASSERT_EQ(Run({"snapshot", "create", "s"}).exit_code, 0);
  for (const auto& entry : fs::directory_iterator(Path() + "/snapshots/s")) {
    if (entry.path().extension() == ".sst") fs::remove(entry.path());
  }
  for (const Outcome& restored :
       {Run({"backup", "restore", backups, "--force"}), Run({"snapshot", "restore", "s"})}) {
    EXPECT_EQ(restored.exit_code, 1);
    EXPECT_EQ(restored.err.find("--repair"), std::string::npos) << restored.err;
  }
  EXPECT_EQ(Run({"verify"}).exit_code, 0);
}

// Whoever opens the backups waits for a writer that never comes.
class HeldBackupTest : public BackupCommandTest {
 protected:
  void SetUp() override {
    BackupCommandTest::SetUp();
    ASSERT_EQ(Create().exit_code, 0);
    ASSERT_EQ(::mkfifo(Trap().c_str(), 0600), 0);
  }
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

  const std::string none_ = "NAME   AGE   SIZE\n";
};

TEST_F(HeldBackupTest, WhatAKilledOneLeftIsRemovedByTheNext) {
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

TEST_F(HeldBackupTest, OneThatIsInterruptedEndsAtOnceAndLeavesNoSnapshot) {
  const Outcome ended =
      Create({.signal = SIGTERM, .stop_when = [&](const std::string&) { return IsCopying(); }});
  EXPECT_EQ(ended.exit_code, 130) << ended.err;
  EXPECT_EQ(Snapshots(), none_);
}

TEST_F(HeldBackupTest, AControllerStartsWhileACopyIsMade) {
  bool started = false;
  const auto start = [&](const std::string&) {
    started = IsCopying() && Store::Open({.path = Path()}).has_value();
    return started;
  };
  (void)Create({.signal = SIGKILL, .stop_when = start});
  EXPECT_TRUE(started);
}

TEST_F(HeldBackupTest, OneAtATimeOfAStore) {
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
