#include "informer/row_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace larder {
namespace {

using Row = RowMemory::Row;

ObjectKey Key(size_t i) { return {"shop", "cart-" + std::to_string(i)}; }

TEST(RowMemoryTest, KnowsThatThereIsNoRowOnlyWhenItKnowsAll) {
  RowMemory rows;
  EXPECT_EQ(rows.Find(Key(1)), Row::kUnknown);
  rows.StartEmpty();
  EXPECT_EQ(rows.Find(Key(1)), Row::kNone);
  rows.Set(Key(1), Row::kUnread);
  EXPECT_EQ(rows.Find(Key(1)), Row::kUnread);
  EXPECT_EQ(rows.Find(Key(2)), Row::kNone);
  rows.Forget();
  EXPECT_EQ(rows.Find(Key(1)), Row::kUnknown);
  EXPECT_EQ(rows.Find(Key(2)), Row::kUnknown);
  rows.Set(Key(2), Row::kUnheard);
  EXPECT_EQ(rows.Find(Key(2)), Row::kUnheard) << "also when it does not know all";
  rows.Set(Key(2), Row::kNone);
  EXPECT_EQ(rows.Find(Key(2)), Row::kUnknown);
}

TEST(RowMemoryTest, FollowsRowsThatComeChangeAndGo) {
  RowMemory rows;
  rows.StartEmpty();
  std::map<size_t, Row> truth;
  std::minstd_rand random(7);
  for (int step = 0; step < 200'000; ++step) {
    const size_t i = random() % 3000;
    const auto row = static_cast<Row>(random() % 4);
    rows.Set(Key(i), row);
    if (row == Row::kNone) {
      truth.erase(i);
    } else {
      truth[i] = row;
    }
    const size_t other = random() % 3000;
    const auto known = truth.find(other);
    ASSERT_EQ(rows.Find(Key(other)), known == truth.end() ? Row::kNone : known->second)
        << "step " << step;
  }
  EXPECT_EQ(rows.size(), truth.size());
}

TEST(RowMemoryTest, OfMoreKeysThanItHoldsItOnlyKnowsLess) {
  RowMemory rows;
  rows.StartEmpty();
  for (size_t i = 0; i < RowMemory::kMostKeys; ++i) rows.Set(Key(i), Row::kUnread);
  EXPECT_EQ(rows.Find(Key(RowMemory::kMostKeys)), Row::kNone);
  rows.Set(Key(RowMemory::kMostKeys), Row::kUnread);
  EXPECT_EQ(rows.size(), RowMemory::kMostKeys);
  EXPECT_EQ(rows.Find(Key(RowMemory::kMostKeys)), Row::kUnknown);
  EXPECT_EQ(rows.Find(Key(RowMemory::kMostKeys + 1)), Row::kUnknown);
  EXPECT_EQ(rows.Find(Key(0)), Row::kUnread);
  rows.Set(Key(0), Row::kUnheard);
  EXPECT_EQ(rows.Find(Key(0)), Row::kUnheard) << "what it has it still follows";
  rows.StartEmpty();
  EXPECT_EQ(rows.Find(Key(0)), Row::kNone);
  EXPECT_EQ(rows.MemoryBytes(), 0U) << "what is forgotten takes no memory";
}

}  // namespace
}  // namespace larder
