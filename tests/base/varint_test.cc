#include "base/varint.h"

#include <gtest/gtest.h>

#include <limits>

namespace larder {
namespace {

std::string Varint(uint64_t value) {
  std::string out;
  PutVarint(out, value);
  return out;
}

TEST(Varint, IsSpelledAsInProtocolBuffers) {
  EXPECT_EQ(Varint(0), std::string(1, '\0'));
  EXPECT_EQ(Varint(127), "\x7f");
  EXPECT_EQ(Varint(128), "\x80\x01");
  EXPECT_EQ(Varint(300), "\xac\x02");
  EXPECT_EQ(Varint(std::numeric_limits<uint64_t>::max()), std::string(9, '\xff') + "\x01");
}

TEST(Varint, IsReadBackAndWhatIsBehindItStays) {
  for (unsigned bits = 0; bits < 64; ++bits) {
    for (const uint64_t value : {uint64_t{1} << bits, (uint64_t{1} << bits) - 1}) {
      const std::string bytes = Varint(value) + "tail";
      std::string_view in = bytes;
      uint64_t read = 1;
      ASSERT_TRUE(TakeVarint(in, read)) << value;
      EXPECT_EQ(read, value);
      EXPECT_EQ(in, "tail") << value;
    }
  }
}

TEST(Varint, RefusesOneThatIsCutOffOrHasNoEnd) {
  const std::string longest = Varint(std::numeric_limits<uint64_t>::max());
  uint64_t value = 0;
  for (size_t size = 0; size < longest.size(); ++size) {
    std::string_view in = std::string_view(longest).substr(0, size);
    EXPECT_FALSE(TakeVarint(in, value)) << size;
  }
  const std::string endless(11, '\x80');
  std::string_view in = endless;
  EXPECT_FALSE(TakeVarint(in, value));
}

TEST(Varint, BytesAreTakenWholeOrNotAtAll) {
  std::string_view in = "abc", bytes;
  EXPECT_FALSE(TakeBytes(in, 4, bytes));
  EXPECT_FALSE(TakeBytes(in, std::numeric_limits<uint64_t>::max(), bytes));
  EXPECT_EQ(in, "abc");
  ASSERT_TRUE(TakeBytes(in, 2, bytes));
  EXPECT_EQ(bytes, "ab");
  EXPECT_EQ(in, "c");
  ASSERT_TRUE(TakeBytes(in, 1, bytes));
  EXPECT_TRUE(TakeBytes(in, 0, bytes));
  EXPECT_TRUE(bytes.empty());
}

}  // namespace
}  // namespace larder
