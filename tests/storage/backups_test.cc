// Backups: made, verified, restored, removed, and who keeps whom from it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/storage/store_of_pods.h"

namespace larder {
namespace {

namespace fs = std::filesystem;
using testing::CodeOf;
using testing::Must;

class BackupsTest : public testing::StoreOfPods {};

TEST_F(BackupsTest, WhoWorksOnBackupsKeepsOthersFromIt) {
  const std::string backups = dir_.path("backups");
  Put(0, 20);
  const BackupInfo made = Must(CreateBackup(*store_, backups));
  const int file = ::open((backups + "/larder.lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  // The first byte is whose who adds or removes, the second is shared by those who read.
  const auto hold = [&](short type, off_t byte) {
    struct flock range {};
    range.l_whence = SEEK_SET;
    range.l_type = F_UNLCK;
    EXPECT_EQ(::fcntl(file, F_OFD_SETLK, &range), 0);
    range.l_type = type;
    range.l_start = byte;
    range.l_len = 1;
    EXPECT_EQ(::fcntl(file, F_OFD_SETLK, &range), 0);
  };
  hold(F_WRLCK, 0);
  EXPECT_EQ(CodeOf(CreateBackup(*store_, backups)), ErrorCode::kLocked);
  EXPECT_EQ(CodeOf(PurgeBackups(backups, 1)), ErrorCode::kLocked);
  EXPECT_EQ(Must(ListBackups(backups)).size(), 1U) << "beside one that is being made";
  Must(VerifyBackup(backups, made.id));
  hold(F_RDLCK, 1);
  EXPECT_EQ(CodeOf(PurgeBackups(backups, 1)), ErrorCode::kLocked);
  (void)Must(CreateBackup(*store_, backups));
  EXPECT_EQ(Must(ListBackups(backups)).size(), 2U);
  hold(F_WRLCK, 1);
  EXPECT_EQ(CodeOf(ListBackups(backups)), ErrorCode::kLocked);
  EXPECT_EQ(CodeOf(RestoreBackup({.path = dir_.path("new")}, backups)), ErrorCode::kLocked);
  ::close(file);
  Must(PurgeBackups(backups, 1));
  EXPECT_EQ(Must(ListBackups(backups)).size(), 1U);
}

TEST_F(BackupsTest, WhoReadsBackupsWritesNothingThere) {
  const std::string backups = dir_.path("backups");
  Put(0, 20);
  const BackupInfo made = Must(CreateBackup(*store_, backups));
  fs::remove(backups + "/larder.lock");  // as an older larder leaves it
  fs::permissions(backups, fs::perms(0500));
  EXPECT_EQ(Must(ListBackups(backups)).size(), 1U);
  Must(VerifyBackup(backups, made.id));
  EXPECT_FALSE(fs::exists(backups + "/larder.lock"));
  fs::permissions(backups, fs::perms(0700));
  // All but this RocksDB makes where it opens them for writing.
  const std::string empty = dir_.path("empty");
  fs::create_directories(empty + "/meta");
  fs::permissions(empty, fs::perms(0700));
  EXPECT_TRUE(Must(ListBackups(empty)).empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(empty), {}), 1);
}

TEST_F(BackupsTest, AFirstBackupThatWasCutOffIsMadeByDoingItAgain) {
  const std::string backups = dir_.path("backups");
  fs::create_directory(backups);
  fs::permissions(backups, fs::perms::owner_all);
  std::ofstream(backups + "/larder.lock").flush();
  // RocksDB makes its directories one after the other.
  for (const char* const made : {"/shared_checksum", "/private"}) {
    fs::create_directory(backups + made);
  }
  Put(0, 20);
  std::ofstream(backups + "/private/notes.txt").flush();
  EXPECT_EQ(CodeOf(CreateBackup(*store_, backups)), ErrorCode::kInvalidArgument);
  fs::remove(backups + "/private/notes.txt");
  (void)Must(CreateBackup(*store_, backups));
}

TEST_F(BackupsTest, BackupsHaveADirectoryOfTheirOwn) {
  Put(0, 20);
  fs::create_directory(dir_.path("home"));
  std::ofstream(dir_.path("home") + "/notes.txt") << "mine";
  EXPECT_EQ(CodeOf(CreateBackup(*store_, dir_.path("home"))), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(CreateBackup(*store_, dir_.path())), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(CreateBackup(*store_, dir_.path() + "/backups")), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(ListBackups(dir_.path("home"))), ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(dir_.path("home") + "/meta"));
}

TEST_F(BackupsTest, OfADamagedStoreNoBackupIsMade) {
  Put(0, 200);
  Must(Compact(*store_));
  (void)Must(CreateBackup(*store_, dir_.path("backups")));
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    if (entry.path().extension() != ".sst") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('!');
  }
  EXPECT_EQ(CodeOf(CreateBackup(*store_, dir_.path("backups"))), ErrorCode::kCorruption);
  EXPECT_EQ(Must(ListBackups(dir_.path("backups"))).size(), 1U);
}

TEST_F(BackupsTest, BackupsAreMadeVerifiedRestoredAndPurged) {
  const std::string backups = dir_.path("backups");
  EXPECT_EQ(CodeOf(ListBackups(backups)), ErrorCode::kNotFound);
  Put(0, 20);
  const BackupInfo first = Must(CreateBackup(*store_, backups));
  Put(20, 40);
  const BackupInfo second = Must(CreateBackup(*store_, backups));
  ASSERT_EQ(Must(ListBackups(backups)).size(), 2U);
  Must(VerifyBackup(backups, first.id));
  EXPECT_EQ(CodeOf(RestoreBackup(Options(), backups)), ErrorCode::kLocked);
  store_.reset();
  Must(RestoreBackup(Options(), backups, first.id));
  Open();
  EXPECT_EQ(Count(), 20U);
  store_.reset();
  // To another place, the newest.
  Must(RestoreBackup({.path = dir_.path("elsewhere")}, backups));
  store_ = Must(Store::Open({.path = dir_.path("elsewhere")}));
  EXPECT_EQ(Count(), 40U);
  Must(PurgeBackups(backups, 1));
  ASSERT_EQ(Must(ListBackups(backups)).size(), 1U);
  EXPECT_EQ(Must(ListBackups(backups))[0].id, second.id);
}

TEST_F(BackupsTest, ADamagedBackupIsFound) {
  const std::string backups = dir_.path("backups");
  Put(0, 20);
  const BackupInfo made = Must(CreateBackup(*store_, backups));
  for (const auto& entry : fs::directory_iterator(backups + "/shared_checksum")) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('!');
  }
  EXPECT_EQ(CodeOf(VerifyBackup(backups, made.id)), ErrorCode::kCorruption);
}

}  // namespace
}  // namespace larder
