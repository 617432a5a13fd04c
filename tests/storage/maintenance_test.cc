// Figures and snapshots.
#include "storage/maintenance.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "tests/storage/child.h"
#include "tests/storage/store_of_pods.h"
#include "tests/storage/sync_spy.h"

namespace larder {
namespace {

namespace fs = std::filesystem;
using testing::CodeOf;
using testing::Must;
using testing::Pod;
using testing::PodKey;
using testing::SpecOf;

class MaintenanceTest : public testing::StoreOfPods {
 protected:
  // All but CURRENT.
  std::vector<std::string> FilesOf(const std::string& snapshot) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_.path() + "/snapshots/" + snapshot)) {
      if (entry.path().filename() != "CURRENT") names.push_back(entry.path().filename().string());
    }
    return names;
  }
  // Ends a restore where it would move this file into place, as a process that dies there would: a
  // directory is in the way. How far down that is depends on the file system; returns how many
  // files were moved before.
  size_t CutOffRestore(const std::string& snapshot, const std::string& name) {
    store_.reset();
    const std::string blocked = dir_.path() + "/" + name;
    fs::remove(blocked);
    fs::create_directories(blocked + "/in the way");
    EXPECT_EQ(CodeOf(RestoreSnapshot(Options(), snapshot)), ErrorCode::kIo);
    fs::remove_all(blocked);
    const std::vector<std::string> names = FilesOf(snapshot);
    return static_cast<size_t>(std::count_if(
        names.begin(), names.end(),
        [&](const std::string& each) { return !fs::exists(dir_.path() + "/incoming/" + each); }));
  }
};

TEST_F(MaintenanceTest, StatsTellWhatIsThere) {
  Put(0, 50);
  Transaction transaction = store_->Begin();
  transaction.PutIndexRecord(pods_.id, {1, "node", "field:spec.nodeName", true});
  transaction.PutDelta(pods_.id, "h", PodKey(1), "x");
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  const SnapshotPtr held = store_->TakeSnapshot();
  StoreStats stats = Must(GetStats(*store_));
  ASSERT_EQ(stats.collections.size(), 1U);
  const CollectionStats& pods = stats.collections[0];
  EXPECT_EQ(pods.objects, 50U);
  uint64_t json = 0;
  for (size_t i = 0; i < 50; ++i) json += Pod(i)->json().size();
  EXPECT_EQ(pods.json_bytes, json) << "exactly what the server sent";
  EXPECT_LT(pods.stored_bytes, json / 2);
  EXPECT_EQ(pods.pending_deltas, 1U);
  ASSERT_EQ(pods.indexes.size(), 1U);
  EXPECT_GT(stats.log_bytes, 0U);
  EXPECT_GE(stats.total_bytes, stats.log_bytes);
  EXPECT_GT(stats.memory.memtables, 0U);
  EXPECT_EQ(stats.memory.limit, size_t{64} << 20);
  EXPECT_EQ(stats.open_snapshots, 1U);
  EXPECT_EQ(stats.health, "");
  EXPECT_EQ(stats.families.size(), 5U);
  Must(Compact(*store_));
  stats = Must(GetStats(*store_));
  EXPECT_GT(stats.table_bytes, 0U);
  EXPECT_GT(stats.families[1].files, 0U);
  EXPECT_FALSE(stats.families[1].levels.empty());
  EXPECT_EQ(Must(GetStats(*store_, {.count_objects = false})).collections[0].objects, 0U);
}

TEST_F(MaintenanceTest, StatsOfAReader) {
  Put(0, 10);
  const auto reader = Must(Store::OpenReadOnly(Options()));
  EXPECT_EQ(Must(GetStats(*reader)).collections[0].objects, 10U);
  EXPECT_EQ(CodeOf(Compact(*reader)), ErrorCode::kUnsupported);
}

TEST_F(MaintenanceTest, FindsObsoleteFiles) {
  Put(0, 10);
  std::ofstream(dir_.path() + "/999999.sst") << "left behind";
  const StoreStats stats = Must(GetStats(*store_));
  EXPECT_EQ(stats.obsolete_files, 1U);
  EXPECT_EQ(stats.obsolete_bytes, 11U);
}

