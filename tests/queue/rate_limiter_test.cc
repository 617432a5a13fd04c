#include "queue/rate_limiter.h"

#include <gtest/gtest.h>

#include <chrono>

namespace larder {
namespace {

using namespace std::chrono_literals;

TEST(BucketRateLimiterTest, ARateThatIsNextToNothingWaitsForEver) {
  FakeClock clock;
  BucketRateLimiter limiter(1e-12, 1, &clock);
  EXPECT_EQ(limiter.When("a"), std::chrono::nanoseconds(0));
  EXPECT_EQ(limiter.When("a"), std::chrono::nanoseconds::max());
}

TEST(ItemExponentialRateLimiterTest, DoublesPerItemUntilForgotten) {
  ItemExponentialRateLimiter limiter(1ms, 1s);
  for (const auto delay : {1ms, 2ms, 4ms, 8ms, 16ms}) EXPECT_EQ(limiter.When("one"), delay);
  EXPECT_EQ(limiter.NumRequeues("one"), 5u);
  EXPECT_EQ(limiter.When("two"), 1ms);
  EXPECT_EQ(limiter.When("two"), 2ms);
  EXPECT_EQ(limiter.NumRequeues("two"), 2u);
  limiter.Forget("one");
  EXPECT_EQ(limiter.NumRequeues("one"), 0u);
  EXPECT_EQ(limiter.When("one"), 1ms);
  EXPECT_EQ(limiter.NumRequeues("two"), 2u);
}

TEST(ItemExponentialRateLimiterTest, StopsAtTheMaximumHoweverOftenItFails) {
  ItemExponentialRateLimiter seconds(1ms, 1000s);
  for (int i = 0; i < 5; ++i) seconds.When("one");
  EXPECT_EQ(seconds.When("one"), 32ms);
  for (int i = 0; i < 1000; ++i) seconds.When("overflow");
  EXPECT_EQ(seconds.When("overflow"), 1000s);

  ItemExponentialRateLimiter hours(1min, 1000h);
  for (int i = 0; i < 2; ++i) hours.When("two");
  EXPECT_EQ(hours.When("two"), 4min);
  for (int i = 0; i < 5000; ++i) hours.When("overflow");
  EXPECT_EQ(hours.When("overflow"), 1000h);
}

TEST(ItemExponentialRateLimiterTest, GoesOnFromARestoredCount) {
  ItemExponentialRateLimiter limiter(1ms, 1s);
  limiter.Restore("one", 3);
  EXPECT_EQ(limiter.NumRequeues("one"), 3u);
  EXPECT_EQ(limiter.When("one"), 8ms);
}

TEST(ItemFastSlowRateLimiterTest, IsSlowAfterTheFastAttempts) {
  ItemFastSlowRateLimiter limiter(5ms, 10s, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limiter.When("one"), 5ms);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(limiter.When("one"), 10s);
  EXPECT_EQ(limiter.NumRequeues("one"), 5u);
  EXPECT_EQ(limiter.When("two"), 5ms);
  EXPECT_EQ(limiter.When("two"), 5ms);
  EXPECT_EQ(limiter.NumRequeues("two"), 2u);
  limiter.Forget("one");
  EXPECT_EQ(limiter.NumRequeues("one"), 0u);
  EXPECT_EQ(limiter.When("one"), 5ms);
}

TEST(MaxOfRateLimiterTest, TakesTheLongestDelay) {
  RateLimiterPtr limiter = MakeMaxOf(std::make_unique<ItemFastSlowRateLimiter>(5ms, 3s, 3),
                                     std::make_unique<ItemExponentialRateLimiter>(1ms, 1s));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limiter->When("one"), 5ms);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(limiter->When("one"), 3s);
  EXPECT_EQ(limiter->NumRequeues("one"), 5u);
  EXPECT_EQ(limiter->When("two"), 5ms);
  EXPECT_EQ(limiter->NumRequeues("two"), 1u);
  limiter->Forget("one");
  EXPECT_EQ(limiter->NumRequeues("one"), 0u);
  EXPECT_EQ(limiter->When("one"), 5ms);
}

TEST(WithMaxWaitRateLimiterTest, CutsTheDelay) {
  // A limiter of a user's own: short for the first hundred of all items, then very long.
  class StepRateLimiter final : public RateLimiter {
   public:
    Duration When(std::string_view) override {
      return ++count_ <= 100 ? Duration(5ms) : Duration(1000s);
    }
    void Forget(std::string_view) override {}
    uint32_t NumRequeues(std::string_view) const override { return 0; }

   private:
    int count_ = 0;
  };
  WithMaxWaitRateLimiter limiter(std::make_unique<StepRateLimiter>(), 500s);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(limiter.When(std::to_string(i)), 5ms);
  for (int i = 100; i < 200; ++i) EXPECT_EQ(limiter.When(std::to_string(i)), 500s);
}

TEST(BucketRateLimiterTest, LetsTheBurstPassAndThenSpreadsTheRest) {
  FakeClock clock;
  BucketRateLimiter limiter(10, 100, &clock);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(limiter.When("any"), 0ns);
  EXPECT_EQ(limiter.When("any"), 100ms);
  EXPECT_EQ(limiter.When("any"), 200ms);
  clock.Advance(1s);
  EXPECT_EQ(limiter.When("any"), 0ns);
  EXPECT_EQ(limiter.NumRequeues("any"), 0u);
}

TEST(BucketRateLimiterTest, NeverSavesMoreThanTheBurst) {
  FakeClock clock;
  BucketRateLimiter limiter(1000, 2, &clock);
  clock.Advance(1h);
  EXPECT_EQ(limiter.When("any"), 0ns);
  EXPECT_EQ(limiter.When("any"), 0ns);
  EXPECT_EQ(limiter.When("any"), 1ms);
}

TEST(DefaultControllerRateLimiterTest, DoublesPerItemAndLimitsAllTogether) {
  FakeClock clock;
  RateLimiterPtr limiter = DefaultControllerRateLimiter(&clock);
  EXPECT_EQ(limiter->When("one"), 5ms);
  EXPECT_EQ(limiter->When("one"), 10ms);
  for (int i = 2; i < 100; ++i) limiter->When(std::to_string(i));
  // The hundred are used up: the bucket's delay is the longer one now.
  EXPECT_EQ(limiter->When("another"), 100ms);
  for (int i = 0; i < 30; ++i) limiter->When("one");
  EXPECT_EQ(limiter->When("one"), 1000s);
}

}  // namespace
}  // namespace larder
