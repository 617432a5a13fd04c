// A disk that fails for a moment under a running store: what failed stays failed, what succeeded is
// there, now and after a restart.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "storage/mailbox.h"
#include "storage/store_impl.h"
#include "storage/testing.h"
#include "tests/storage/failing_disk.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;

class StoreFailureTest : public ::testing::Test {
 protected:
  Result<void> PutNote(Store& store, const std::string& name, Durability durability) const {
    Transaction transaction = store.Begin();
    transaction.PutNote(name, "here");
    return store.Commit(std::move(transaction), durability);
  }
  // Until the store has got over its failure.
  void PutNoteAtLast(Store& store, const std::string& name) const {
    while (!PutNote(store, name, Durability::kRelaxed)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  // The directory as a process that is killed now would leave it. RocksDB may be removing old
  // files.
  std::string Killed() const {
    const std::string copy = dir_.path("killed");
    for (std::error_code error(1, std::generic_category()); error;) {
      std::filesystem::remove_all(copy);
      std::filesystem::copy(dir_.path(), copy, error);
    }
    std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
    return copy;
  }
  // Nothing is done behind the test's back.
  StoreOptions Options() const {
    StoreOptions options;
    options.path = dir_.path();
    options.sync_interval = std::chrono::hours(1);
    return options;
  }
  // The only one.
  std::string Log() const {
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      if (entry.path().extension() == ".log") return entry.path().string();
    }
    return {};
  }
  static int Trigger(const Store& store) {
    const auto database = store.impl().database();
    return (*database)
        ->GetOptions(database->family(Family::kObjects))
        .level0_file_num_compaction_trigger;
  }
  static std::string Notes(const Store& store) {
    std::string there;
    for (const char* name : {"before", "lost", "failed", "after"}) {
      if (Must(store.GetNote(name))) there += std::string(there.empty() ? "" : ", ") + name;
    }
    return there;
  }

  testing::TempDir dir_;
  testing::FailingDisk disk_;
};

TEST_F(StoreFailureTest, ACommitWhoseSyncFailedDoesNotComeBack) {
  std::string killed;
  {
    const auto store = Must(OpenStoreOnEnv(Options(), disk_.env()));
    Must(PutNote(*store, "before", Durability::kRelaxed));
    disk_.FailLogSyncs(1);
    EXPECT_EQ(CodeOf(PutNote(*store, "failed", Durability::kSync)), ErrorCode::kIo);
    PutNoteAtLast(*store, "after");
    EXPECT_EQ(Notes(*store), "before, after");
    killed = Killed();
  }
  EXPECT_EQ(disk_.failures(), 1);
  EXPECT_EQ(Notes(*Must(Store::Open({.path = killed}))), "before, after");
  EXPECT_EQ(Notes(*Must(Store::Open({.path = dir_.path()}))), "before, after");
}

TEST_F(StoreFailureTest, ADatabaseThatIsOpenedAgainKeepsWhatWasChangedInIt) {
  const auto store = Must(OpenStoreOnEnv(Options(), disk_.env()));
  EngineOptions engine;
  Must(engine.Set("objects.level0_file_num_compaction_trigger", "6"));
  EXPECT_EQ(Must(ChangeOptions(*store, engine)).changed.size(), 1U);
  disk_.FailLogSyncs(1);
  EXPECT_FALSE(PutNote(*store, "failed", Durability::kSync));
  PutNoteAtLast(*store, "after");
  ASSERT_EQ(store->impl().reopened(), 1U);
  EXPECT_EQ(Trigger(*store), 6);
}

TEST_F(StoreFailureTest, AnOptionThatWasChangedCanBeChangedBack) {
  StoreOptions options = Options();
  Must(options.engine.Set("objects.level0_file_num_compaction_trigger", "5"));
  const auto store = Must(OpenStoreOnEnv(options, disk_.env()));
  EngineOptions other;
  Must(other.Set("objects.level0_file_num_compaction_trigger", "6"));
  Must(ChangeOptions(*store, other));
  EXPECT_EQ(Trigger(*store), 6);
  EXPECT_EQ(Must(ChangeOptions(*store, options.engine)).changed.size(), 1U);
  EXPECT_EQ(Trigger(*store), 5);
  EXPECT_TRUE(Must(ChangeOptions(*store, options.engine)).changed.empty());
  EXPECT_EQ(Must(ChangeOptions(*store, {})).at_next_start.size(), 1U) << "what it was is not known";
}

TEST_F(StoreFailureTest, ACommitWhoseWriteFailedDoesNotComeBack) {
  {
    const auto store = Must(OpenStoreOnEnv(Options(), disk_.env()));
    Must(PutNote(*store, "before", Durability::kRelaxed));
    disk_.FailLogWritesWith("failed");
    EXPECT_EQ(CodeOf(PutNote(*store, "failed", Durability::kRelaxed)), ErrorCode::kIo);
    disk_.FailLogWritesWith("");
    PutNoteAtLast(*store, "after");
    EXPECT_EQ(Notes(*store), "before, after");
  }
  EXPECT_EQ(Notes(*Must(Store::Open({.path = dir_.path()}))), "before, after");
}

// A flush syncs the logs before its own, on a thread of RocksDB's. Nobody has called the store
// then, and RocksDB aborts when such a log is synced once more.
TEST_F(StoreFailureTest, ALogWhoseSyncFailedInAFlushIsNotTouchedAgain) {
  {
    const auto store = Must(OpenStoreOnEnv(Options(), disk_.env()));
    Must(PutNote(*store, "before", Durability::kRelaxed));
    disk_.FailLogSyncs(1);
    store->StartFlush();
    for (int i = 0; i < 1000 && store->Health(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(disk_.failures(), 1);
    EXPECT_EQ(CodeOf(store->Sync()), ErrorCode::kIo);
    PutNoteAtLast(*store, "after");
    EXPECT_EQ(Notes(*store), "before, after");
    EXPECT_TRUE(store->Health());
  }
  EXPECT_EQ(Notes(*Must(Store::Open({.path = dir_.path()}))), "before, after");
}

// Writing back failed, and the pages are gone: a later sync that succeeds does not bring them back.
TEST_F(StoreFailureTest, CommitsThatTheDiskLostEndWritingUntilTheNextStart) {
  {
    const auto store = Must(OpenStoreOnEnv(Options(), disk_.env()));
    Must(PutNote(*store, "before", Durability::kSync));
    const uintmax_t kept = std::filesystem::file_size(Log());
    Must(PutNote(*store, "lost", Durability::kRelaxed));
    disk_.FailLogSyncs(1);
    EXPECT_EQ(CodeOf(store->Sync()), ErrorCode::kIo);
    std::filesystem::resize_file(Log(), kept);
    const auto committed = PutNote(*store, "after", Durability::kRelaxed);
    EXPECT_EQ(CodeOf(committed), ErrorCode::kCorruption);
    EXPECT_NE(committed.error().message.find("lost commits"), std::string::npos);
    EXPECT_EQ(Notes(*store), "before") << "it can be read";
    // Longer than the pause between two recoveries.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(CodeOf(PutNote(*store, "after", Durability::kRelaxed)), ErrorCode::kCorruption);
    EXPECT_EQ(CodeOf(store->Sync()), ErrorCode::kCorruption);
    EXPECT_EQ(CodeOf(store->Health()), ErrorCode::kCorruption);
  }
  const auto store = Must(Store::Open({.path = dir_.path()}));
  EXPECT_EQ(Notes(*store), "before");
  Must(PutNote(*store, "after", Durability::kSync));
}

TEST_F(StoreFailureTest, ADirectoryThatWasEmptiedDoesNotBecomeANewStore) {
  const auto store = Must(OpenStoreOnEnv(Options(), disk_.env()));
  Must(PutNote(*store, "before", Durability::kSync));
  disk_.FailLogSyncs(1);
  EXPECT_FALSE(PutNote(*store, "failed", Durability::kSync));
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    std::filesystem::remove_all(entry.path());
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(CodeOf(PutNote(*store, "after", Durability::kRelaxed)), ErrorCode::kNotFound);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/CURRENT"));
}

// A process that dies with its store broken takes the knowledge with it: the commit was written.
TEST_F(StoreFailureTest, AnotherProcessMayFindTheCommitWhoseSyncFailed) {
  const auto store = Must(OpenStoreOnEnv(Options(), disk_.env()));
  Must(PutNote(*store, "before", Durability::kRelaxed));
  disk_.FailLogSyncs(1);
  EXPECT_EQ(CodeOf(PutNote(*store, "failed", Durability::kSync)), ErrorCode::kIo);
  EXPECT_EQ(Notes(*Must(Store::Open({.path = Killed()}))), "before, failed");
}

}  // namespace
}  // namespace larder
