// Repair: what is sound is kept, whatever is lost beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <thread>

#include "storage/notes.h"
#include "tests/storage/sync_spy.h"
#include "tests/storage/verify_fixture.h"

namespace larder {
namespace {

namespace fs = std::filesystem;
using testing::CodeOf;
using testing::Must;
using testing::Pod;
using testing::PodKey;
using testing::SpecOf;
using testing::VerifyTest;

TEST_F(VerifyTest, RepairOfASoundStoreChangesNothingButItsIndexes) {
  store_.reset();
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  EXPECT_EQ(report.objects_kept, kPods);
  EXPECT_EQ(report.objects_lost, 0U);
  EXPECT_TRUE(report.relist.empty());
  Open();
  EXPECT_EQ(pods_.cursor.resource_version, "77");
  EXPECT_EQ(pods_.cursor.state, SyncState::kSynced);
  EXPECT_EQ(Must(store_->GetNote("n")), "1");
  const VerifyReport verified = Must(Verify(*store_));
  EXPECT_TRUE(verified.Ok());
  EXPECT_EQ(verified.objects, kPods);
  EXPECT_EQ(verified.queue_items, kPods);
  EXPECT_EQ(verified.deltas, 1U);
  EXPECT_EQ(verified.index_keys, 0U) << "whoever declares them builds them anew";
  EXPECT_TRUE(fs::exists(report.damaged_files + "/CURRENT")) << "the old files are kept";
  // Ids go on where they were.
  EXPECT_EQ(Must(store_->OpenCollection(SpecOf("pods", "x"))).id, pods_.id + 1);
}

TEST_F(VerifyTest, RepairKeepsWhatIsSoundAndHasTheRestListedAgain) {
  const CollectionInfo other = Must(store_->OpenCollection(SpecOf("configmaps")));
  Transaction transaction = store_->Begin();
  transaction.SetCursor(other.id, {"5", SyncState::kSynced, 1, 0});
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  Raw(Family::kObjects, KeyOf(3), "nonsense");
  Raw(Family::kQueues, "q/broken", "x");
  store_.reset();
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  EXPECT_EQ(report.objects_kept, kPods - 1);
  EXPECT_EQ(report.objects_lost, 1U);
  EXPECT_EQ(report.other_rows_lost, 1U);
  EXPECT_EQ(report.relist, std::vector<std::string>{"pods"});
  Open();
  EXPECT_EQ(pods_.cursor.state, SyncState::kListing);
  EXPECT_FALSE(pods_.cursor.Complete()) << "never served as if it were whole";
  EXPECT_EQ(Must(store_->GetCursor(other.id)).resource_version, "5") << "the other is left alone";
  EXPECT_TRUE(Must(Verify(*store_)).Ok());
  EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(4)))->json(), Pod(4)->json());
}

TEST_F(VerifyTest, RepairForgetsWhoWasToldWhatWherePendingWorkMayBeLost) {
  const CollectionInfo other = Must(store_->OpenCollection(SpecOf("configmaps")));
  const auto note_names = [&] {
    Transaction transaction = store_->Begin();
    for (const CollectionId id : {pods_.id, other.id}) {
      transaction.PutNote(DurableNamesNote(id), R"({"audit":0})");
      transaction.SetCursor(id, {"77", SyncState::kSynced, 4, 0});
    }
    Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  };
  const auto repair = [&] {
    store_.reset();
    Must(Repair({.path = dir_.path()}));
    Open();
  };
  const auto known = [&](CollectionId id) {
    return Must(store_->GetNote(DurableNamesNote(id))).has_value();
  };
  note_names();
  repair();
  EXPECT_TRUE(known(pods_.id)) << "nothing was lost";
  Raw(Family::kObjects, KeyOf(3), "nonsense");
  repair();
  EXPECT_FALSE(known(pods_.id)) << "a row may wait for the object that is lost";
  EXPECT_TRUE(known(other.id));
  note_names();
  Raw(Family::kQueues, "q/broken", "x");
  repair();
  EXPECT_FALSE(known(pods_.id)) << "whose item it was nobody knows";
  EXPECT_FALSE(known(other.id));
}

// Whatever is lost of the repaired store's log, a cursor does not stand without its objects.
TEST_F(VerifyTest, EveryPrefixOfARepairedStoreIsSound) {
  store_.reset();
  Must(Repair({.path = dir_.path()}));
  fs::path log;
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    if (entry.path().extension() == ".log" && entry.file_size() > 0) log = entry.path();
  }
  const uintmax_t whole = fs::file_size(log);
  testing::TempDir scratch;
  for (uintmax_t part = 1; part < 20; ++part) {
    fs::remove_all(scratch.path());
    fs::copy(dir_.path(), scratch.path());
    fs::resize_file(fs::path(scratch.path()) / log.filename(), whole * part / 20);
    const auto store = Must(Store::Open({.path = scratch.path()}));
    for (const CollectionInfo& collection : Must(store->Collections())) {
      if (!collection.cursor.Complete()) continue;
      EXPECT_EQ(Must(Verify(*store)).objects, kPods) << part << "/20 of the log";
    }
  }
}

