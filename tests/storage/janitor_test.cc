// The memory that a store's owner gives back while it does nothing else.
#include <gtest/gtest.h>

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
  EXPECT_EXIT(std::_Exit(PercentLeftAMinuteLater() < 50 ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace larder
