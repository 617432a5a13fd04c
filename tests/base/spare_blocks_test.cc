#include "base/spare_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <thread>
#include <utility>
#include <vector>

#include "base/process.h"

namespace larder {
namespace {

class SpareBlocks : public ::testing::Test {
 protected:
  void SetUp() override {
    DropSpareBlocks();
    GiveBlock(TakeBlock(9000));
    if (SpareBlockBytes() == 0) GTEST_SKIP() << "a sanitizer wants freed memory to be freed";
    DropSpareBlocks();
  }
  void TearDown() override { DropSpareBlocks(); }
};

TEST(SpareBlock, HasTheRoomThatWasAskedFor) {
  for (const size_t room : std::initializer_list<size_t>{0, 1, 15, 16, 511, 1023, 1024, 1535, 1536,
                                                         9000, 65535, 65536, 300000}) {
    for (int again = 0; again < 2; ++again) {
      std::string block = TakeBlock(room);
      EXPECT_TRUE(block.empty());
      EXPECT_GE(block.capacity(), room);
      EXPECT_LE(block.capacity(), std::max<size_t>(room + 512, 15));
      GiveBlock(std::move(block));
    }
  }
}

TEST_F(SpareBlocks, AreUsedAgainByWhoNeedsAsMuch) {
  std::string first = TakeBlock(9000);
  const void* const at = first.data();
  first.assign(9000, 'x');
  GiveBlock(std::move(first));
  EXPECT_GT(SpareBlockBytes(), 9000U);
  const std::string smaller = TakeBlock(5000);
  const std::string larger = TakeBlock(10000);
  EXPECT_NE(smaller.data(), at);
  EXPECT_NE(larger.data(), at);
  const std::string same = TakeBlock(9001);
  EXPECT_EQ(same.data(), at);
  EXPECT_TRUE(same.empty());
  EXPECT_EQ(SpareBlockBytes(), 0U);
}

TEST_F(SpareBlocks, AreBoundedAndGivenUpWithFreeMemory) {
  std::vector<std::string> blocks;
  for (int i = 0; i < 2000; ++i) blocks.push_back(TakeBlock(9000));
  for (std::string& block : blocks) GiveBlock(std::move(block));
  EXPECT_GT(SpareBlockBytes(), size_t{3} << 20);
  EXPECT_LE(SpareBlockBytes(), size_t{4} << 20);
  ReturnFreeMemory();
  EXPECT_EQ(SpareBlockBytes(), 0U);
}

TEST_F(SpareBlocks, ThatNobodyTookForAWhileAreFreed) {
  std::vector<std::string> burst;
  for (int i = 0; i < 200; ++i) burst.push_back(TakeBlock(9000));
  for (std::string& block : burst) GiveBlock(std::move(block));
  ASSERT_GT(SpareBlockBytes(), 200U * 9000);
  const auto use = [](size_t blocks, int times) {
    for (int i = 0; i < times; ++i) {
      std::vector<std::string> used;
      for (size_t taken = 0; taken < blocks; ++taken) used.push_back(TakeBlock(9000));
      for (std::string& block : used) GiveBlock(std::move(block));
    }
  };
  use(200, 100);
  EXPECT_GT(SpareBlockBytes(), 190U * 9000) << "they are needed";
  use(10, 1000);
  EXPECT_LT(SpareBlockBytes(), 20U * 9000);
  EXPECT_GT(SpareBlockBytes(), 9U * 9000);
}

TEST_F(SpareBlocks, OfStringsThatCameFromElsewhereAreNotKept) {
  std::string own;
  own.reserve(9000);
  GiveBlock(std::move(own));
  EXPECT_EQ(SpareBlockBytes(), 0U);
}

TEST(SpareBlock, BelongsToOneAtATime) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      const char mine = static_cast<char>('a' + t);
      for (size_t i = 0; i < 5000; ++i) {
        const size_t size = 2000 + i % 7 * 512;
        std::string block = TakeBlock(size);
        block.assign(size, mine);
        ASSERT_EQ(std::count(block.begin(), block.end(), mine), static_cast<ptrdiff_t>(size));
        GiveBlock(std::move(block));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace larder
