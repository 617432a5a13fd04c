#include <gtest/gtest.h>

#include <map>
#include <string>

#include "schema/selector.h"

namespace larder {
namespace {

using Labels = std::map<std::string, std::string, std::less<>>;

LabelSelector Selector(std::string_view text) {
  Result<LabelSelector> selector = LabelSelector::Parse(text);
  if (!selector) {
    ADD_FAILURE() << selector.error().message;
    return {};
  }
  return *std::move(selector);
}

bool Matches(std::string_view selector, const Labels& labels) {
  return Selector(selector).Matches([&](std::string_view key) -> std::optional<std::string_view> {
    const auto found = labels.find(key);
    if (found == labels.end()) return std::nullopt;
    return found->second;
  });
}

TEST(LabelSelector, AcceptsTheWholeGrammar) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", ""},
      {"   \t\r\n", ""},
      {"x", "x"},
      {"!x", "!x"},
      {"! x", "!x"},
      {"x=a", "x=a"},
      {"x==a", "x=a"},
      {" x == a ", "x=a"},
      {"x!=a", "x!=a"},
      {"x != a", "x!=a"},
      {"x=", "x="},
      {"x= ", "x="},
      {"x!=", "x!="},
      {"x=,y", "x=,y"},
      {"x=a,y=b", "x=a,y=b"},
      {"y=b,x=a", "x=a,y=b"},
      {"x=a,x=a", "x=a"},
      {"x in (a)", "x=a"},
      {"x in(a,b)", "x in (a,b)"},
      {"x in (b,a,b)", "x in (a,b)"},
      {"x\nin\t( b , a )", "x in (a,b)"},
      {"x notin (a)", "x!=a"},
      {"x notin (b,a)", "x notin (a,b)"},
      {"x in (,)", "x="},
      {"x in (a,)", "x in (,a)"},
      {"x in (,a)", "x in (,a)"},
      {"x in (a,,b)", "x in (,a,b)"},
      {"x>1", "x>1"},
      {"x > 1", "x>1"},
      {"x<007", "x<007"},
      {"x>1,x<5,z", "x>1,x<5,z"},
      {"in", "in"},
      {"!notin", "!notin"},
      {"in in (in,notin)", "in in (in,notin)"},
      {"notin notin (notin)", "notin!=notin"},
      {"x=in", "x=in"},
      {"inn in (a,b)", "inn in (a,b)"},
      {"app.kubernetes.io/name=web", "app.kubernetes.io/name=web"},
      {"a,!b,c=1,d!=2,e in (1,2),f notin (3,4)", "a,!b,c=1,d!=2,e in (1,2),f notin (3,4)"},
      {"A_b.c-9=Z_y.x-0", "A_b.c-9=Z_y.x-0"},
  };
  for (const auto& [text, canonical] : cases) {
    const LabelSelector selector = Selector(text);
    EXPECT_EQ(selector.ToString(), canonical) << text;
    EXPECT_EQ(Selector(selector.ToString()).ToString(), canonical) << text;
  }
}

TEST(LabelSelector, RefusesWhatTheServerRefusesAndSaysWhere) {
  const std::tuple<std::string_view, size_t, std::string_view> cases[] = {
      {",", 1, "expected a label's key"},
      {",x", 1, "expected a label's key"},
      {"x,", 3, "expected a label's key"},
      {"x,,y", 3, "expected a label's key"},
      {"!", 2, "expected a label's key"},
      {"!!x", 2, "expected a label's key"},
      {"!x=a", 3, "expected ',' or the end"},
      {"x y", 3, "expected one of in, notin"},
      {"x!", 2, "expected one of in, notin"},
      {"x ! = a", 3, "expected one of in, notin"},
      {"x=a b", 5, "expected ',' or the end"},
      {"x=a=b", 4, "expected ',' or the end"},
      {"x===a", 4, "expected a value"},
      {"x=!a", 3, "expected a value"},
      {"x=(a)", 3, "expected a value"},
      {"x in", 5, "expected '('"},
      {"x in a", 6, "expected '('"},
      {"x in (", 7, "expected a value"},
      {"x in (a", 8, "expected ',' or ')'"},
      {"x in (a b)", 9, "expected ',' or ')'"},
      {"x in (a=b)", 8, "expected ',' or ')'"},
      {"x in (!a)", 7, "expected a value"},
      {"x in ()", 6, "empty"},
      {"x notin ()", 9, "empty"},
      {"x in (a))", 9, "expected ',' or the end"},
      {"()", 1, "expected a label's key"},
      {"x>", 3, "must be an integer"},
      {"x>a", 3, "must be an integer"},
      {"x<1.5", 3, "must be an integer"},
      {"x>9223372036854775808", 3, "must be an integer"},
      {"x>+1", 3, "must be letters, digits"},
      {"x<-1", 3, "must be letters, digits"},
      {"x=-a", 3, "must be letters, digits"},
      {"x=a/b", 3, "must be letters, digits"},
      {"y,x in (a,b_)", 11, "must be letters, digits"},
      {"-x", 1, "must be letters, digits"},
      {"x.=a", 1, "must be letters, digits"},
      {"a/b/c=x", 1, "more than one slash"},
      {"/x=a", 1, "nothing in front of the slash"},
      {"example.com/=a", 1, "has no name"},
      {"Example.com/x=a", 1, "must be a DNS name"},
      {"a..b/x=a", 1, "must be a DNS name"},
      {"under_score/x=a", 1, "must be a DNS name"},
      {"x=\xc3\xa9", 3, "must be letters, digits"},
  };
  for (const auto& [text, column, what] : cases) {
    const Result<LabelSelector> selector = LabelSelector::Parse(text);
    ASSERT_FALSE(selector) << text;
    EXPECT_EQ(selector.error().code, ErrorCode::kInvalidArgument);
    const std::string& message = selector.error().message;
    EXPECT_NE(message.find(fmt::format("\"{}\": column {}: ", text, column)), std::string::npos)
        << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
  }
}

