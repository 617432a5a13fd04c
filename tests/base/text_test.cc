#include "base/text.h"

#include <gtest/gtest.h>

namespace larder {
namespace {

TEST(TextTest, ControlCharactersAreMadeVisible) {
  EXPECT_EQ(Printable("h\u00e9llo\tw\u00f6rld\n"), "h\u00e9llo\tw\u00f6rld\n");
  EXPECT_EQ(Printable("\033[31m\a\r\x7f"), "^[[31m^G^M^?");
  EXPECT_EQ(Printable(std::string("a\0b", 3)), "a^@b");
  // The same commands as one character, U+0080 to U+009F.
  EXPECT_EQ(Printable("\u009b31m\u009d"), "^[[31m^[]");
  EXPECT_EQ(Printable("\u00a0\xc2"), "\u00a0\xc2");
}

TEST(TextTest, WhatIsToBeOneLineHasNoOther) {
  EXPECT_EQ(Printable("a\nb\tc", Lines::kOne), "a b c");
  EXPECT_EQ(Printable("a\n\033[1A\nb\r\n", Lines::kOne), "a ^[[1A b^M ");
}

TEST(TextTest, AnExcerptIsShortAndOneLine) {
  EXPECT_EQ(Excerpt("a\n\033[1Ab"), "a ^[[1Ab");
  EXPECT_EQ(Excerpt(std::string(1000, 'x')), std::string(100, 'x'));
}

}  // namespace
}  // namespace larder
