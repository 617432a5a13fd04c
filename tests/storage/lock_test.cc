// One process owns a store, whoever else tries at the same time.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "storage/maintenance.h"
#include "storage/owner_lock.h"
#include "storage/store_impl.h"
#include "storage/testing.h"
#include "tests/storage/child.h"
#include "tests/storage/failing_disk.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;

std::vector<std::unique_ptr<testing::Child>> Takers(int count, const std::string& path, int times) {
  std::vector<std::unique_ptr<testing::Child>> takers;
  for (int i = 0; i < count; ++i) {
    takers.push_back(std::make_unique<testing::Child>("take", path, std::to_string(times)));
  }
  return takers;
}

int Counted(const testing::TempDir& dir) {
  int count = 0;
  std::ifstream(dir.path("counter")) >> count;
  return count;
}

Result<void> CommitNote(Store& store) {
  Transaction transaction = store.Begin();
  transaction.PutNote("by", "us");
  return store.Commit(std::move(transaction), Durability::kRelaxed);
}

TEST(StoreLock, ManyWhoTryAtOnceOwnItOneAfterTheOther) {
  const testing::TempDir dir;
  for (const auto& taker : Takers(4, dir.path(), 20)) EXPECT_EQ(taker->Wait(), 0);
  EXPECT_EQ(Counted(dir), 4 * 20);
}

TEST(StoreLock, WhoWaitsForAnOwnerThatIsKilledGetsItAlone) {
  const testing::TempDir dir;
  for (int round = 0; round < 5; ++round) {
    testing::Child owner("hold", dir.path());
    ASSERT_EQ(owner.ReadLine(), "open");
    const auto takers = Takers(2, dir.path(), 3);
    ::usleep(20'000);
    EXPECT_EQ(Counted(dir), round * 6) << "somebody came in while it was owned";
    owner.Kill();
    EXPECT_EQ(owner.Wait(), -SIGKILL);
    for (const auto& taker : takers) EXPECT_EQ(taker->Wait(), 0);
    EXPECT_EQ(Counted(dir), (round + 1) * 6);
  }
}

TEST(StoreLock, AFileThatIsLeftOverIsNoLock) {
  const testing::TempDir dir;
  (void)Must(Store::Open({.path = dir.path()}));
  ASSERT_TRUE(std::filesystem::exists(dir.path("store/LOCK")));
  // Whatever is in it, and be it the pid of somebody who lives.
  std::ofstream(dir.path("store/LOCK")) << ::getppid() << '\n';
  const auto store = Must(Store::Open({.path = dir.path()}));
  EXPECT_EQ(testing::Child("hold", dir.path()).Wait(), 1) << "but now it is one";
}

// RocksDB's own lock is free while its database is open for reading only.
TEST(StoreLock, AnOwnerWhoseDiskLetsItOnlyReadIsStillTheOwner) {
  const testing::TempDir dir;
  testing::FailingDisk disk;
  StoreOptions options;
  options.path = dir.path();
  options.sync_interval = std::chrono::hours(1);
  auto store = Must(OpenStoreOnEnv(options, disk.env()));
  std::filesystem::path log;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path().extension() == ".log") log = entry.path();
  }
  const auto kept = std::filesystem::file_size(log);
  Must(CommitNote(*store));
  disk.FailLogSyncs(1);
  EXPECT_FALSE(store->Sync());
  std::filesystem::resize_file(log, kept);
  EXPECT_EQ(CodeOf(CommitNote(*store)), ErrorCode::kCorruption);
  ASSERT_EQ(store->impl().database()->mode(), Database::Mode::kFrozen);

  const auto second = Store::Open({.path = dir.path()});
  ASSERT_EQ(CodeOf(second), ErrorCode::kLocked);
  EXPECT_NE(second.error().message.find("this process"), std::string::npos);
  EXPECT_EQ(testing::Child("hold", dir.path()).Wait(), 1) << "another process got in";
  EXPECT_EQ(CodeOf(Repair({.path = dir.path()})), ErrorCode::kLocked);
  EXPECT_EQ(LockOwner(dir.path()), ::getpid());
  store.reset();
  Must(CommitNote(*Must(Store::Open({.path = dir.path()}))));
}

