// The power goes while commits are in several logs, or while they are recovered: what is left is a
// prefix of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <tuple>
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
  static Result<void> TryPut(Store& store, int number) {
    Transaction transaction = store.Begin();
    transaction.PutNote(std::to_string(number), "here");
    return store.Commit(std::move(transaction), Durability::kRelaxed);
  }
  static void Put(Store& store, int number) { Must(TryPut(store, number)); }
  // How many there are from the first on, and how many at all.
  static std::pair<int, int> Count(const Store& store) {
    std::pair<int, int> count;
    for (int number = 0; number <= kCommits; ++number) {
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
  // The first log was synced when the second was begun. Of that more or less is lost.
  EXPECT_EQ(least, kCommits / 2);
  EXPECT_GT(most, kCommits / 2 + 1);
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

// What the store's last process left at the end of its log.
enum class LogEnd { kTorn, kInDoubt };

class RecoveryThatIsCutOff
    : public PowerLossTest,
      public ::testing::WithParamInterface<std::tuple<VolatileDisk::Loss, LogEnd>> {
 protected:
  // Opens the store in a process that ends as if it had been killed.
  template <typename Call>
  Result<void> InAProcess(const Call& call) {
    const StoreOptions options{.path = dir_->path(), .clock = &clock_};
    const auto store = OpenStoreOnEnv(options, disk_->env());
    if (store) call(**store);
    disk_->Die();
    disk_->LetGo();
    return store.map([](const auto&) {});
  }
  void Revive(VolatileDisk::Loss loss) { disk_->Revive(loss, random_); }

  // Two logs, and something at the end of the second one.
  void LeaveStore(LogEnd end) {
    dir_.emplace();
    disk_.emplace();
    for (int life = 0; life < 2; ++life) {
      Must(InAProcess([&](Store& store) {
        for (int number = 0; number < kCommits / 2; ++number) {
          Put(store, life * kCommits / 2 + number);
        }
        if (life == 0) return;
        while (disk_->RunOne()) {
        }
        disk_->FailIn(1);
        EXPECT_FALSE(end == LogEnd::kTorn ? TryPut(store, kCommits) : store.Sync());
      }));
      Revive(VolatileDisk::Loss::kProcess);
    }
  }

  FakeClock clock_;
  std::mt19937_64 random_{1};
  std::optional<testing::TempDir> dir_;
  std::optional<VolatileDisk> disk_;
};

// At the first, the second, ... write, sync, new file, rename or removal, until it gets through.
TEST_P(RecoveryThatIsCutOff, IsFinishedByTheNextOpen) {
  const auto [loss, end] = GetParam();
  bool through = false;
  int operation = 0;
  while (!through && !HasFailure()) {
    SCOPED_TRACE(++operation);
    LeaveStore(end);
    disk_->DieInstead(operation);
    (void)InAProcess([&](Store&) { through = !disk_->IsDead(); });
    Revive(loss);
    int found = 0;
    Must(InAProcess([&](Store& store) {
      int all = 0;
      std::tie(found, all) = Count(store);
      EXPECT_EQ(found, all);
      EXPECT_GE(found, loss == VolatileDisk::Loss::kProcess ? kCommits : kCommits / 2);
      Put(store, found);
      Must(store.Sync());
    }));
    Revive(VolatileDisk::Loss::kPower);
    // What it went on from is there, too.
    Must(InAProcess([&](Store& store) {
      EXPECT_EQ(Count(store), std::pair(found + 1, found + 1));
      EXPECT_FALSE(std::filesystem::exists(dir_->path() + "/log-in-doubt"));
    }));
  }
  EXPECT_GT(operation, 10) << "it was cut off nowhere";
}

INSTANTIATE_TEST_SUITE_P(Points, RecoveryThatIsCutOff,
                         ::testing::Combine(::testing::Values(VolatileDisk::Loss::kProcess,
                                                              VolatileDisk::Loss::kPower),
                                            ::testing::Values(LogEnd::kTorn, LogEnd::kInDoubt)),
                         [](const auto& test) {
                           const bool kill =
                               std::get<0>(test.param) == VolatileDisk::Loss::kProcess;
                           const bool torn = std::get<1>(test.param) == LogEnd::kTorn;
                           return std::string(kill ? "kill" : "power") +
                                  (torn ? "_of_a_torn_log" : "_of_a_store_in_doubt");
                         });

}  // namespace
}  // namespace larder
