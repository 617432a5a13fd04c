#include "queue/event_deduplicator.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace larder {
namespace {

using namespace std::chrono_literals;

TEST(EventDeduplicatorTest, DropsTheSameAndOlderVersions) {
  EventDeduplicator seen;
  EXPECT_TRUE(seen.ShouldProcess("a", "10"));
  EXPECT_FALSE(seen.ShouldProcess("a", "10"));
  EXPECT_FALSE(seen.ShouldProcess("a", "9"));
  EXPECT_TRUE(seen.ShouldProcess("a", "11"));
  EXPECT_TRUE(seen.ShouldProcess("b", "10"));
  EXPECT_EQ(seen.dropped(), 2u);
}

TEST(EventDeduplicatorTest, ComparesVersionsAsNumbers) {
  EventDeduplicator seen;
  EXPECT_TRUE(seen.ShouldProcess("a", "99"));
  EXPECT_TRUE(seen.ShouldProcess("a", "100"));  // as text it would be the older one
  EXPECT_FALSE(seen.ShouldProcess("a", "99"));
  EXPECT_TRUE(seen.ShouldProcess("a", "340282366920938463463374607431768211456"));
  EXPECT_FALSE(seen.ShouldProcess("a", "18446744073709551615"));
}

TEST(EventDeduplicatorTest, NeverDropsWhatItCannotCompare) {
  EventDeduplicator seen;
  for (const char* version : {"", "abc", "abc", "0", "12"}) {
    EXPECT_TRUE(seen.ShouldProcess("a", version));
  }
  EXPECT_FALSE(seen.ShouldProcess("a", "12"));
}

TEST(EventDeduplicatorTest, ForgetsAKeyAfterItsTime) {
  FakeClock clock;
  EventDeduplicator seen({.ttl = 10s, .clock = &clock});
  EXPECT_TRUE(seen.ShouldProcess("a", "10"));
  clock.Advance(6s);
  EXPECT_TRUE(seen.ShouldProcess("a", "11"));  // news: the time begins anew
  clock.Advance(6s);
  EXPECT_FALSE(seen.ShouldProcess("a", "11"));
  clock.Advance(4s);
  EXPECT_TRUE(seen.ShouldProcess("a", "11"));
  clock.Advance(10s);
  EXPECT_TRUE(seen.ShouldProcess("b", "1"));
  EXPECT_EQ(seen.size(), 1u);
}

TEST(EventDeduplicatorTest, ForgetsTheKeyWithoutNewsForLongestWhenThereAreTooMany) {
  EventDeduplicator seen({.max_keys = 2});
  EXPECT_TRUE(seen.ShouldProcess("a", "1"));
  EXPECT_TRUE(seen.ShouldProcess("b", "1"));
  EXPECT_TRUE(seen.ShouldProcess("a", "2"));
  EXPECT_TRUE(seen.ShouldProcess("c", "1"));
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_FALSE(seen.ShouldProcess("a", "2"));
  EXPECT_TRUE(seen.ShouldProcess("b", "1"));
}

TEST(EventDeduplicatorTest, ForgetLetsTheNextOnePass) {
  EventDeduplicator seen;
  EXPECT_TRUE(seen.ShouldProcess("a", "10"));
  seen.Forget("a");
  seen.Forget("unknown");
  EXPECT_TRUE(seen.ShouldProcess("a", "10"));
}

TEST(EventDeduplicatorTest, OfManyThreadsOnePasses) {
  EventDeduplicator seen;
  std::atomic<int> passed = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 1; i <= 1000; ++i) {
        passed += seen.ShouldProcess(std::to_string(i), "7") ? 1 : 0;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(passed, 1000);
  EXPECT_EQ(seen.dropped(), 7000u);
}

}  // namespace
}  // namespace larder
