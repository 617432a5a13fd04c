#include "reflector/backoff.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace larder {
namespace {

using std::chrono::milliseconds;

constexpr Clock::Steady kStart{std::chrono::seconds(100)};

TEST(Backoff, DoublesUpToThirtySecondsWithFullJitter) {
  // The largest of many draws shows the ceiling, the smallest the floor.
  std::vector<milliseconds> largest(8, milliseconds(0)), smallest(8, milliseconds::max());
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    Backoff backoff(BackoffOptions{}, seed);
    Clock::Steady now = kStart;
    for (size_t i = 0; i < largest.size(); ++i) {
      const milliseconds wait = backoff.Next(now);
      now += wait;
      largest[i] = std::max(largest[i], wait);
      smallest[i] = std::min(smallest[i], wait);
    }
  }
  const int64_t ceilings[] = {800, 1600, 3200, 6400, 12'800, 25'600, 30'000, 30'000};
  for (size_t i = 0; i < largest.size(); ++i) {
    EXPECT_LE(largest[i].count(), ceilings[i]);
    EXPECT_GT(largest[i].count(), ceilings[i] * 98 / 100);
    EXPECT_LT(smallest[i].count(), ceilings[i] * 2 / 100);
  }
}

TEST(Backoff, BeginsAgainAfterTwoQuietMinutes) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Backoff backoff(BackoffOptions{}, seed);
    Clock::Steady now = kStart;
    for (int i = 0; i < 8; ++i) now += backoff.Next(now);
    EXPECT_LE(backoff.Next(now + milliseconds(120'000)), milliseconds(800));
  }
}

TEST(Backoff, KeepsGrowingWhileFailuresAreLessThanTwoMinutesApart) {
  milliseconds largest{};
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Backoff backoff(BackoffOptions{}, seed);
    Clock::Steady now = kStart;
    for (int i = 0; i < 8; ++i) {
      const milliseconds wait = backoff.Next(now);
      largest = std::max(largest, wait);
      now += wait + milliseconds(119'999);
    }
  }
  EXPECT_GT(largest, milliseconds(20'000));
}

}  // namespace
}  // namespace larder