TEST(StoreLock, AnybodyIsToldWhoTheOwnerIs) {
  const testing::TempDir dir;
  EXPECT_EQ(LockOwner(dir.path()), 0);
  {
    testing::Child owner("hold", dir.path());
    ASSERT_EQ(owner.ReadLine(), "open");
    EXPECT_EQ(LockOwner(dir.path()), owner.pid());
    std::filesystem::rename(dir.path("store/owner.lock"), dir.path("aside"));
    EXPECT_EQ(LockOwner(dir.path()), owner.pid()) << "a larder of before has RocksDB's lock alone";
  }
  EXPECT_EQ(LockOwner(dir.path()), 0);
}

// To close a file is to give up the lock that the process has on it.
TEST(StoreLock, WhoAsksForTheOwnerDoesNotCostItTheLock) {
  const testing::TempDir dir;
  (void)Must(Store::Open({.path = dir.path()}));
  const std::jthread asking([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const pid_t owner = LockOwner(dir.path());
      ASSERT_TRUE(owner == 0 || owner == ::getpid()) << owner;
    }
  });
  for (int round = 0; round < 10; ++round) {
    const auto store = Must(Store::Open({.path = dir.path()}));
    EXPECT_EQ(testing::Child("hold", dir.path()).Wait(), 1) << "another process got in";
    EXPECT_EQ(LockOwner(dir.path()), ::getpid());
  }
}

TEST(StoreLock, ASnapshotThatOutlivesItsStoreKeepsTheLock) {
  const testing::TempDir dir;
  auto store = Must(Store::Open({.path = dir.path()}));
  SnapshotPtr snapshot = store->TakeSnapshot();
  store.reset();
  EXPECT_EQ(LockOwner(dir.path()), ::getpid());
  EXPECT_EQ(testing::Child("hold", dir.path()).Wait(), 1) << "RocksDB has it open still";
  snapshot.reset();
  EXPECT_EQ(LockOwner(dir.path()), 0);
  (void)Must(Store::Open({.path = dir.path()}));
}

TEST(StoreLock, AStoreThatIsOpenUnderAnotherNameIsOpen) {
  const testing::TempDir dir;
  const auto store = Must(Store::Open({.path = dir.path()}));
  std::filesystem::create_directory_symlink(dir.path(), dir.path("link"));
  EXPECT_EQ(CodeOf(Store::Open({.path = dir.path("link")})), ErrorCode::kLocked);
  EXPECT_EQ(testing::Child("hold", dir.path()).Wait(), 1) << "trying gave the lock away";
}

TEST(StoreLock, AForkThatEndsDoesNotGiveTheLockAway) {
  const testing::TempDir dir;
  const auto store = Must(Store::Open({.path = dir.path()}));
  const pid_t fork = ::fork();
  ASSERT_GE(fork, 0);
  if (fork == 0) {
    const Result<void> committed = CommitNote(*store);
    const bool refused = !committed && committed.error().code == ErrorCode::kLocked;
    const bool knows_owner = LockOwner(dir.path()) == ::getppid();
    std::_Exit(!refused ? 1 : !knows_owner ? 2 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(fork, &status, 0), fork);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_NE(WEXITSTATUS(status), 1) << "it wrote to its parent's store";
  EXPECT_NE(WEXITSTATUS(status), 2) << "it took another for the owner";
  EXPECT_EQ(testing::Child("hold", dir.path()).Wait(), 1) << "another process got in";
  Must(CommitNote(*store));
}

TEST(StoreLock, AForkThatOutlivesTheOwnerIsNoOwner) {
  const testing::TempDir dir;
  testing::Child owner("fork", dir.path());
  ASSERT_EQ(owner.ReadLine(), "open");
  owner.Kill();
  EXPECT_EQ(owner.Wait(), -SIGKILL);
  const auto store = Must(Store::Open({.path = dir.path()}));
  std::ofstream(dir.path("next")) << "owns it";
  EXPECT_EQ(owner.ReadLine(), "refused");
  EXPECT_EQ(Must(store->GetNote("last")), std::nullopt);
}

}  // namespace
}  // namespace larder