TEST_F(VerifyTest, RepairReadsAroundADamagedBlock) {
  DamageTables("objects", 3000);
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  EXPECT_GE(report.objects_kept, kPods / 2);
  EXPECT_LT(report.objects_kept, kPods);
  Open();
  EXPECT_FALSE(pods_.cursor.Complete());
  const VerifyReport verified = Must(Verify(*store_));
  EXPECT_TRUE(verified.Ok());
  EXPECT_EQ(verified.objects, report.objects_kept);
}

TEST_F(VerifyTest, RepairLeavesOutWhatARecoveryHadLeftOut) {
  Must(Compact(*store_));  // tables that can be damaged
  const auto put = [this](uint64_t from, uint64_t to) {
    for (uint64_t version = from; version <= to; ++version) {
      testing::PutAll(*store_, pods_.id, {Pod(100, version)});
    }
  };
  const auto version = [this] {
    return std::string(Must(store_->Get(pods_.id, PodKey(100)))->resource_version());
  };
  put(1, 40);
  const std::string last = version();
  store_.reset();
  fs::path log;
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    if (entry.path().extension() == ".log" && entry.file_size() > 0) log = entry.path();
  }
  std::fstream(log, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(fs::file_size(log) / 2))
      .write("damaged", 7);
  Open();
  ASSERT_NE(version(), last) << "it is behind the damage";
  // With the sequence numbers of what is left out, and fewer of them.
  put(51, 53);
  const std::string newest = version();
  store_.reset();
  fs::directory_entry least;
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    if (entry.path().extension() != ".sst") continue;
    if (least.path().empty() || entry.file_size() < least.file_size()) least = entry;
  }
  fs::resize_file(least.path(), least.file_size() / 2);  // so that the logs are read forgivingly
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  EXPECT_EQ(report.relist, std::vector<std::string>{"pods"});
  Open();
  EXPECT_EQ(version(), newest);
}

TEST_F(VerifyTest, RepairMakesAStoreOfOneWithoutAManifest) {
  Must(Compact(*store_));
  store_.reset();
  RemoveManifest();
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  EXPECT_EQ(report.objects_kept, kPods);
  Open();
  EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(4)))->json(), Pod(4)->json());
  // Which tables belonged together nobody knows: what is stored must be compared with the server.
  EXPECT_FALSE(pods_.cursor.Complete());
  EXPECT_EQ(report.relist.size(), 1u);
}

// The manifest that RocksDB makes from the tables looks like any other: it must never stand in the
// store itself, whose rows may be of different times.
TEST_F(VerifyTest, ARepairWithoutAManifestThatFailsLeavesADamagedStore) {
  Must(Compact(*store_));
  store_.reset();
  RemoveManifest();
  const size_t tables = Tables();
  StoreOptions without_its_key{.path = dir_.path()};
  without_its_key.encryption_key_file = dir_.path("no such file");
  EXPECT_FALSE(Repair(without_its_key));
  EXPECT_EQ(CodeOf(Store::Open({.path = dir_.path()})), ErrorCode::kCorruption);
  EXPECT_EQ(CodeOf(Store::OpenReadOnly({.path = dir_.path()})), ErrorCode::kCorruption);
  EXPECT_EQ(Tables(), tables);
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  EXPECT_EQ(report.objects_kept, kPods);
  EXPECT_EQ(report.relist, std::vector<std::string>{"pods"});
  Open();
  EXPECT_FALSE(pods_.cursor.Complete());
}

TEST_F(VerifyTest, ARepairWithoutAManifestKeepsTheOldFilesAsTheyWere) {
  Must(Compact(*store_));
  store_.reset();
  RemoveManifest();
  std::map<std::string, uintmax_t> old;
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".sst" || extension == ".log") {
      old[entry.path().filename().string()] = entry.file_size();
    }
  }
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  for (const auto& [name, bytes] : old) {
    const fs::path kept = fs::path(report.damaged_files) / name;
    ASSERT_TRUE(fs::exists(kept)) << name;
    EXPECT_EQ(fs::file_size(kept), bytes) << name;
    EXPECT_EQ(fs::hard_link_count(kept), 1U) << name;
  }
  EXPECT_FALSE(fs::exists(dir_.path() + "/lost"));
  EXPECT_FALSE(fs::exists(dir_.path() + "/incoming"));
  EXPECT_FALSE(fs::exists(dir_.path() + "/salvage"));
}

