// The soak in its short form, and its judge on series that are made up.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/soak/judge.h"

namespace larder::soak {
namespace {

// An hour in twelve lives, a sample a second, with noise of `noise` around `value`.
std::vector<Point> Series(const std::function<double(double seconds, double age)>& value,
                          double noise = 1) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> around(0, noise);
  std::vector<Point> points;
  for (int life = 1; life <= 12; ++life) {
    for (int age = 60; age < 300; ++age) {
      const double seconds = (life - 1) * 300 + age;
      points.push_back({seconds, value(seconds, age) + around(random), life});
    }
  }
  return points;
}

TEST(SoakJudge, CallsNoiseFlat) {
  const auto points = Series([](double, double) { return 100; });
  EXPECT_TRUE(IsFlat(OverAll(points), 5)) << ToString(OverAll(points));
  EXPECT_TRUE(IsFlat(WithinLives(points), 5)) << ToString(WithinLives(points));
  EXPECT_LT(OverAll(points).standard_error, 1) << "and is sure of it";
}

TEST(SoakJudge, FindsALeakAndHowLargeItIs) {
  // A byte a change, as it were: 20 percent an hour, never given back.
  const auto points = Series([](double seconds, double) { return 100 + 20 * seconds / 3600; });
  EXPECT_FALSE(IsFlat(OverAll(points), 5));
  EXPECT_FALSE(IsFlat(WithinLives(points), 5));
  EXPECT_NEAR(OverAll(points).percent_per_hour, 20 / 1.1, 0.5);
}

TEST(SoakJudge, FindsALeakThatEveryRestartGivesBack) {
  const auto points = Series([](double, double age) { return 100 + 20 * age / 3600; });
  EXPECT_FALSE(IsFlat(WithinLives(points), 5)) << ToString(WithinLives(points));
  EXPECT_NEAR(WithinLives(points).percent_per_hour, 20, 3);
}

TEST(SoakJudge, FindsWhatOnlyRestartsLeaveBehind) {
  const auto points =
      Series([](double seconds, double) { return 100 + 2 * std::floor(seconds / 300); });
  EXPECT_TRUE(IsFlat(WithinLives(points), 5)) << ToString(WithinLives(points));
  EXPECT_FALSE(IsFlat(OverAll(points), 5)) << ToString(OverAll(points));
}

TEST(SoakJudge, CallsASawtoothFlat) {
  // A log that fills and is dropped, out of step with the restarts: half of the size, up and down.
  for (const double period : {7.0, 41.0, 130.0}) {
    const auto points = Series(
        [&](double seconds, double) { return 100 + 50 * std::fmod(seconds, period) / period; });
    EXPECT_TRUE(IsFlat(OverAll(points), 5)) << period << ": " << ToString(OverAll(points));
    EXPECT_TRUE(IsFlat(WithinLives(points), 5)) << period << ": " << ToString(WithinLives(points));
  }
}

TEST(SoakJudge, FindsALeakUnderASawtooth) {
  const auto points = Series([](double seconds, double) {
    return 100 + 20 * std::fmod(seconds, 23) / 23 + 30 * seconds / 3600;
  });
  EXPECT_FALSE(IsFlat(OverAll(points), 5)) << ToString(OverAll(points));
}

TEST(SoakJudge, WhatShrinksIsFlat) {
  const auto points = Series([](double seconds, double) { return 100 - 20 * seconds / 3600; });
  EXPECT_TRUE(IsFlat(OverAll(points), 5));
}

// What it printed, and its exit code.
std::pair<std::string, int> RunSoak(const std::string& arguments) {
  const std::string command = std::string(LARDER_SOAK) + " " + arguments + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> chunk;
  while (const size_t size = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    output.append(chunk.data(), size);
  }
  const int status = ::pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

// Forty seconds are too short to tell a slope of a few percent an hour; they are long enough for
// rows that stay for ever, for a process that does not stop or not start, and for a measure that
// doubles. The bound is half as much again in the eight seconds looked at of each life: the open
// files of a young store go from 21 to 31 in them, until the first compaction.
TEST(Soak, ShortFormIsFlatAndComesToRest) {
  const auto [output, code] = RunSoak(
      "--seconds 36 --rate 1000 --objects 1000 --restart-every 12 --warm-up 4 --bound 20000 "
      "--judge-lives");
  std::printf("%s", output.c_str());
  EXPECT_EQ(code, 0) << output;
}

TEST(Soak, AListThatNobodyHadToMakeIsAProblem) {
  const auto [output, code] = RunSoak(
      "--seconds 10 --rate 100 --objects 100 --restart-every 10 --warm-up 1 --expire-after 2");
  EXPECT_EQ(code, 1) << output;
  EXPECT_NE(output.find("the server has the last 10000"), std::string::npos) << output;
}

}  // namespace
}  // namespace larder::soak
