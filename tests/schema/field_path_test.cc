#include "schema/field_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace larder {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ObjectPtr MustParse(std::string_view json) {
  Result<ObjectPtr> object = Object::Parse(json);
  if (!object) throw std::runtime_error(object.error().message);
  return *object;
}

// A document around a spec, with metadata in front.
ObjectPtr WithSpec(const std::string& spec) {
  return MustParse(R"({"metadata":{"name":"a"},"spec":)" + spec + "}");
}

// The same, without Object::Parse having looked at it.
ObjectPtr Unchecked(const std::string& json) {
  return Object::FromParts(std::string(MustParse(R"({"metadata":{"name":"a"}})")->envelope_bytes()),
                           json);
}

std::vector<std::string> Values(const Object& object, std::string_view path) {
  return FieldPath::Parse(path).value().Values(object);
}
std::vector<std::string> Raw(const Object& object, std::string_view path) {
  return FieldPath::Parse(path).value().Raw(object);
}

// Where the metadata's end is known, what stands before it is not looked at; the values are the
// same.
TEST(FieldPath, ReadsTheSameWhereverTheMetadataStands) {
  for (const std::string& json : {
           std::string(R"({"kind":"Pod","metadata":{"name":"a","x":[{}]},"spec":{"n":"1"},"z":2})"),
           std::string(R"({"apiVersion":"v1" , "metadata" : {"name":"a"} ,
                           "spec" : {"n":"1"}, "kind":"Pod", "z":2})"),
           std::string(R"({"spec":{"n":"1"},"metadata":{"name":"a"},"z":2,"kind":"Pod"})"),
           std::string(R"({"z":2,"kind":"Pod","spec":{"n":"1"},"metadata":{"name":"a"}})"),
           std::string(R"({"spec":{"n":"1"},"metadata":{"name":"a"},"spec":{"n":"9"},"z":2})"),
           std::string(R"({"metadata":{"name":"a"},"spec":{"n":"1"},"spec":{"n":"9"},"z":2})"),
       }) {
    SCOPED_TRACE(json);
    const ObjectPtr object = MustParse(json);
    EXPECT_THAT(Values(*object, "spec.n"), ElementsAre("1"));
    EXPECT_THAT(Values(*object, "z"), ElementsAre("2"));
    EXPECT_THAT(Raw(*object, "spec"), ElementsAre(R"({"n":"1"})"));
    EXPECT_THAT(Raw(*object, "metadata.name"), ElementsAre("\"a\""));
    EXPECT_THAT(Values(*object, "missing"), IsEmpty());
    const std::vector<FieldPath> paths = {FieldPath::Parse("spec.n").value(),
                                          FieldPath::Parse("metadata.x").value(),
                                          FieldPath::Parse("z").value()};
    EXPECT_THAT(FieldPath::ValuesOf(paths, *object),
                ElementsAre(ElementsAre("1"), IsEmpty(), ElementsAre("2")));
  }
}

