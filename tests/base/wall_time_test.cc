#include "base/wall_time.h"

#include <gtest/gtest.h>

namespace larder {
namespace {

using namespace std::chrono_literals;

TEST(WallMs, IsTheCalendarsTimeAndWithoutWhatIsLessThanAMillisecond) {
  FakeClock clock(Clock::Wall(1'700'000'000s));
  EXPECT_EQ(WallMs(clock), 1'700'000'000'000);
  clock.Advance(1999us);
  EXPECT_EQ(WallMs(clock), 1'700'000'000'001);
}

TEST(WallMs, OfTheRealClockIsNow) {
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const int64_t before = now();
  const int64_t ms = WallMs(*RealClock());
  EXPECT_LE(before, ms);
  EXPECT_LE(ms, now());
}

}  // namespace
}  // namespace larder