TEST_F(VerifyTest, AStoreWhoseManifestNamesNothingOfItIsDamagedAndCanBeRepaired) {
  Must(Compact(*store_));
  store_.reset();
  PutEmptyManifest();
  const size_t tables = Tables();
  EXPECT_EQ(CodeOf(Store::Open({.path = dir_.path()})), ErrorCode::kCorruption);
  EXPECT_EQ(CodeOf(Store::OpenReadOnly({.path = dir_.path()})), ErrorCode::kCorruption);
  EXPECT_EQ(Tables(), tables) << "RocksDB removes tables that its manifest does not name";
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  EXPECT_EQ(report.objects_kept, kPods);
  EXPECT_EQ(report.relist, std::vector<std::string>{"pods"});
  Open();
  EXPECT_FALSE(pods_.cursor.Complete());
  EXPECT_TRUE(Must(Verify(*store_)).Ok());
}

// The rows are in the log alone. RocksDB knows families by their tables, and passes over rows of
// others: they are listed anew, but nothing is removed without a word.
TEST_F(VerifyTest, ALogThatTheManifestDoesNotKnowIsKeptToo) {
  store_.reset();
  PutEmptyManifest();
  ASSERT_EQ(Tables(), 0U);
  EXPECT_EQ(CodeOf(Store::Open({.path = dir_.path()})), ErrorCode::kCorruption);
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  uintmax_t log_bytes = 0;
  for (const auto& entry : fs::directory_iterator(report.damaged_files)) {
    if (entry.path().extension() == ".log") log_bytes += entry.file_size();
  }
  EXPECT_GT(log_bytes, 0U);
  Open();
  EXPECT_FALSE(pods_.cursor.Complete());
  EXPECT_TRUE(Must(Verify(*store_)).Ok());
}

TEST_F(VerifyTest, AStoreOfANewerLarderIsNotRepaired) {
  RawClosed(Family::kMeta, std::string(kFormatKey), std::to_string(kFormat + 1));
  EXPECT_EQ(CodeOf(Repair({.path = dir_.path()})), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf(Store::Open({.path = dir_.path()})), ErrorCode::kUnsupported)
      << "it is as it was";
}

TEST_F(VerifyTest, AStoreThatLostItsFileCurrentIsDamagedAndCanBeRepaired) {
  Must(Compact(*store_));
  store_.reset();
  fs::remove(dir_.path() + "/CURRENT");
  EXPECT_EQ(CodeOf(Store::Open({.path = dir_.path()})), ErrorCode::kCorruption);
  EXPECT_EQ(CodeOf(Store::OpenReadOnly({.path = dir_.path()})), ErrorCode::kCorruption);
  EXPECT_EQ(Must(Repair({.path = dir_.path()})).objects_kept, kPods);
  Open();
  EXPECT_TRUE(Must(Verify(*store_)).Ok());
}

TEST_F(VerifyTest, RepairSaysThatAPlaceCannotBeRead) {
  Must(Compact(*store_));
  store_.reset();
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    if (entry.path().extension() == ".sst") fs::resize_file(entry.path(), 10);
  }
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  EXPECT_GT(report.gaps, 0U);
}

// A process that is killed behind a compaction leaves the tables that were replaced, too. Without a
// manifest they count like the others, and rows stand twice under one sequence number, zero.
TEST_F(VerifyTest, RepairWithoutAManifestBearsTablesThatWereReplaced) {
  Must(Compact(*store_));
  store_.reset();
  std::vector<fs::path> tables;
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    if (entry.path().extension() == ".sst") tables.push_back(entry.path());
  }
  ASSERT_FALSE(tables.empty());
  for (const fs::path& table : tables) {
    const int number = std::stoi(table.stem().string()) + 500;
    fs::copy_file(table, dir_.path() + fmt::format("/{:06}.sst", number));
  }
  RemoveManifest();
  const RepairReport report = Must(Repair({.path = dir_.path()}));
  EXPECT_EQ(report.objects_kept, kPods);
  Open();
  EXPECT_TRUE(Must(Verify(*store_)).Ok());
  EXPECT_EQ(report.relist.size(), 1u);
}

// The same under a row that was deleted since: to get past the delete is to step from one to the
// next.
TEST_F(VerifyTest, RepairWithoutAManifestBearsDeletesOverTablesThatWereReplaced) {
  Must(Compact(*store_));
  fs::create_directory(copies_.path());
  std::vector<std::pair<fs::path, fs::path>> copies;
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    if (entry.path().extension() != ".sst") continue;
    const int number = std::stoi(entry.path().stem().string()) + 500;
    const fs::path name = fmt::format("{:06}.sst", number);
    copies.emplace_back(fs::path(copies_.path()) / name, fs::path(dir_.path()) / name);
    fs::copy_file(entry.path(), copies.back().first);
  }
  ASSERT_FALSE(copies.empty());
  Transaction transaction = store_->Begin();
  transaction.DeleteObject(pods_.id, PodKey(3));
  Must(store_->Commit(std::move(transaction), Durability::kSync));
  store_.reset();
  for (const auto& [from, to] : copies) fs::copy_file(from, to);
  RemoveManifest();
  EXPECT_EQ(Must(Repair({.path = dir_.path()})).objects_kept, kPods - 1);
  Open();
  EXPECT_TRUE(Must(Verify(*store_)).Ok());
}

