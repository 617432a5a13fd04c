#include "schema/json_span.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace larder {
namespace {

// The same, the slow and obvious way.
std::optional<size_t> ObviousEnd(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::nullopt;
}

TEST(JsonSpan, FindsTheEndAtEverySplit) {
  const std::string text =
      R"({"a":"}]\"\\","b":[1,{"c":"{[\\\"}"}],"long":"0123456789012345678901234567890123456789012345678901234567890123456789"} tail})";
  const size_t end = *ObviousEnd(text);
  for (size_t split = 0; split <= text.size(); ++split) {
    JsonSpan span(10);
    std::optional<size_t> found = span.Scan(text.substr(0, split));
    if (!found) {
      found = span.Scan(text.substr(split));
      if (found) *found += split;
    }
    EXPECT_EQ(found, end) << "split at " << split;
  }
}

TEST(JsonSpan, CarriesABackslashOverTinyPieces) {
  const std::string text = R"({"a":"\\\\\"}"}x)";
  JsonSpan span(10);
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (span.Scan(text.substr(at, 1))) break;
  }
  EXPECT_EQ(at + 1, *ObviousEnd(text));
}

TEST(JsonSpan, RefusesDeepNestingWithoutRecursion) {
  const std::string deep(100'000, '[');
  JsonSpan span(1000);
  EXPECT_EQ(span.Scan(deep), std::nullopt);
  EXPECT_TRUE(span.too_deep());
  EXPECT_TRUE(IsOneJsonContainer(std::string(1000, '[') + std::string(1000, ']'), 1000));
  EXPECT_FALSE(IsOneJsonContainer(std::string(1001, '[') + std::string(1001, ']'), 1000));
}

TEST(JsonSpan, WantsOneContainerAndNothingBehind) {
  EXPECT_TRUE(IsOneJsonContainer("{}", 5));
  EXPECT_FALSE(IsOneJsonContainer("{} ", 5));
  EXPECT_FALSE(IsOneJsonContainer("{}{}", 5));
  EXPECT_FALSE(IsOneJsonContainer("{", 5));
  EXPECT_FALSE(IsOneJsonContainer("1", 5));
  EXPECT_FALSE(IsOneJsonContainer("", 5));
}

TEST(JsonSpan, WantsEachBracketClosedByOneOfItsKind) {
  EXPECT_TRUE(IsOneJsonContainer(R"({"a":[{}, [] ]})", 5));
  EXPECT_FALSE(IsOneJsonContainer("{]", 5));
  EXPECT_FALSE(IsOneJsonContainer("[}", 5));
  EXPECT_FALSE(IsOneJsonContainer(R"({"a":[})", 5));
  EXPECT_FALSE(IsOneJsonContainer(R"({"a":[}]})", 5));
  EXPECT_FALSE(IsOneJsonContainer(R"({"a":{]})", 5));
  EXPECT_FALSE(IsOneJsonContainer(R"([{"a":1]])", 5));
  // What stands in strings is none, and an escaped quote does not end one.
  EXPECT_TRUE(IsOneJsonContainer(R"({"]":"[{","\"]":"\\"})", 5));
  EXPECT_FALSE(IsOneJsonContainer(R"({"a":"\\"]})", 5));
  EXPECT_FALSE(IsOneJsonContainer(R"({"a":"\"]})", 5)) << "the string goes on to the end";
  // The same where brackets and what closes them are blocks apart.
  const std::string far(200, ' ');
  EXPECT_TRUE(IsOneJsonContainer("{" + far + "[" + far + "\"}\"" + far + "]" + far + "}", 5));
  EXPECT_FALSE(IsOneJsonContainer("{" + far + "[" + far + "}" + far + "]", 5));
}

TEST(JsonSpan, KnowsTheKindOfEachOfManyOpenBrackets) {
  std::string text, closing;
  for (size_t depth = 1; depth <= 300; ++depth) {
    const bool square = depth % 3 == 0 || depth % 64 == 1;
    text += square ? '[' : '{';
    closing.insert(closing.begin(), square ? ']' : '}');
    EXPECT_TRUE(IsOneJsonContainer(text + closing, 300)) << depth;
  }
  for (char& bracket : closing) {
    const char right = bracket;
    bracket = right == ']' ? '}' : ']';
    EXPECT_FALSE(IsOneJsonContainer(text + closing, 300)) << &bracket - closing.data();
    bracket = right;
  }
}

TEST(JsonSpan, AgreesWithTheObviousScannerOnRandomText) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string_view alphabet = "{}[]\"\\\\\"ab ,:";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = "{";
    const size_t length = random() % 300;
    while (text.size() < length) text += alphabet[random() % alphabet.size()];
    // A backslash outside a string is not JSON; the two may then differ, so it is kept inside.
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (in_string && text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        in_string = !in_string;
      } else if (text[i] == '\\') {
        text[i] = ' ';
      }
    }
    JsonSpan span(1000);
    std::optional<size_t> found;
    for (size_t at = 0; at < text.size() && !found;) {
      const size_t piece = 1 + random() % 100;
      found = span.Scan(std::string_view(text).substr(at, piece));
      if (found) *found += at;
      at += piece;
    }
    ASSERT_EQ(found, ObviousEnd(text)) << text;
  }
}

}  // namespace
}  // namespace larder
