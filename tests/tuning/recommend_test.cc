// From figures to advice, on figures that are made up.
#include "tuning/recommend.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/storage/support.h"

namespace larder::tuning {
namespace {

Measures Usual() {
  Measures out;
  for (const MeasureInfo& info : ComparedMeasures()) out.*info.value = 100;
  out.memory_mib = 20;
  return out;
}

class RecommendTest : public ::testing::Test {
 protected:
  RecommendTest() { Add(kCurrentName, Usual(), true); }

  Measured& Add(const std::string& name, const Measures& measures, bool baseline = false,
                unsigned changes = 1) {
    Measured entry;
    entry.candidate.name = name;
    entry.candidate.baseline = baseline;
    entry.candidate.changes = changes;
    entry.runs = {measures, measures};
    entry.mean = measures;
    outcome_.measured.push_back(entry);
    return outcome_.measured.back();
  }
  Recommendation For(Aim aim, double tolerance = 1.2) {
    outcome_.noise = NoiseOf(outcome_.measured);
    for (const Recommendation& entry : Recommend(outcome_, {.tolerance = tolerance})) {
      if (entry.aim == aim) return entry;
    }
    ADD_FAILURE();
    return {};
  }

  SearchOutcome outcome_;
};

TEST_F(RecommendTest, TheBestForItsAimIsChosenWithAReason) {
  Measures less = Usual();
  less.write_amplification = 60;
  Add("writes less", less);
  Measures small = Usual();
  small.space_amplification = 70;
  Add("takes less", small);
  EXPECT_EQ(For(Aim::kWear).chosen->candidate.name, "writes less");
  EXPECT_NE(For(Aim::kWear).reason.find("0.60 times the bytes written"), std::string::npos)
      << For(Aim::kWear).reason;
  EXPECT_EQ(For(Aim::kSize).chosen->candidate.name, "takes less");
  EXPECT_TRUE(For(Aim::kRestart).keep_current);
  EXPECT_EQ(For(Aim::kRestart).chosen->candidate.name, kCurrentName);
}

TEST_F(RecommendTest, NothingElseMayGetMuchWorse) {
  Measures bought = Usual();
  bought.write_amplification = 50;
  bought.restart_ms = 150;
  Add("bought dearly", bought);
  EXPECT_TRUE(For(Aim::kWear).keep_current);
  EXPECT_FALSE(For(Aim::kWear, 2).keep_current);
  EXPECT_NE(For(Aim::kWear, 2).reason.find("it costs 1.50 times the restart_ms"), std::string::npos)
      << For(Aim::kWear, 2).reason;
}

TEST_F(RecommendTest, GuardRailsAreNeverRecommended) {
  Measures hungry = Usual();
  hungry.write_amplification = 10;
  hungry.memory_mib = 300;
  hungry.disk_peak_mib = 900;
  Candidate candidate;
  EXPECT_EQ(BrokenRail(Usual(), candidate, size_t{256} << 20, 0), "");
  EXPECT_NE(BrokenRail(hungry, candidate, size_t{256} << 20, 0).find("memory"), std::string::npos);
  EXPECT_NE(BrokenRail(hungry, candidate, size_t{1} << 30, uint64_t{500} << 20).find("disk budget"),
            std::string::npos);
  EXPECT_EQ(BrokenRail(hungry, candidate, size_t{1} << 30, uint64_t{1000} << 20), "");
  larder::testing::Must(candidate.engine.Set("larder.sync_interval_ms", "5000"));
  EXPECT_NE(BrokenRail(Usual(), candidate, size_t{256} << 20, 0).find("unsynced"),
            std::string::npos);
  hungry.memory_mib = 20;
  Add("refused", hungry).failure = "it breaks a rail";
  EXPECT_TRUE(For(Aim::kWear).keep_current);
}

TEST_F(RecommendTest, BaselinesAreComparedWithAndNotRecommended) {
  Measures better = Usual();
  better.write_amplification = 10;
  Add(kRocksDbName, better, /*baseline=*/true);
  EXPECT_TRUE(For(Aim::kWear).keep_current);
}

TEST_F(RecommendTest, WithinTheNoiseTheSmallestChangeWins) {
  Measures a = Usual(), b = Usual();
  a.write_amplification = 50;
  b.write_amplification = 50.5;
  Add("many + changes", a, false, 2);
  Add("one change", b, false, 1);
  const Recommendation chosen = For(Aim::kWear);
  EXPECT_EQ(chosen.chosen->candidate.name, "one change");
  EXPECT_EQ(chosen.as_good, "many + changes");
}

TEST_F(RecommendTest, ADifferenceBelowTheNoiseIsNoReasonToChange) {
  Measures less = Usual();
  less.write_amplification = 92;
  Add("a little less", less);
  EXPECT_FALSE(For(Aim::kWear).keep_current);
  // The same figures when runs differ by more than that.
  for (Measured& entry : outcome_.measured) {
    entry.runs[0].write_amplification *= 1.2;
    entry.runs[1].write_amplification *= 0.8;
  }
  EXPECT_TRUE(For(Aim::kWear).keep_current);
  EXPECT_NE(For(Aim::kWear).reason.find("noise"), std::string::npos);
}

TEST_F(RecommendTest, TheFrontIsWhatNothingBeats) {
  Measures better = Usual();
  better.write_amplification = better.space_amplification = 80;
  Add("better", better);
  Measures other = Usual();
  other.write_amplification = 300;
  other.restart_ms = 10;
  Add("quick start", other);
  std::vector<std::string> names;
  for (const Measured* entry : outcome_.Finalists()) {
    if (PercentBehindFront(outcome_, *entry) == 0) names.push_back(entry->candidate.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"better", "quick start"}));
  EXPECT_GT(PercentBehindFront(outcome_, outcome_.measured[0]), 0);
  EXPECT_LT(PercentBehindFront(outcome_, outcome_.measured[0]), 25);
}

TEST(Measures, SurviveJson) {
  Measures measures = Usual();
  measures.content = "x";
  measures.seconds = 3;
  const Measures back = larder::testing::Must(MeasuresFromJson(ToJson(measures)));
  EXPECT_EQ(ToJson(back), ToJson(measures));
  Json broken = ToJson(measures);
  broken.erase("restart_ms");
  EXPECT_FALSE(MeasuresFromJson(broken));
}

}  // namespace
}  // namespace larder::tuning