TEST_F(MaintenanceTest, ADiskBudgetStopsObjectsButNotAcknowledgements) {
  Put(0, 300);
  StoreOptions options;
  options.disk_limit = 1000;
  options.sync_interval = std::chrono::milliseconds(100);
  Open(options);
  for (int i = 0; i < 1000 && store_->Health(); ++i) {
    clock_.Advance(std::chrono::milliseconds(100));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(CodeOf(store_->Health()), ErrorCode::kNoSpace);
  Transaction objects = store_->Begin();
  objects.PutObject(pods_.id, Must(store_->Encode(pods_.id, *Pod(999))));
  const auto refused = store_->Commit(std::move(objects), Durability::kRelaxed);
  EXPECT_EQ(CodeOf(refused), ErrorCode::kNoSpace);
  EXPECT_NE(refused.error().message.find("disk_limit"), std::string::npos);
  Transaction rest = store_->Begin();
  rest.DeleteObject(pods_.id, PodKey(1));
  rest.DeleteQueueItem("q", "i", 1);
  Must(store_->Commit(std::move(rest), Durability::kRelaxed));
  EXPECT_EQ(Count(), 299U) << "reads go on";
  EXPECT_EQ(Must(GetStats(*store_)).disk_limit, 1000U);
  EXPECT_NE(Must(GetStats(*store_)).health, "");
}

TEST_F(MaintenanceTest, SnapshotsAreMadeListedRestoredAndRemoved) {
  Put(0, 20);
  EXPECT_TRUE(Must(ListSnapshots(dir_.path())).empty());
  const SnapshotInfo made = Must(CreateSnapshot(*store_, "before-upgrade"));
  EXPECT_EQ(made.name, "before-upgrade");
  EXPECT_GT(made.bytes, 0U);
  EXPECT_EQ(CodeOf(CreateSnapshot(*store_, "before-upgrade")), ErrorCode::kAlreadyExists);
  for (const char* name : {"", "..", "a/b", "a b", ".hidden"}) {
    EXPECT_EQ(CodeOf(CreateSnapshot(*store_, name)), ErrorCode::kInvalidArgument) << name;
  }
  Put(20, 40);
  ASSERT_EQ(Must(ListSnapshots(dir_.path())).size(), 1U);
  EXPECT_EQ(CodeOf(RestoreSnapshot(Options(), "before-upgrade")), ErrorCode::kLocked);
  store_.reset();
  EXPECT_EQ(CodeOf(RestoreSnapshot(Options(), "other")), ErrorCode::kNotFound);
  Must(RestoreSnapshot(Options(), "before-upgrade"));
  Open();
  EXPECT_EQ(Count(), 20U);
  EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(5)))->json(), Pod(5)->json());
  // It can be restored again: using it has not used it up.
  Put(40, 60);
  Must(Compact(*store_));
  store_.reset();
  Must(RestoreSnapshot(Options(), "before-upgrade"));
  Open();
  EXPECT_EQ(Count(), 20U);
  EXPECT_TRUE(Must(Verify(*store_)).Ok());
  Must(RemoveSnapshot(dir_.path(), "before-upgrade"));
  EXPECT_EQ(CodeOf(RemoveSnapshot(dir_.path(), "before-upgrade")), ErrorCode::kNotFound);
  EXPECT_EQ(Count(), 20U);
}

TEST_F(MaintenanceTest, ARestoreThatWasCutOffIsFinishedByDoingItAgain) {
  Put(0, 20);
  (void)Must(CreateSnapshot(*store_, "s"));
  Put(20, 40);
  store_.reset();
  // As a process leaves it that died while moving files: no CURRENT, a complete incoming directory.
  fs::copy(dir_.path() + "/snapshots/s", dir_.path() + "/incoming");
  std::ofstream(dir_.path() + "/incoming/COMPLETE") << "snapshot s";
  fs::remove_all(dir_.path() + "/snapshots/s");  // it is not needed a second time
  fs::create_directory(dir_.path() + "/snapshots/s");
  std::ofstream(dir_.path() + "/snapshots/s/CURRENT").flush();
  fs::permissions(dir_.path() + "/incoming", fs::perms::owner_all);
  fs::remove(dir_.path() + "/CURRENT");
  EXPECT_EQ(CodeOf(Store::Open(Options())), ErrorCode::kCorruption) << "never a half";
  Must(RestoreSnapshot(Options(), "s"));
  Open();
  EXPECT_EQ(Count(), 20U);
  EXPECT_FALSE(fs::exists(dir_.path() + "/incoming"));
}

TEST_F(MaintenanceTest, AnOwnerRemovesWhatAKilledOneLeftHalfDone) {
  Put(0, 20);
  (void)Must(CreateSnapshot(*store_, "s"));
  for (const char* half : {"/snapshots/t.tmp", "/incoming"}) {
    fs::create_directory(dir_.path() + half);
    std::ofstream(dir_.path() + half + "/000009.sst") << "half";
  }
  Open();
  EXPECT_FALSE(fs::exists(dir_.path() + "/incoming"));
  EXPECT_FALSE(fs::exists(dir_.path() + "/snapshots/t.tmp"));
  EXPECT_EQ(Must(ListSnapshots(dir_.path())).size(), 1U);
  EXPECT_EQ(Count(), 20U);
}

