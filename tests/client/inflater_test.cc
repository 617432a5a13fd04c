#include "client/inflater.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

#include "tests/client/gzip.h"

namespace larder {
namespace {

using ::larder::testing::Gzip;
using ::testing::HasSubstr;

// Text that compresses as documents do: words that come again at all distances.
std::string Words(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < bytes) {
    if (text.size() > 100 && random() % 4 != 0) {
      text += text.substr(random() % text.size(), 3 + random() % 60);
    } else {
      text += static_cast<char>('a' + random() % 26);
    }
  }
  return text;
}

// Feeds `packed` in pieces of `feed` bytes and takes pieces of at most `take`.
Result<std::string> Unpack(Inflater& inflater, std::string_view packed, size_t feed, size_t take) {
  std::string out, piece;
  while (!packed.empty()) {
    const std::string input(packed.substr(0, feed));
    packed.remove_prefix(input.size());
    inflater.Feed(input);
    for (;;) {
      LARDER_ASSIGN_OR_RETURN(const size_t produced, inflater.Produce(piece, take));
      EXPECT_EQ(produced, piece.size());
      EXPECT_LE(produced, take);
      if (produced == 0) break;
      out += piece;
    }
  }
  return out;
}

TEST(InflaterTest, EverySplitGivesTheSameBytes) {
  const std::string text = Words(300'000, 7);
  const std::string packed = Gzip(text);
  for (const size_t feed : {size_t{1}, size_t{2}, size_t{7}, size_t{1000}, packed.size()}) {
    for (const size_t take : {size_t{1000}, size_t{65536}, text.size() + 1}) {
      Inflater inflater;
      const auto out = Unpack(inflater, packed, feed, take);
      ASSERT_TRUE(out) << out.error().message;
      EXPECT_TRUE(*out == text) << "fed " << feed << ", taken " << take;
      EXPECT_TRUE(inflater.AtMemberEnd());
    }
  }
}

TEST(InflaterTest, MembersFollowEachOtherWhateverTheSplit) {
  const std::string packed =
      Gzip("one\n") + Gzip("", "empty") + Gzip(Words(5000, 1), "named.json") + Gzip("end");
  const std::string text = "one\n" + Words(5000, 1) + "end";
  for (size_t feed = 1; feed <= packed.size(); ++feed) {
    Inflater inflater;
    const auto out = Unpack(inflater, packed, feed, 4096);
    ASSERT_TRUE(out) << out.error().message;
    ASSERT_TRUE(*out == text) << "fed " << feed;
    EXPECT_TRUE(inflater.AtMemberEnd());
  }
}

// What the server flushed can be read before the member ends.
TEST(InflaterTest, WhatWasFlushedComesAtOnce) {
  z_stream stream{};
  deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  Inflater inflater;
  for (int i = 0; i < 50; ++i) {
    std::string line = "{\"line\":" + std::to_string(i) + "}\n";
    std::string packed(1000, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(line.data());
    stream.avail_in = static_cast<uInt>(line.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    ASSERT_EQ(deflate(&stream, Z_SYNC_FLUSH), Z_OK);
    packed.resize(packed.size() - stream.avail_out);
    const auto out = Unpack(inflater, packed, packed.size(), 65536);
    ASSERT_TRUE(out) << out.error().message;
    EXPECT_EQ(*out, line);
    EXPECT_FALSE(inflater.AtMemberEnd());
  }
  deflateEnd(&stream);
}

TEST(InflaterTest, NoCutIsTakenForTheEnd) {
  const std::string packed = Gzip(Words(2000, 3));
  for (size_t bytes = 1; bytes < packed.size(); ++bytes) {
    Inflater inflater;
    const auto out = Unpack(inflater, std::string_view(packed).substr(0, bytes), bytes, 65536);
    ASSERT_TRUE(out) << out.error().message;
    EXPECT_FALSE(inflater.AtMemberEnd()) << "cut at " << bytes;
  }
}

// The checksum finds what the format itself lets pass.
TEST(InflaterTest, NoFlippedBitOfDataOrChecksumGoesUnnoticed) {
  const std::string text = Words(600, 5);
  const std::string packed = Gzip(text);
  constexpr size_t kHeaderBytes = 10;
  for (size_t at = kHeaderBytes; at < packed.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = packed;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      Inflater inflater;
      const auto out = Unpack(inflater, damaged, damaged.size(), 65536);
      if (!out) {
        EXPECT_EQ(out.error().code, ErrorCode::kProtocol);
      } else if (inflater.AtMemberEnd()) {
        EXPECT_EQ(*out, text) << "byte " << at << " bit "
                              << bit;  // a bit between data and checksum
      }
    }
  }
}

TEST(InflaterTest, SaysWhatIsWrong) {
  const auto error = [](const std::string& packed) {
    Inflater inflater;
    const auto out = Unpack(inflater, packed, packed.size(), 65536);
    return out ? "none" : out.error().message;
  };
  EXPECT_THAT(error("<html>no gzip at all</html>"), HasSubstr("its header is not gzip's"));
  EXPECT_THAT(error(Gzip("text") + "rubbish behind it"), HasSubstr("its header is not gzip's"));
  std::string wrong_sum = Gzip("text");
  wrong_sum[wrong_sum.size() - 6] ^= 1;
  EXPECT_THAT(error(wrong_sum), HasSubstr("its checksum is wrong"));
}

}  // namespace
}  // namespace larder