// An hour passes between any two looks at it, and the calendar is far ahead.
class LeapingClock final : public Clock {
 public:
  Steady Now() const override { return Steady(std::chrono::hours(++looks_)); }
  Wall WallNow() const override { return Wall(std::chrono::hours(24 * 365 * 100)); }
  bool WaitUntil(Mutex&, std::condition_variable_any&, Steady,
                 const std::stop_token& stop) override {
    std::this_thread::yield();
    return !stop.stop_requested();
  }

 private:
  mutable std::atomic<int64_t> looks_{0};
};

TEST_F(VerifyTest, RepairDropsNoCollectionForBeingUnused) {
  store_.reset();
  LeapingClock clock;
  StoreOptions options{.path = dir_.path()};
  options.collection_ttl = std::chrono::hours(1);
  options.clock = &clock;
  EXPECT_EQ(Must(Repair(options)).objects_kept, kPods);
  Open();
  EXPECT_EQ(pods_.cursor.resource_version, "77");
  EXPECT_EQ(Must(Verify(*store_)).objects, kPods);
}

// A directory in the place of a file ends the move there, as a process that dies would.
TEST_F(VerifyTest, ARepairThatWasCutOffBehindAnyFileIsFinishedByDoingItAgain) {
  // The numbers of the old files grow past those of a new store's.
  for (int i = 0; i < 5; ++i) {
    Must(Compact(*store_));
    Open();
  }
  store_.reset();
  const std::string kept = dir_.path("kept");
  fs::copy(dir_.path(), kept, fs::copy_options::recursive);
  Must(Repair({.path = dir_.path()}));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name != "LOCK" && name != "owner.lock" &&
        !fs::exists(kept + "/" + name)) {
      names.push_back(name);
    }
  }
  ASSERT_GT(names.size(), 2U);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    fs::remove_all(dir_.path());
    fs::copy(kept, dir_.path(), fs::copy_options::recursive);
    fs::permissions(dir_.path(), fs::perms::owner_all);
    fs::create_directories(dir_.path() + "/" + name + "/in the way");
    EXPECT_EQ(CodeOf(Repair({.path = dir_.path()})), ErrorCode::kIo);
    fs::remove_all(dir_.path() + "/" + name);
    const RepairReport report = Must(Repair({.path = dir_.path()}));
    EXPECT_TRUE(fs::exists(report.damaged_files + "/CURRENT")) << "the old files are kept";
    Open();
    const VerifyReport verified = Must(Verify(*store_));
    EXPECT_TRUE(verified.Ok());
    EXPECT_EQ(verified.objects, kPods);
    EXPECT_EQ(verified.queue_items, kPods);
    EXPECT_EQ(pods_.cursor.resource_version, "77");
    store_.reset();
  }
}

// What is not synced may be gone after a power loss, in any order: a store that had its CURRENT
// back, but not its tables, would be repaired once more, and lose their rows.
TEST_F(VerifyTest, TheOldCurrentIsGoneFromTheDiskBeforeAnyOtherOldFileIsMoved) {
  Must(Compact(*store_));
  store_.reset();
  std::vector<std::string> old;
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".sst" || name.starts_with("MANIFEST-")) old.push_back(name);
  }
  ASSERT_GE(old.size(), 2U);
  bool kept = false, gone = false;
  {
    const testing::SyncSpy spy([&](const std::string& path) {
      const bool all_there = std::all_of(old.begin(), old.end(), [&](const std::string& name) {
        return fs::exists(dir_.path() + "/" + name);
      });
      if (!all_there || fs::exists(dir_.path() + "/CURRENT")) return;
      if (path.starts_with(dir_.path() + "/damaged-")) kept = fs::exists(path + "/CURRENT");
      if (path == dir_.path()) gone = kept;
    });
    Must(Repair({.path = dir_.path()}));
  }
  EXPECT_TRUE(kept) << "it is where it is kept";
  EXPECT_TRUE(gone) << "and then not where it was";
}

TEST_F(VerifyTest, RepairNeedsTheStoreForItself) {
  EXPECT_EQ(CodeOf(Repair({.path = dir_.path()})), ErrorCode::kLocked);
}

}  // namespace
}  // namespace larder