TEST_F(MaintenanceTest, ARestoreThatWasCutOffBehindAnyFileIsFinishedByDoingItAgain) {
  Put(0, 20);
  Must(Compact(*store_));
  (void)Must(CreateSnapshot(*store_, "s"));
  const std::vector<std::string> names = FilesOf("s");
  std::set<size_t> moved;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    Open();
    Put(20, 40);
    Must(Compact(*store_));
    moved.insert(CutOffRestore("s", name));
    EXPECT_EQ(CodeOf(Store::Open(Options())), ErrorCode::kCorruption) << "never a half";
    Must(RestoreSnapshot(Options(), "s"));
    Open();
    EXPECT_EQ(Count(), 20U);
    EXPECT_TRUE(Must(Verify(*store_)).Ok());
    EXPECT_FALSE(fs::exists(dir_.path() + "/incoming"));
  }
  EXPECT_EQ(moved.size(), names.size()) << "each number of files";
}

TEST_F(MaintenanceTest, ARestoreIsOnTheDiskBeforeTheOldStoreGoes) {
  Put(0, 20);
  (void)Must(CreateSnapshot(*store_, "s"));
  store_.reset();
  const std::string incoming = dir_.path() + "/incoming";
  std::set<std::string> files;             // that were synced before the mark was there
  bool marked = false, announced = false;  // the directories, behind it
  {
    const testing::SyncSpy spy([&](const std::string& path) {
      const bool complete = fs::exists(incoming + "/COMPLETE");
      const bool old_is_there = fs::exists(dir_.path() + "/CURRENT");
      if (!complete && old_is_there) files.insert(path);
      if (complete && old_is_there && path == incoming) marked = true;
      if (complete && old_is_there && path == dir_.path()) announced = true;
    });
    Must(RestoreSnapshot(Options(), "s"));
  }
  for (const auto& entry : fs::directory_iterator(dir_.path() + "/snapshots/s")) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(files.contains(incoming + "/" + name)) << name;
  }
  EXPECT_TRUE(files.contains(incoming)) << "the names, too";
  EXPECT_TRUE(marked);
  EXPECT_TRUE(announced);
}

TEST_F(MaintenanceTest, ARepairFinishesARestoreThatWasCutOff) {
  Put(0, 20);
  Must(Compact(*store_));
  (void)Must(CreateSnapshot(*store_, "s"));
  for (const std::string& name : FilesOf("s")) {
    SCOPED_TRACE(name);
    Open();
    Put(20, 40);
    CutOffRestore("s", name);
    EXPECT_EQ(Must(Repair(Options())).objects_kept, 20U);
    Open();
    EXPECT_EQ(Count(), 20U);
    EXPECT_TRUE(Must(Verify(*store_)).Ok());
  }
}

TEST_F(MaintenanceTest, ARestoreDoesNotGoOnWithWhatAnotherOneLeft) {
  Put(0, 20);
  (void)Must(CreateSnapshot(*store_, "first"));
  Put(20, 40);
  (void)Must(CreateSnapshot(*store_, "second"));
  store_.reset();
  fs::copy(dir_.path() + "/snapshots/first", dir_.path() + "/incoming");
  std::ofstream(dir_.path() + "/incoming/COMPLETE") << "snapshot first";
  Must(RestoreSnapshot(Options(), "second"));
  Open();
  EXPECT_EQ(Count(), 40U);
}

