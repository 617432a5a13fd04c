// A disk that fails for a moment under a running store: what failed stays failed, what succeeded is
// there, now and after a restart.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

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
  static std::string Notes(const Store& store) {
    std::string there;
    for (const char* name : {"before", "failed", "after"}) {
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

// RocksDB would sync the log in the background, keep the failure to itself, and meet an assertion
// of its own at the next sync.
TEST_F(StoreFailureTest, AFlushThatCannotSyncTheLogIsGotOver) {
  {
    const auto store = Must(OpenStoreOnEnv(Options(), disk_.env()));
    Must(PutNote(*store, "before", Durability::kRelaxed));
    disk_.FailLogSyncs(1);
    store->StartFlush();
    while (disk_.failures() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // Time for the flush to end.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    (void)store->Sync();
    PutNoteAtLast(*store, "after");
    Must(store->Sync());
    EXPECT_EQ(Notes(*store), "before, after");
  }
  EXPECT_EQ(Notes(*Must(Store::Open({.path = dir_.path()}))), "before, after");
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