TEST(FieldPath, ReadsScalarsAsText) {
  const ObjectPtr object = WithSpec(
      R"({"s":"x\"y\u00e9\n","empty":"","i":-12,"big":123456789012345678901234567890,
          "f":1.50e+3 ,"t":true,"no":false,"null":null,"o":{},"l":[],
          "q\"uote":"1","back\\slash":"2","esc\u0061ped":"3"})");
  EXPECT_THAT(Values(*object, "spec.s"), ElementsAre("x\"y\xc3\xa9\n"));
  EXPECT_THAT(Values(*object, "spec.empty"), ElementsAre(""));
  EXPECT_THAT(Values(*object, "spec.i"), ElementsAre("-12"));
  EXPECT_THAT(Values(*object, "spec.big"), ElementsAre("123456789012345678901234567890"));
  EXPECT_THAT(Values(*object, "spec.f"), ElementsAre("1.50e+3"));
  EXPECT_THAT(Values(*object, "spec.t"), ElementsAre("true"));
  EXPECT_THAT(Values(*object, "spec.no"), ElementsAre("false"));
  EXPECT_THAT(Values(*object, "spec.null"), IsEmpty());
  EXPECT_THAT(Values(*object, "spec.o"), IsEmpty());
  EXPECT_THAT(Values(*object, "spec.l"), IsEmpty());
  EXPECT_THAT(Values(*object, "spec"), IsEmpty());
  EXPECT_THAT(Values(*object, "spec.missing"), IsEmpty());
  EXPECT_THAT(Values(*object, "spec.s.deeper"), IsEmpty());
  EXPECT_THAT(Values(*object, R"(spec['q"uote'])"), ElementsAre("1"));
  EXPECT_THAT(Values(*object, R"(spec['back\\slash'])"), ElementsAre("2"));
  EXPECT_THAT(Values(*object, "spec.escaped"), ElementsAre("3"));
}

TEST(FieldPath, GoesThroughLists) {
  const ObjectPtr object = WithSpec(
      R"({"c":[{"n":"a","p":[{"k":1},{"k":2}]},{"n":"b"},{"m":0},{"n":"c","p":[{"k":3}]}],
          "l":["x","y",null,"z"],"nested":[["1"],[["2"]],"3"]})");
  EXPECT_THAT(Values(*object, "spec.c.n"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Values(*object, "spec.c[*].n"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Values(*object, "spec.c.p.k"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(Values(*object, "spec.c[*].p[0].k"), ElementsAre("1", "3"));
  EXPECT_THAT(Values(*object, "spec.c[3].n"), ElementsAre("c"));
  EXPECT_THAT(Values(*object, "spec.c[4].n"), IsEmpty());
  EXPECT_THAT(Values(*object, "spec.l"), ElementsAre("x", "y", "z"));
  EXPECT_THAT(Values(*object, "spec.l[*]"), ElementsAre("x", "y", "z"));
  EXPECT_THAT(Values(*object, "spec.l[1]"), ElementsAre("y"));
  EXPECT_THAT(Values(*object, "spec.l[2]"), IsEmpty());
  EXPECT_THAT(Values(*object, "spec.nested"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(Values(*object, "spec[0]"), IsEmpty());
  EXPECT_EQ(FieldPath::Parse("spec.c.n")->Value(*object), "a");
  EXPECT_EQ(FieldPath::Parse("spec.c.x")->Value(*object), std::nullopt);
}

TEST(FieldPath, GivesRawJson) {
  const ObjectPtr object =
      WithSpec(R"({ "o" : {"a": [1, 2]} , "l" : [ {"x":1} , "s" ] , "s" : "a\"b" , "n" : null })");
  EXPECT_THAT(Raw(*object, "spec.o"), ElementsAre(R"({"a": [1, 2]})"));
  EXPECT_THAT(Raw(*object, "spec.o.a"), ElementsAre("[1, 2]"));
  EXPECT_THAT(Raw(*object, "spec.l"), ElementsAre(R"([ {"x":1} , "s" ])"));
  EXPECT_THAT(Raw(*object, "spec.l[*]"), ElementsAre(R"({"x":1})", R"("s")"));
  EXPECT_THAT(Raw(*object, "spec.s"), ElementsAre(R"("a\"b")"));
  EXPECT_THAT(Raw(*object, "spec.n"), ElementsAre("null"));
  EXPECT_THAT(Raw(*object, "metadata"), ElementsAre(R"({"name":"a"})"));
  EXPECT_THAT(Raw(*object, "metadata.name"), ElementsAre("\"a\""));
  EXPECT_THAT(Raw(*object, "spec.missing"), IsEmpty());
}

TEST(FieldPath, ReadsMetadata) {
  const ObjectPtr object = MustParse(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"x","uid":"u",
          "resourceVersion":"7","generateName":"g-","generation":3,
          "labels":{"app.kubernetes.io/name":"web","e":""},"annotations":{"k":"v"},
          "finalizers":["f1","f2"],"creationTimestamp":"2026-01-02T03:04:05Z"}})");
  EXPECT_THAT(Values(*object, "kind"), ElementsAre("Pod"));
  EXPECT_THAT(Values(*object, "apiVersion"), ElementsAre("v1"));
  EXPECT_THAT(Values(*object, "metadata.name"), ElementsAre("a"));
  EXPECT_THAT(Values(*object, "metadata.namespace"), ElementsAre("x"));
  EXPECT_THAT(Values(*object, "metadata.uid"), ElementsAre("u"));
  EXPECT_THAT(Values(*object, "metadata.resourceVersion"), ElementsAre("7"));
  EXPECT_THAT(Values(*object, "metadata.generateName"), ElementsAre("g-"));
  EXPECT_THAT(Values(*object, "metadata.generation"), ElementsAre("3"));
  EXPECT_THAT(Values(*object, "metadata.finalizers"), ElementsAre("f1", "f2"));
  EXPECT_THAT(Values(*object, "metadata.creationTimestamp"), ElementsAre("2026-01-02T03:04:05Z"));
  EXPECT_THAT(Values(*object, "metadata.labels['app.kubernetes.io/name']"), ElementsAre("web"));
  EXPECT_THAT(Values(*object, R"({.metadata.labels.app\.kubernetes\.io/name})"),
              ElementsAre("web"));
  EXPECT_THAT(Values(*object, "metadata.labels.e"), ElementsAre(""));
  EXPECT_THAT(Values(*object, "metadata.labels.missing"), IsEmpty());
  EXPECT_THAT(Values(*object, "metadata.labels"), IsEmpty());
  EXPECT_THAT(Values(*object, "metadata.annotations[\"k\"]"), ElementsAre("v"));
  EXPECT_THAT(Values(*object, "metadata.name[0]"), IsEmpty());
}

TEST(FieldPath, AcceptsEverySpelling) {
  const std::pair<std::string_view, size_t> cases[] = {
      {"a", 1},          {".a", 1},      {"{.a}", 1},          {"{a.b}", 2},
      {"a.b-c_d", 2},    {"a[*].b", 3},  {"a[0]", 2},          {"a[12][3]", 3},
      {"a['b.c/d']", 2}, {"['a'].b", 2}, {R"(a['it\'s'])", 2}, {"a[\"b\"]['c'].d", 4},
  };
  for (const auto& [text, steps] : cases) {
    const Result<FieldPath> path = FieldPath::Parse(text);
    ASSERT_TRUE(path) << path.error().message;
    EXPECT_EQ(path->steps().size(), steps) << text;
    EXPECT_EQ(path->text(), text);
  }
  EXPECT_EQ(FieldPath::Parse(R"(a['it\'s'])")->steps()[1].name, "it's");
}

TEST(FieldPath, RefusesNonsenseAndSaysWhere) {
  const std::pair<std::string_view, size_t> cases[] = {
      {"", 1},
      {".", 2},
      {"{}", 2},
      {"a.", 3},
      {"a..b", 3},
      {"a b", 2},
      {"a[", 3},
      {"a[]", 3},
      {"a[1", 4},
      {"a[-1]", 3},
      {"a['b'", 6},
      {"a['b]", 6},
      {"a['']", 4},
      {"a[x]", 3},
      {"a]", 2},
      {"a[*]b", 5},
      {"a[1]b", 5},
      {"{a", 1},
      {"a[99999999999]", 12},
  };
  for (const auto& [text, column] : cases) {
    const Result<FieldPath> path = FieldPath::Parse(text);
    ASSERT_FALSE(path) << text;
    EXPECT_EQ(path.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(path.error().message.find(fmt::format("column {}:", column)), std::string::npos)
        << path.error().message;
  }
  EXPECT_FALSE(FieldPath::Parse(std::string(2000, '[')));
  std::string deep = "a";
  for (int i = 0; i < 1000; ++i) deep += ".a";
  EXPECT_FALSE(FieldPath::Parse(deep));
}

TEST(FieldPath, GivesNothingForMalformedJson) {
  const std::string_view cases[] = {
      R"({"spec":{"a":1)",
      R"({"spec":{"a":tru}})",
      R"({"spec":{"a":12x}})",
      R"({"spec":{"a":01}})",
      R"({"spec":{"a":1.}})",
      R"({"spec":{"a":-}})",
      R"({"spec":{"a":1e}})",
      R"({"spec":{"a":nulll}})",
      R"({"spec":{"a":}})",
      R"({"spec":{"a" 1}})",
      R"({"spec":{"a":"x)",
      R"({"spec":{"b":2 "a":1}})",
      R"({"spec":{"a":["x")",
      R"({"spec":{"a":["x" "y"]}})",
      R"({"spec":{"a":"\x"}})",
      R"({"spec":{"a":"\ud800"}})",
      "",
      "[1]",
      "1",
      "\"spec\"",
      "{",
      "}",
      "{\"spec",
      "null",
      "{\"spec\":{\"a\":\"\xff\"}}",
  };
  for (const std::string_view json : cases) {
    const ObjectPtr object = Unchecked(std::string(json));
    EXPECT_THAT(Values(*object, "spec.a"), IsEmpty()) << json;
    EXPECT_THAT(Values(*object, "spec.a.b[0].c"), IsEmpty()) << json;
    Raw(*object, "spec.a");
    Raw(*object, "spec");
  }
}

TEST(FieldPath, SurvivesDeepNesting) {
  constexpr size_t kDepth = 200'000;
  const std::string lists = std::string(kDepth, '[') + "1" + std::string(kDepth, ']');
  std::string objects;
  for (size_t i = 0; i < kDepth; ++i) objects += "{\"a\":";
  objects += "1" + std::string(kDepth, '}');
  for (const std::string& inner :
       {lists, objects, std::string(kDepth, '['), std::string(kDepth, '{')}) {
    const ObjectPtr object = Unchecked("{\"spec\":{\"a\":" + inner + ",\"z\":\"end\"}}");
    EXPECT_THAT(Values(*object, "spec.a"), IsEmpty());
    EXPECT_THAT(Values(*object, "spec.a.a.a.a"), IsEmpty());
  }
  const ObjectPtr object = Unchecked("{\"spec\":{\"a\":" + lists + ",\"z\":\"end\"}}");
  EXPECT_THAT(Values(*object, "spec.z"), ElementsAre("end"));
  EXPECT_THAT(Raw(*object, "spec.a"), ElementsAre(lists));
}

TEST(FieldPath, ReadsSeveralPathsInOnePass) {
  const std::string_view texts[] = {"spec.c.n",         "spec.c[1].n", "spec.c[*].p.k", "spec",
                                    "spec.x",           "spec.c",      "metadata.name", "spec.c.n",
                                    "spec.c[0].p[1].k", "spec.x.y",    "status.phase"};
  std::vector<FieldPath> paths;
  for (const std::string_view text : texts) paths.push_back(FieldPath::Parse(text).value());
  for (const std::string spec :
       {R"({"x":"1","c":[{"n":"a","p":[{"k":1},{"k":2}]},{"n":"b"},"s"]})",
        R"({"c":[{"n":"a"},{"n":tru}],"x":"2"})", R"({"x":{"y":[[3]]},"c":{"n":4}})", "[]",
        // Go escapes < and > in names, too.
        R"({"\u003cany\u003e":1,"x":"1","\u0063":[{"\u006e":"a","n":"b"}]})",
        R"({"\uZZZZ":1,"x":"1","c":{"n":4}})"}) {
    const ObjectPtr object = WithSpec(spec);
    const std::vector<std::vector<std::string>> values = FieldPath::ValuesOf(paths, *object);
    ASSERT_EQ(values.size(), paths.size());
    for (size_t i = 0; i < paths.size(); ++i) {
      EXPECT_EQ(values[i], paths[i].Values(*object)) << texts[i] << " of " << spec;
    }
  }
}

TEST(FieldPath, IsSharedByThreads) {
  const ObjectPtr object = WithSpec(R"({"nodeName":"n1"})");
  const FieldPath path = FieldPath::Parse("spec.nodeName").value();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 1000; ++round) EXPECT_EQ(path.Value(*object), "n1");
    });
  }
}

}  // namespace
}  // namespace larder
