// The power goes while commits are in several logs: what is left is a prefix of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>

#include "storage/testing.h"
#include "tests/simulation/volatile_disk.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using simulation::VolatileDisk;
using testing::Must;

constexpr uint64_t kSeeds = 25;
constexpr int kCommits = 12;

// Nothing is synced behind the test's back, and RocksDB's flushes wait for ever.
class PowerLossTest : public ::testing::Test {
 protected:
  static void Put(Store& store, int number) {
    Transaction transaction = store.Begin();
    transaction.PutNote(std::to_string(number), "here");
    Must(store.Commit(std::move(transaction), Durability::kRelaxed));
  }
  // How many there are from the first on, and how many at all.
  static std::pair<int, int> Count(const Store& store) {
    std::pair<int, int> count;
    for (int number = 0; number < kCommits; ++number) {
      if (!Must(store.GetNote(std::to_string(number)))) continue;
      if (count.first == number) ++count.first;
      ++count.second;
    }
    return count;
  }
};

// Of two logs that are not synced the file system may keep the newer one.
TEST_F(PowerLossTest, NoCommitIsLostBeforeOneThatIsKept) {
  int least = kCommits, most = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const testing::TempDir dir;
    VolatileDisk disk;
    FakeClock clock;
    const StoreOptions options{.path = dir.path("store"), .clock = &clock};
    {
      const auto store = Must(OpenStoreOnEnv(options, disk.env()));
      for (int number = 0; number < kCommits; ++number) {
        // From here on it is another log.
        if (number == kCommits / 2) store->StartFlush();
        Put(*store, number);
      }
      disk.Die();
      disk.LetGo();
    }
    disk.Revive(VolatileDisk::Loss::kPower, random);
    const auto store = Must(OpenStoreOnEnv(options, disk.env()));
    disk.LetGo();
    const auto [prefix, all] = Count(*store);
    EXPECT_EQ(prefix, all);
    least = std::min(least, all);
    most = std::max(most, all);
  }
  // The first log was synced when the second was begun.
  EXPECT_EQ(least, kCommits / 2);
  EXPECT_EQ(most, kCommits);
}

// What a process leaves to the operating system when it is killed is not on the disk yet.
TEST_F(PowerLossTest, WhatAKilledProcessWroteIsNotLostBeforeWhatTheNextOneSyncs) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const testing::TempDir dir;
    VolatileDisk disk;
    FakeClock clock;
    const StoreOptions options{.path = dir.path("store"), .clock = &clock};
    for (int life = 0; life < 2; ++life) {
      {
        const auto store = Must(OpenStoreOnEnv(options, disk.env()));
        for (int number = 0; number < kCommits / 2; ++number) {
          Put(*store, life * kCommits / 2 + number);
        }
        if (life == 1) Must(store->Sync());
        disk.Die();
        disk.LetGo();
      }
      disk.Revive(life == 0 ? VolatileDisk::Loss::kProcess : VolatileDisk::Loss::kPower, random);
    }
    const auto store = Must(OpenStoreOnEnv(options, disk.env()));
    disk.LetGo();
    EXPECT_EQ(Count(*store), std::pair(kCommits, kCommits));
  }
}

// After a sync that failed the kernel may have dropped what it could not write: it is read from
// memory as before, and the next sync is a success. Tables hold it before anything follows it.
TEST_F(PowerLossTest, WhatAFailedSyncDroppedIsWrittenAgainByTheNextProcess) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const testing::TempDir dir;
    VolatileDisk disk;
    FakeClock clock;
    const StoreOptions options{.path = dir.path("store"), .clock = &clock};
    for (int life = 0; life < 2; ++life) {
      {
        const auto store = Must(OpenStoreOnEnv(options, disk.env()));
        EXPECT_FALSE(std::filesystem::exists(dir.path("store/log-in-doubt")));
        for (int number = 0; number < kCommits / 2; ++number) {
          Put(*store, life * kCommits / 2 + number);
        }
        while (disk.RunOne()) {
        }
        if (life == 0) disk.FailIn(1);
        EXPECT_EQ(store->Sync().has_value(), life == 1);
        disk.Die();
        disk.LetGo();
      }
      disk.Revive(life == 0 ? VolatileDisk::Loss::kProcess : VolatileDisk::Loss::kPower, random);
    }
    const auto store = Must(OpenStoreOnEnv(options, disk.env()));
    disk.LetGo();
    EXPECT_EQ(Count(*store), std::pair(kCommits, kCommits));
  }
}

}  // namespace
}  // namespace larder