TEST(LabelSelector, RefusesANulByteInsteadOfStoppingThere) {
  EXPECT_FALSE(LabelSelector::Parse(std::string_view("x=a\0,y", 6)));
}

TEST(LabelSelector, LimitsLengthsAsTheServerDoes) {
  const std::string name63(63, 'n');
  const std::string prefix = std::string(63, 'p') + "." + std::string(63, 'p') + "." +
                             std::string(63, 'p') + "." + std::string(61, 'p');
  ASSERT_EQ(prefix.size(), 253U);
  EXPECT_TRUE(LabelSelector::Parse(name63 + "=" + name63));
  EXPECT_FALSE(LabelSelector::Parse(name63 + "n=a"));
  EXPECT_FALSE(LabelSelector::Parse("a=" + name63 + "n"));
  EXPECT_TRUE(LabelSelector::Parse(prefix + "/" + name63));
  EXPECT_FALSE(LabelSelector::Parse(prefix + "p/" + name63));
}

TEST(LabelSelector, MatchesByEveryOperator) {
  const Labels labels = {{"app", "web"}, {"tier", "a"},  {"empty", ""},
                         {"size", "12"}, {"odd", "12x"}, {"huge", "99999999999999999999"}};
  const std::pair<std::string_view, bool> cases[] = {
      {"", true},
      {"app=web", true},
      {"app==web", true},
      {"app=web2", false},
      {"app=we", false},
      {"app!=web", false},
      {"app!=db", true},
      {"missing!=x", true},
      {"missing=", false},
      {"empty=", true},
      {"empty", true},
      {"empty!=", false},
      {"app=web,tier=a", true},
      {"app=web,tier=b", false},
      {"tier in (a,b)", true},
      {"tier in (b,c)", false},
      {"missing in (a)", false},
      {"tier notin (a,b)", false},
      {"tier notin (b,c)", true},
      {"missing notin (a)", true},
      {"empty in (,a)", true},
      {"app", true},
      {"missing", false},
      {"!app", false},
      {"!missing", true},
      {"size>11", true},
      {"size>12", false},
      {"size<13", true},
      {"size<12", false},
      {"size>2", true},
      {"odd>1", false},
      {"odd<1", false},
      {"huge>1", false},
      {"missing>1", false},
      {"missing<1", false},
  };
  for (const auto& [selector, expected] : cases) {
    EXPECT_EQ(Matches(selector, labels), expected) << selector;
  }
}

TEST(LabelSelector, MatchesAnObjectsLabels) {
  const ObjectPtr pod =
      Object::Parse(R"({"metadata":{"name":"a","labels":{"app":"web","example.com/n":"7"}}})")
          .value();
  EXPECT_TRUE(Selector("app=web,example.com/n>6,!canary").Matches(*pod));
  EXPECT_FALSE(Selector("app=web,canary").Matches(*pod));
  EXPECT_TRUE(Selector("").Matches(*pod));
  EXPECT_TRUE(Selector("").Empty());
}

TEST(LabelSelector, EqualSelectorsPrintEqual) {
  EXPECT_EQ(Selector("b in (y,x),a!=1,a").ToString(),
            Selector("a , a != 1,b in (x , y)").ToString());
}

}  // namespace
}  // namespace larder
