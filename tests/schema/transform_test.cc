#include "schema/transform.h"

#include <gtest/gtest.h>

namespace larder {
namespace {

constexpr char kDetailedPod[] =
    R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",)"
    R"("labels":{"app.kubernetes.io/name":"web"},"managedFields":[{"manager":"x","n":1}]},)"
    R"("spec":{"nodeName":"n1","big":123456789012345678901234567890,"f":1.50,)"
    R"("containers":[{"name":"c","image":"i","env":[]},{"name":"d","image":"j"}]},)"
    R"("sta\u0074us":{"phase":"Running","note":"\u00e9\"x"}})";

ObjectPtr DetailedPod() { return *Object::Parse(kDetailedPod); }

std::string Text(const Transform& transform) {
  const auto result = transform.apply(DetailedPod());
  if (!result) return result.error().ToString();
  EXPECT_EQ((*result)->resource_version(), "7");
  return std::string((*result)->json());
}

TEST(Transform, StripsManagedFieldsAndTouchesNothingElse) {
  std::string expected = kDetailedPod;
  const std::string cut = R"(,"managedFields":[{"manager":"x","n":1}])";
  expected.erase(expected.find(cut), cut.size());
  EXPECT_EQ(Text(StripManagedFields()), expected);
}

TEST(Transform, DropsChosenPathsInListsToo) {
  EXPECT_EQ(
      Text(*DropPaths({"spec.containers[*].image", "status", "metadata.managedFields"})),
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",)"
      R"("labels":{"app.kubernetes.io/name":"web"}},)"
      R"("spec":{"nodeName":"n1","big":123456789012345678901234567890,"f":1.50,)"
      R"("containers":[{"name":"c","env":[]},{"name":"d"}]}})");
}

TEST(Transform, KeepsChosenPathsAndWhatAnObjectIsKnownBy) {
  EXPECT_EQ(
      Text(*KeepPaths({"spec.big", "spec.containers.image", "status.note"})),
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",)"
      R"("labels":{"app.kubernetes.io/name":"web"}},)"
      R"("spec":{"big":123456789012345678901234567890,)"
      R"("containers":[{"image":"i"},{"image":"j"}]},)"
      R"("sta\u0074us":{"note":"\u00e9\"x"}})");
}

TEST(Transform, IsNamedAfterWhatItDoes) {
  EXPECT_EQ(KeepPaths({"b", "a"})->name, KeepPaths({"a", "b"})->name);
  EXPECT_NE(KeepPaths({"a"})->name, KeepPaths({"a", "b"})->name);
  EXPECT_NE(KeepPaths({"a"})->name, DropPaths({"a"})->name);
  EXPECT_EQ(Chain({StripManagedFields(), *DropPaths({"status"})}).name,
            StripManagedFields().name + "+" + DropPaths({"status"})->name);
}

TEST(Transform, RefusesWhatCannotBeMeant) {
  for (const char* path : {"metadata.name", "metadata", "kind", "metadata.uid",
                           "metadata.finalizers", "metadata.deletionTimestamp"}) {
    const auto refused = DropPaths({path});
    ASSERT_FALSE(refused) << path;
    EXPECT_NE(refused.error().message.find(path), std::string::npos);
  }
  const auto one = KeepPaths({"spec.containers[0].image"});
  ASSERT_FALSE(one);
  EXPECT_NE(one.error().message.find("[*]"), std::string::npos) << one.error().message;
  EXPECT_FALSE(KeepPaths({"spec.["}));
}

// Lists in lists are gone through one inside the other, which takes stack.
TEST(Transform, RefusesListsNestedWithoutEnd) {
  const Transform drop = *DropPaths({"spec.containers.env"});
  const auto nested = [](size_t levels) {
    return *Object::Parse(R"({"metadata":{"name":"a"},"spec":{"containers":)" +
                          std::string(levels, '[') + std::string(levels, ']') + "}}");
  };
  EXPECT_TRUE(drop.apply(nested(900)));
  const auto refused = drop.apply(nested(2'000'000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kProtocol);
}

TEST(Transform, AFailureInAChainIsItsFailure) {
  const Transform fails{"fails@1", [](const ObjectPtr&) -> Result<ObjectPtr> {
                          return MakeError(ErrorCode::kInvalidArgument, "no");
                        }};
  EXPECT_EQ(Text(Chain({StripManagedFields(), fails})),
            fails.apply(DetailedPod()).error().ToString());
}

}  // namespace
}  // namespace larder
