#include "base/duration.h"

#include <gtest/gtest.h>

namespace larder {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(Duration, ReadsWhatGoReads) {
  EXPECT_EQ(ParseDuration("10m"), nanoseconds(minutes(10)));
  EXPECT_EQ(ParseDuration("1h30m"), nanoseconds(minutes(90)));
  EXPECT_EQ(ParseDuration("500ms"), nanoseconds(milliseconds(500)));
  EXPECT_EQ(ParseDuration("1.5h"), nanoseconds(minutes(90)));
  EXPECT_EQ(ParseDuration("600s"), nanoseconds(minutes(10)));
  EXPECT_EQ(ParseDuration("2us"), nanoseconds(2000));
  EXPECT_EQ(ParseDuration("2µs"), nanoseconds(2000));
  EXPECT_EQ(ParseDuration("0"), nanoseconds(0));
  EXPECT_EQ(ParseDuration("-1s"), nanoseconds(seconds(-1)));
  EXPECT_EQ(ParseDuration("1h0m0.5s"), nanoseconds(hours(1) + milliseconds(500)));
  EXPECT_EQ(ParseDuration("+.5s"), nanoseconds(milliseconds(500)));
}

TEST(Duration, RefusesWhatGoRefuses) {
  for (const char* text :
       {"", "10", "m", "10 m", "1d", "abc", "1.2.3s", "-", "10mm", "9999999999h", "1e3s"}) {
    EXPECT_FALSE(ParseDuration(text)) << text;
  }
}

TEST(Duration, PrintsAsGoPrints) {
  EXPECT_EQ(FormatDuration(minutes(90)), "1h30m0s");
  EXPECT_EQ(FormatDuration(seconds(61)), "1m1s");
  EXPECT_EQ(FormatDuration(milliseconds(500)), "500ms");
  EXPECT_EQ(FormatDuration(milliseconds(1500)), "1.5s");
  EXPECT_EQ(FormatDuration(seconds(-15)), "-15s");
  EXPECT_EQ(FormatDuration(nanoseconds(0)), "0s");
  EXPECT_EQ(FormatDuration(nanoseconds(999)), "999ns");
  EXPECT_EQ(FormatDuration(nanoseconds(1'050)), "1.05µs");
  EXPECT_EQ(FormatDuration(hours(1) + nanoseconds(1)), "1h0m0.000000001s");
  EXPECT_EQ(FormatDuration(nanoseconds(59'123'456'789)), "59.123456789s");
  EXPECT_EQ(FormatDuration(nanoseconds::min()), "-2562047h47m16.854775808s");
}

TEST(Duration, WhatIsPrintedIsReadBack) {
  for (const int64_t nanos : {1L, 999L, 1'234'567L, 61'000'000'001L, -3'600'000'000'001L}) {
    EXPECT_EQ(ParseDuration(FormatDuration(nanoseconds(nanos))), nanoseconds(nanos));
  }
}

TEST(SizeText, ReadsQuantities) {
  EXPECT_EQ(ParseSize("10000")->value, 10000u);
  EXPECT_FALSE(ParseSize("10000")->has_unit);
  EXPECT_EQ(ParseSize("64Mi")->value, uint64_t{64} << 20);
  EXPECT_TRUE(ParseSize("64Mi")->has_unit);
  EXPECT_EQ(ParseSize("2G")->value, 2'000'000'000u);
  for (const char* text : {"", "-1", "1.5Gi", "64MB", "99999999999Ti", "x"}) {
    EXPECT_FALSE(ParseSize(text)) << text;
  }
}

}  // namespace
}  // namespace larder
