#include "schema/field_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace larder {
namespace {

using Outcome = ScannedField::Outcome;

ScannedField Scan(std::string_view members, std::string_view path) {
  return ScanField(members, FieldPath::Parse(path).value().steps());
}

TEST(FieldScan, FindsScalarsBehindOtherMembers) {
  const std::string_view members =
      R"("spec":{"a":[{"nodeName":"x"},"]}\""],"b":{"nodeName":{}},"c":-1.5e3,"d":"","nodeName":"n1"},)"
      R"("status":{"ready":true,"none":null}})";
  const auto value = [&](std::string_view path) {
    const ScannedField found = Scan(members, path);
    EXPECT_EQ(found.outcome, Outcome::kValue) << path;
    return found.value;
  };
  EXPECT_EQ(value("spec.nodeName"), "n1");
  EXPECT_EQ(value("spec.c"), "-1.5e3");
  EXPECT_EQ(value("spec.d"), "");
  EXPECT_EQ(value("status.ready"), "true");
  for (const char* path : {"spec.missing", "status.none", "status.none.x", "spec.c.x", "missing",
                           "spec", "spec.b.nodeName", "spec.b.nodeName.x"}) {
    EXPECT_EQ(Scan(members, path).outcome, Outcome::kNothing) << path;
  }
}

TEST(FieldScan, LeavesToTheParserWhatItIsNotCertainOf) {
  for (const auto& [members, path] : std::vector<std::pair<std::string_view, std::string_view>>{
           {R"("a":["x"]})", "a"},         // a list stands for each element
           {R"("a":[{"b":1}]})", "a.b"},   //
           {R"("a":{"b":1}})", "a[0]"},    //
           {R"("a":"x\n"})", "a"},         // escapes
           {R"("\u0061":1,"b":2})", "b"},  //
           {R"("a":"\"","b":2})", "b"},    //
           {R"("a": 1})", "a"},            // white space
           {R"( "a":1})", "a"},            //
           {R"("a":1 })", "a"},            //
           {R"("a": {"b":1}})", "a.b"},    //
           {"\"a\":\n{\"b\":1}}", "a.b"},  //
           {R"("a": {"x":1,"b":2},"b":3})", "b"},
           {R"("a":x{"x":1,"b":2},"b":3})", "b"},
           {R"("a":01})", "a"},         // no JSON
           {R"("a":nul})", "a"},        //
           {R"("a":[}],"b":2)", "b"},   //
           {R"("a":{"b":[1,2})", "c"},  // cut off
           {R"("a":"x)", "a"},          //
           {R"("a":"x")", "b"},         //
           {R"("a":)", "a"},            //
           {"", "a"},                   //
       }) {
    EXPECT_EQ(Scan(members, path).outcome, Outcome::kAskParser) << members;
  }
}

// What stands between two tokens: nothing, or in a spaced document sometimes something.
std::string Gap(std::mt19937& random, bool spaced) {
  return spaced && random() % 4 == 0 ? std::string(1, " \n\t"[random() % 3]) : "";
}

// A random value; strings hold brackets, and sometimes escapes.
std::string Value(std::mt19937& random, bool spaced, int depth) {
  const auto gap = [&] { return Gap(random, spaced); };
  const auto pick = [&](unsigned count) { return static_cast<unsigned>(random() % count); };
  switch (pick(depth > 3 ? 5 : 8)) {
    case 0:
      return "null";
    case 1:
      return pick(2) == 0 ? "true" : "false";
    case 2:
      return std::to_string(static_cast<int>(random() % 2000) - 1000);
    case 3:
      return pick(8) == 0 ? R"("\"\\")" : R"("]{,")";
    case 4:
      return "\"" + std::string(pick(90), 'v') + "\"";
    case 5: {
      std::string list = "[";
      for (unsigned i = pick(4); i > 0; --i) {
        list += gap() + Value(random, spaced, depth + 1) + gap() + (i > 1 ? "," : "");
      }
      return list + "]";
    }
    default: {
      std::string object = "{";
      for (unsigned i = pick(5); i > 0; --i) {
        object += gap() + "\"" + "abcd"[pick(4)] + "\"" + gap() + ":" + gap() +
                  Value(random, spaced, depth + 1) + gap() + (i > 1 ? "," : "");
      }
      return object + "}";
    }
  }
}

// Whatever it says, the parser says, too.
TEST(FieldScan, AgreesWithTheParser) {
  std::mt19937 random(1);
  const std::string envelope(
      Object::Parse(R"({"metadata":{"name":"o"}})").value()->envelope_bytes());
  int answered = 0;
  for (int round = 0; round < 20'000; ++round) {
    const bool spaced = round % 4 == 0;
    const auto gap = [&] { return Gap(random, spaced); };
    const std::string members = R"("spec":)" + gap() + Value(random, spaced, 0) + gap() + "," +
                                gap() + R"("status":)" + gap() + Value(random, spaced, 0) + "}";
    std::string path = random() % 2 == 0 ? "spec" : "status";
    for (auto steps = random() % 4; steps > 0; --steps) {
      path += std::string(".") + "abcd"[random() % 4];
    }
    SCOPED_TRACE(members + " at " + path);
    const ScannedField scanned = Scan(members, path);
    if (scanned.outcome == Outcome::kAskParser) continue;
    ++answered;
    // Without the place of its body the object is parsed.
    const ObjectPtr object = Object::FromParts(envelope, "{" + members);
    std::vector<std::string> expected;
    if (scanned.outcome == Outcome::kValue) expected.emplace_back(scanned.value);
    ASSERT_EQ(FieldPath::Parse(path).value().Values(*object), expected);
  }
  EXPECT_GT(answered, 10'000);
}

}  // namespace
}  // namespace larder
