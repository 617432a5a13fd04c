#include <gtest/gtest.h>

#include "schema/resource.h"
#include "schema/selector.h"

namespace larder {
namespace {

ObjectPtr Pod() {
  return Object::Parse(R"({"kind":"Pod","apiVersion":"v1",
      "metadata":{"name":"a","namespace":"x","annotations":{"k":"a,b=c\\d"}},
      "spec":{"nodeName":"n1","hostNetwork":true,"priority":7,
              "containers":[{"image":"i1"},{"image":"i2"}]},
      "status":{"phase":"Running"}})")
      .value();
}

TEST(FieldSelector, MatchesByEveryOperator) {
  const std::pair<std::string_view, bool> cases[] = {
      {"", true},
      {"metadata.name=a", true},
      {"metadata.name==a", true},
      {"metadata.name!=a", false},
      {"metadata.name=b", false},
      {"metadata.namespace=x,spec.nodeName=n1", true},
      {"metadata.namespace=x,spec.nodeName=n2", false},
      {"status.phase!=Pending", true},
      {"spec.hostNetwork=true", true},
      {"spec.priority=7", true},
      {"spec.missing=", true},
      {"spec.missing!=", false},
      {"spec.missing!=x", true},
      {"spec.missing=x", false},
      {"spec.containers.image=i2", true},
      {"spec.containers.image!=i2", false},
      {"spec.containers[0].image!=i2", true},
      {R"(metadata.annotations.k=a\,b\=c\\d)", true},
      {R"(metadata.annotations.k=a\,b\=c\\e)", false},
  };
  const ObjectPtr pod = Pod();
  for (const auto& [text, expected] : cases) {
    const Result<FieldSelector> selector = FieldSelector::Parse(text);
    ASSERT_TRUE(selector) << selector.error().message;
    EXPECT_EQ(selector->Matches(*pod), expected) << text;
  }
}

TEST(FieldSelector, PrintsACanonicalFormThatParsesBack) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", ""},
      {",", ""},
      {"a=b,", "a=b"},
      {",a=b", "a=b"},
      {"b=2,a==1", "a=1,b=2"},
      {"a!=1", "a!=1"},
      {"a=", "a="},
      {"a!=", "a!="},
      {"a= b ", "a= b "},
      {R"(a=\,\=\\)", R"(a=\,\=\\)"},
      {R"(a=x!,b=y)", R"(a=x!,b=y)"},
      {"a=b,a=b", "a=b"},
  };
  for (const auto& [text, canonical] : cases) {
    const Result<FieldSelector> selector = FieldSelector::Parse(text);
    ASSERT_TRUE(selector) << selector.error().message;
    EXPECT_EQ(selector->ToString(), canonical) << text;
    EXPECT_EQ(FieldSelector::Parse(selector->ToString())->ToString(), canonical) << text;
    EXPECT_EQ(selector->Empty(), canonical.empty()) << text;
  }
}

TEST(FieldSelector, RefusesWhatTheServerRefusesAndSaysWhere) {
  const std::tuple<std::string_view, size_t, std::string_view> cases[] = {
      {"a", 1, "has no =, == or !="},
      {"a=b,c", 5, "has no =, == or !="},
      {"a>1", 1, "has no =, == or !="},
      {"a=b=c", 4, "must be written as"},
      {"a===b", 4, "must be written as"},
      {R"(a=\x)", 3, "must be followed by"},
      {R"(a=x\)", 4, "must be followed by"},
      {"=b", 1, "expected the name of a field"},
      {"!=b", 1, "expected the name of a field"},
      {"x=y,a =b", 5, "expected \".\" or \"[\""},
  };
  for (const auto& [text, column, what] : cases) {
    const Result<FieldSelector> selector = FieldSelector::Parse(text);
    ASSERT_FALSE(selector) << text;
    EXPECT_EQ(selector.error().code, ErrorCode::kInvalidArgument);
    const std::string& message = selector.error().message;
    EXPECT_NE(message.find(fmt::format("\"{}\": column {}: ", text, column)), std::string::npos)
        << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
  }
}

// kube-apiserver compares Go's zero values, and some of its names are no paths.
TEST(FieldSelector, ReadsFieldsAsTheServerOfTheResource) {
  const auto object = [](const std::string& rest) {
    return Object::Parse(R"({"metadata":{"name":"a","namespace":"x"})" + rest + "}").value();
  };
  struct Case {
    const char* resource;
    const char* selector;
    std::string object;
    bool expected;
  };
  const Case cases[] = {
      {"nodes", "spec.unschedulable=false", "", true},
      {"nodes", "spec.unschedulable=", "", false},
      {"nodes", "spec.unschedulable=true", R"(,"spec":{"unschedulable":true})", true},
      {"nodes", "spec.unschedulable=false", R"(,"spec":{"unschedulable":true})", false},
      {"pods", "spec.hostNetwork!=true", "", true},
      {"pods", "spec.nodeName=", "", true},
      {"jobs.batch", "status.successful=0", "", true},
      {"jobs.batch", "status.successful=2", R"(,"status":{"succeeded":2})", true},
      {"jobs.batch", "status.successful!=0", R"(,"status":{"succeeded":2})", true},
      {"replicasets.apps", "status.replicas=0", "", true},
      {"events", "source=", "", true},
      {"events", "source=kubelet", R"(,"source":{"component":"kubelet","host":"n1"})", true},
      {"events", "source=", R"(,"source":{"component":"kubelet"})", false},
      {"events", "source=c", R"(,"source":{"component":""},"reportingComponent":"c")", true},
      {"widgets.v1.example.com", "spec.unschedulable=false", "", false},
  };
  for (const Case& each : cases) {
    const FieldSelector selector = FieldSelector::Parse(each.selector).value();
    const FieldSelector bound = selector.For(LookupResource(each.resource).value());
    EXPECT_EQ(bound.Matches(*object(each.object)), each.expected)
        << each.resource << " " << each.selector << " " << each.object;
    EXPECT_EQ(bound.ToString(), selector.ToString());
  }
}

}  // namespace
}  // namespace larder