TEST_F(MaintenanceTest, ARestoreRemovesOnlyWhatBelongsToTheStore) {
  const std::string backups = dir_.path("backups"), home = dir_.path("home");
  Put(0, 20);
  (void)Must(CreateBackup(*store_, backups));
  std::ofstream(dir_.path() + "/notes.txt") << "mine";
  fs::create_directory(home);
  fs::permissions(home, fs::perms::owner_all);
  std::ofstream(home + "/notes.txt") << "mine";
  store_.reset();
  Must(RestoreBackup(Options(), backups));
  EXPECT_TRUE(fs::exists(dir_.path() + "/notes.txt"));
  EXPECT_EQ(CodeOf(RestoreBackup({.path = home}, backups)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(std::distance(fs::directory_iterator(home), {}), 1) << "untouched";
}

TEST_F(MaintenanceTest, ARestoreThatFailsLeavesTheStoreAndNothingElse) {
  const std::string backups = dir_.path("backups");
  Put(0, 20);
  (void)Must(CreateBackup(*store_, backups));
  Put(20, 40);
  store_.reset();
  for (const auto& entry : fs::directory_iterator(backups + "/shared_checksum")) {
    fs::resize_file(entry.path(), 10);
  }
  EXPECT_EQ(CodeOf(RestoreBackup(Options(), backups)), ErrorCode::kCorruption);
  EXPECT_FALSE(fs::exists(dir_.path() + "/incoming"));
  Open();
  EXPECT_EQ(Count(), 40U);
}

TEST_F(MaintenanceTest, ASnapshotThatLostATableIsNotPutInThePlaceOfTheStore) {
  Put(0, 20);
  (void)Must(CreateSnapshot(*store_, "s"));
  Put(20, 40);
  store_.reset();
  const std::string snapshot = dir_.path() + "/snapshots/s";
  ASSERT_TRUE(fs::remove(snapshot + "/" + testing::LargestTable(snapshot)));
  const auto restored = RestoreSnapshot(Options(), "s");
  EXPECT_EQ(CodeOf(restored), ErrorCode::kCorruption);
  EXPECT_NE(restored.error().message.find(dir_.path() + " is left as it was"), std::string::npos);
  EXPECT_FALSE(fs::exists(dir_.path() + "/incoming"));
  Open();
  EXPECT_EQ(Count(), 40U);
  EXPECT_TRUE(Must(Verify(*store_)).Ok());
}

TEST_F(MaintenanceTest, ARemovalThatIsCutOffLeavesNoSnapshotAndIsFinishedByTheNextOwner) {
  Put(0, 20);
  (void)Must(CreateSnapshot(*store_, "s"));
  const std::string going = dir_.path() + "/snapshots/s.tmp", kept = dir_.path("kept");
  size_t listed = 1;
  {
    // As a process leaves it that dies before the first table goes.
    const testing::SyncSpy spy([&](const std::string& path) {
      if (path != going) return;
      listed = Must(ListSnapshots(dir_.path())).size();
      fs::copy(going, kept);
    });
    Must(RemoveSnapshot(dir_.path(), "s"));
  }
  EXPECT_EQ(listed, 0U);
  EXPECT_FALSE(fs::exists(going));
  ASSERT_TRUE(fs::exists(kept));
  fs::rename(kept, going);
  EXPECT_EQ(CodeOf(RemoveSnapshot(dir_.path(), "s")), ErrorCode::kNotFound);
  Open();
  EXPECT_FALSE(fs::exists(going));
  EXPECT_EQ(Count(), 20U);
}

TEST_F(MaintenanceTest, ASnapshotWithDirectoriesInItIsRestored) {
  Put(0, 20);
  (void)Must(CreateSnapshot(*store_, "s"));
  fs::create_directories(dir_.path() + "/snapshots/s/tuning/left by a tool");
  Put(20, 40);
  store_.reset();
  Must(RestoreSnapshot(Options(), "s"));
  Open();
  EXPECT_EQ(Count(), 20U);
}

TEST_F(MaintenanceTest, ASnapshotIsCopiedWhereItCannotBeLinked) {
  const fs::path elsewhere = "/dev/shm/larder-test-" + std::to_string(::getpid());
  struct stat here {
  }, there{};
  if (::stat(dir_.root().c_str(), &here) != 0 || ::stat("/dev/shm", &there) != 0 ||
      here.st_dev == there.st_dev) {
    GTEST_SKIP() << "there is but one file system";
  }
  Put(0, 20);
  (void)Must(CreateSnapshot(*store_, "s"));
  Put(20, 40);
  store_.reset();
  fs::copy(dir_.path() + "/snapshots/s", elsewhere);
  fs::remove_all(dir_.path() + "/snapshots/s");
  fs::create_directory_symlink(elsewhere, dir_.path() + "/snapshots/s");
  const auto restored = RestoreSnapshot(Options(), "s");
  fs::remove_all(elsewhere);
  EXPECT_TRUE(restored) << restored.error().ToString();
  Open();
  EXPECT_EQ(Count(), 20U);
}

TEST_F(MaintenanceTest, NoSnapshotIsMadeUnderTheNameOfAnUnfinishedOne) {
  Put(0, 20);
  EXPECT_EQ(CodeOf(CreateSnapshot(*store_, "s.tmp")), ErrorCode::kInvalidArgument);
  // One that is there from before is used and removed like any other.
  (void)Must(CreateSnapshot(*store_, "s"));
  fs::rename(dir_.path() + "/snapshots/s", dir_.path() + "/snapshots/s.tmp");
  Put(20, 40);
  store_.reset();
  Must(RestoreSnapshot(Options(), "s.tmp"));
  Open();
  EXPECT_EQ(Count(), 20U);
  Must(RemoveSnapshot(dir_.path(), "s.tmp"));
  EXPECT_TRUE(fs::is_empty(dir_.path() + "/snapshots"));
}

TEST_F(MaintenanceTest, AStoreInMemoryHasNoSnapshots) {
  const auto memory = Must(Store::Open({.in_memory = true}));
  EXPECT_EQ(CodeOf(CreateSnapshot(*memory, "s")), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf(CreateBackup(*memory, dir_.path("b"))), ErrorCode::kUnsupported);
  (void)Must(GetStats(*memory));
}

}  // namespace
}  // namespace larder
