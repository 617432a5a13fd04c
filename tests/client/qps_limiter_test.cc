#include "client/qps_limiter.h"

#include <gtest/gtest.h>

#include <thread>

#include "client/retry.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

void WaitForWaiters(const FakeClock& clock, size_t count) {
  while (clock.Waiters() < count) std::this_thread::yield();
}

TEST(QpsLimiter, LetsABurstThroughAndThenOneAtATime) {
  FakeClock clock;
  QpsLimiter limiter(10, 3, &clock);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limiter.TryAccept());
  EXPECT_FALSE(limiter.TryAccept());
  clock.Advance(100ms);
  EXPECT_TRUE(limiter.TryAccept());
  EXPECT_FALSE(limiter.TryAccept());
  clock.Advance(1h);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limiter.TryAccept());
  EXPECT_FALSE(limiter.TryAccept());
}

TEST(QpsLimiter, WaitersGetTheirTurnInTime) {
  FakeClock clock;
  QpsLimiter limiter(2, 1, &clock);
  ASSERT_TRUE(limiter.Wait({}));
  std::atomic<int> passed{0};
  std::jthread first([&] { passed += limiter.Wait({}) ? 1 : 0; });
  WaitForWaiters(clock, 1);
  std::jthread second([&] { passed += limiter.Wait({}) ? 1 : 0; });
  WaitForWaiters(clock, 2);
  clock.Advance(500ms);
  first.join();
  EXPECT_EQ(passed, 1);
  WaitForWaiters(clock, 1);
  clock.Advance(500ms);
  second.join();
  EXPECT_EQ(passed, 2);
}

TEST(QpsLimiter, AStoppedWaiterGivesItsTurnBack) {
  FakeClock clock;
  QpsLimiter limiter(1, 1, &clock);
  ASSERT_TRUE(limiter.Wait({}));
  std::stop_source source;
  bool passed = true;
  std::jthread waiter([&] { passed = limiter.Wait(source.get_token()); });
  WaitForWaiters(clock, 1);
  source.request_stop();
  waiter.join();
  EXPECT_FALSE(passed);
  clock.Advance(1s);
  EXPECT_TRUE(limiter.TryAccept());
}

TEST(QpsLimiter, ZeroMeansNoLimit) {
  FakeClock clock;
  QpsLimiter limiter(0, 0, &clock);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(limiter.Wait({}));
}

TEST(RetryOnConflict, TriesFiveTimesAndReturnsTheLastError) {
  int calls = 0;
  const Result<int> result = RetryOnConflict([&]() -> Result<int> {
    ++calls;
    return MakeError(ErrorCode::kConflict, "changed {}", calls);
  });
  EXPECT_EQ(calls, 5);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "changed 5");
}

TEST(RetryOnConflict, StopsAtSuccessAndAtOtherErrors) {
  int calls = 0;
  const Result<int> good = RetryOnConflict([&]() -> Result<int> {
    if (++calls < 3) return MakeError(ErrorCode::kConflict, "changed");
    return calls;
  });
  EXPECT_EQ(*good, 3);
  calls = 0;
  const Result<void> bad = RetryOnConflict([&]() -> Result<void> {
    ++calls;
    return MakeError(ErrorCode::kForbidden, "no");
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(bad.error().code, ErrorCode::kForbidden);
}

TEST(RetryOnConflict, WaitsAsLongAsTheBackoffSays) {
  RetryBackoff backoff{4, 10ms, 5.0, 0.1};
  for (const auto expected : {10ms, 50ms, 250ms}) {
    const auto pause = backoff.Next();
    EXPECT_GE(pause, expected);
    EXPECT_LE(pause, expected * 11 / 10);
  }
}

TEST(RetryOnConflict, AStopEndsThePause) {
  FakeClock clock;
  std::stop_source source;
  ErrorCode code = ErrorCode::kInternal;
  std::jthread runner([&] {
    const auto always = []() -> Result<void> { return MakeError(ErrorCode::kConflict, "x"); };
    code = RetryOnConflict(always, source.get_token(), {}, &clock).error().code;
  });
  WaitForWaiters(clock, 1);
  source.request_stop();
  runner.join();
  EXPECT_EQ(code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace larder
