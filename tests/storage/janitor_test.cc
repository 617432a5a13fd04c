// What a store's owner does while nobody asks it for anything: memory is given back, and waits are
// waits.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/process.h"
#include "tests/base/resident_memory.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using namespace std::chrono_literals;
using testing::Must;

// Which part of what was freed is still held a minute later by the store's clock, in percent.
size_t PercentLeftAMinuteLater() {
  PrepareProcess();
  const testing::TempDir dir;
  FakeClock clock;
  const auto store = Must(Store::Open({.path = dir.path(), .clock = &clock}));
  return testing::PercentLeftAfter([&] {
    const size_t before = testing::ResidentBytes();
    clock.Advance(1min);
    // The janitor has ten seconds of ours.
    for (int i = 0; i < 1000 && testing::ResidentBytes() > before / 2; ++i) {
      std::this_thread::sleep_for(10ms);
    }
  });
}

TEST(JanitorTest, GivesFreedMemoryBackEveryMinute) {
  if (testing::kSanitizerSlack > 0) GTEST_SKIP() << "a sanitizer has an allocator of its own";
  // In a process that begins anew: a fork has none of the threads that RocksDB made in other tests.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(PercentLeftAMinuteLater() < 50 ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

// Time stands still on it; knows how long the shortest wait was to be.
class WaitsClock final : public Clock {
 public:
  Steady Now() const override { return clock_.Now(); }
  Wall WallNow() const override { return clock_.WallNow(); }
  bool WaitUntil(Mutex& mutex, std::condition_variable_any& condition, Steady deadline,
                 const std::stop_token& stop) override LARDER_REQUIRES(mutex) {
    const Steady::duration wait = deadline - Now();
    for (auto known = shortest_.load();
         wait < known && !shortest_.compare_exchange_weak(known, wait);) {
    }
    return clock_.WaitUntil(mutex, condition, deadline, stop);
  }
  Steady::duration shortest() const { return shortest_.load(); }

 private:
  FakeClock clock_;
  std::atomic<Steady::duration> shortest_{Steady::duration::max()};
};

// The janitor waits for a minute, and the syncer would not at all.
TEST(SyncerTest, WaitsBetweenTwoLooksWhateverItsIntervalIs) {
  const testing::TempDir dir;
  WaitsClock clock;
  const auto store = Must(Store::Open({.path = dir.path(), .sync_interval = 0ms, .clock = &clock}));
  while (clock.shortest() >= 1min) std::this_thread::yield();
  EXPECT_EQ(clock.shortest(), kLeastSyncInterval);
}

}  // namespace
}  // namespace larder
