#include "informer/key_set.h"

#include <gtest/gtest.h>

#include <string>

namespace larder {
namespace {

TEST(KeySetTest, HoldsWhatWasInsertedAndNothingElse) {
  KeySet set;
  EXPECT_FALSE(set.Contains({"shop", "cart-0"}));
  for (int i = 0; i < 20'000; ++i) {
    EXPECT_TRUE(set.Insert({"shop", "cart-" + std::to_string(i)}));
  }
  EXPECT_EQ(set.size(), 20'000u);
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = "cart-" + std::to_string(i);
    ASSERT_TRUE(set.Contains({"shop", name}));
    ASSERT_FALSE(set.Contains({"shops", name}));
    ASSERT_FALSE(set.Insert({"shop", name}));
  }
  EXPECT_EQ(set.size(), 20'000u);
}

TEST(KeySetTest, NamespaceAndNameAreToldApart) {
  KeySet set;
  set.Insert({"a", "bc"});
  EXPECT_FALSE(set.Contains({"ab", "c"}));
  EXPECT_FALSE(set.Contains({"", "abc"}));
  set.Insert({"", "node-1"});
  EXPECT_TRUE(set.Contains({"", "node-1"}));
}

TEST(KeySetTest, CanBeUsedAgainOnceCleared) {
  KeySet set;
  set.Insert({"a", "b"});
  set.Clear();
  EXPECT_EQ(set.size(), 0u);
  EXPECT_FALSE(set.Contains({"a", "b"}));
  EXPECT_TRUE(set.Insert({"a", "b"}));
}

TEST(KeySetTest, TakesTwelveBytesAKeyAndGivesThemBackWhenCleared) {
  KeySet set;
  for (size_t i = 1; i <= 200'000; ++i) {
    set.Insert({"shop", "a-cart-with-quite-a-long-name-" + std::to_string(i)});
    // Below that the tables' first slots count.
    if (i % 997 == 0 && i > 10'000) {
      ASSERT_LE(set.MemoryBytes(), i * 12) << i;
    }
  }
  EXPECT_GT(set.MemoryBytes(), 200'000 * sizeof(uint64_t));
  set.Clear();
  EXPECT_EQ(set.MemoryBytes(), 0u);
}

}  // namespace
}  // namespace larder
