// Predicates: which changes pass.
#include "controller/predicate.h"

#include <gtest/gtest.h>

#include "controller/source.h"

namespace larder {
namespace {

ObjectPtr Pod(const std::string& metadata) {
  return *Object::Parse(R"({"metadata":{"name":"a","namespace":"x",)" + metadata + "}}",
                        {"v1", "Pod"});
}

ObjectChange Update(const std::string& old, const std::string& now) {
  return {ChangeType::kUpdated, Pod(old), Pod(now), false, false};
}

ObjectChange Add(const std::string& now) {
  return {ChangeType::kAdded, nullptr, Pod(now), false, false};
}

ObjectChange Delete(const std::string& old) {
  return {ChangeType::kDeleted, Pod(old), nullptr, false, false};
}

TEST(Predicates, GenerationChangedLeavesOutStatusUpdates) {
  const Predicate predicate = GenerationChanged();
  EXPECT_FALSE(predicate(Update(R"("generation":1,"resourceVersion":"1")",
                                R"("generation":1,"resourceVersion":"2")")));
  EXPECT_TRUE(predicate(Update(R"("generation":1)", R"("generation":2)")));
  EXPECT_TRUE(predicate(Add(R"("generation":1)")));
  EXPECT_TRUE(predicate(Delete(R"("generation":1)")));
}

TEST(Predicates, ResourceVersionChangedLeavesOutResyncs) {
  EXPECT_FALSE(
      ResourceVersionChanged()(Update(R"("resourceVersion":"5")", R"("resourceVersion":"5")")));
  EXPECT_TRUE(
      ResourceVersionChanged()(Update(R"("resourceVersion":"5")", R"("resourceVersion":"6")")));
}

TEST(Predicates, LabelAndAnnotationChangesCanBeNarrowedToAKey) {
  const auto labels = Update(R"("labels":{"a":"1","b":"1"})", R"("labels":{"a":"1","b":"2"})");
  EXPECT_TRUE(LabelChanged()(labels));
  EXPECT_TRUE(LabelChanged("b")(labels));
  EXPECT_FALSE(LabelChanged("a")(labels));
  EXPECT_FALSE(AnnotationChanged()(labels));
  const auto annotations = Update(R"("annotations":{"a":"1"})", R"("labels":{})");
  EXPECT_TRUE(AnnotationChanged()(annotations));
  EXPECT_TRUE(AnnotationChanged("a")(annotations));
  EXPECT_FALSE(AnnotationChanged("b")(annotations));
}

TEST(Predicates, TheDeleteOfAnObjectThatCeasedToMatchWhileNobodyWatchedPasses) {
  const Predicate web = *MatchesLabels("app=web");
  ObjectChange change = Delete(R"("labels":{"app":"db"})");
  EXPECT_FALSE(web(change));
  change.stored = Pod(R"("labels":{"app":"web"})");
  EXPECT_TRUE(web(change));
}

TEST(Predicates, AnObjectThatCeasesToMatchPassesOnce) {
  const Predicate web = *MatchesLabels("app=web");
  EXPECT_TRUE(web(Add(R"("labels":{"app":"web"})")));
  EXPECT_TRUE(web(Update(R"("labels":{"app":"web"})", R"("labels":{"app":"db"})")));
  EXPECT_FALSE(web(Update(R"("labels":{"app":"db"})", R"("labels":{"app":"db"})")));
  EXPECT_FALSE(MatchesLabels("app in ("));
}

TEST(Predicates, AndOrNotCombine) {
  const Predicate yes = [](const ObjectChange&) { return true; };
  const Predicate no = Not(yes);
  const ObjectChange change = Add(R"("generation":1)");
  EXPECT_TRUE(And(yes, yes)(change));
  EXPECT_FALSE(And(yes, no, yes)(change));
  EXPECT_TRUE(Or(no, yes)(change));
  EXPECT_FALSE(Or(no, no)(change));
  EXPECT_TRUE(InNamespace("x")(change));
  EXPECT_FALSE(InNamespace("y")(change));
}

std::vector<std::string> Queued(const EnqueueFunction& function, const ObjectChange& change) {
  std::vector<std::string> keys;
  function(change, [&](std::string_view key, int32_t) { keys.emplace_back(key); });
  return keys;
}

TEST(Sources, APredicateThatThrowsLetsTheChangePass) {
  const auto function = internal::MakeEnqueueFunction(
      "c", Itself(), {[](const ObjectChange&) -> bool { throw std::runtime_error("no"); }}, 0);
  EXPECT_EQ(Queued(function, Add(R"("generation":1)")), std::vector<std::string>{"x/a"});
}

TEST(Sources, AMappingThatThrowsQueuesNothing) {
  const auto function = internal::MakeEnqueueFunction(
      "c", [](const Object&) -> std::vector<ObjectKey> { throw 1; }, {}, 0);
  EXPECT_TRUE(Queued(function, Add(R"("generation":1)")).empty());
}

TEST(Sources, BothOldAndNewOwnersAreQueued) {
  const auto owned_by = [](const std::string& name) {
    return R"("ownerReferences":[{"apiVersion":"v1","kind":"Pod","uid":"u","controller":true,)"
           R"("name":")" +
           name + R"("}])";
  };
  const auto function = internal::MakeEnqueueFunction("c", OwnerOf("Pod", "v1"), {}, 0);
  EXPECT_EQ(Queued(function, Update(owned_by("p"), owned_by("q"))),
            (std::vector<std::string>{"x/p", "x/q"}));
  EXPECT_EQ(Queued(function, Delete(owned_by("p"))), std::vector<std::string>{"x/p"});
}

TEST(Sources, OwnersOfAnotherGroupOrKindAreNotQueued) {
  const std::string owned =
      R"("ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","uid":"u","name":"r",)"
      R"("controller":true},{"apiVersion":"v1","kind":"Node","uid":"n","name":"n1"}])";
  const auto queued = [&](const MapFunction& map) {
    return Queued(internal::MakeEnqueueFunction("c", map, {}, 0), Add(owned));
  };
  EXPECT_EQ(queued(OwnerOf("ReplicaSet", "apps/v1")), std::vector<std::string>{"x/r"});
  EXPECT_EQ(queued(OwnerOf("ReplicaSet", "apps/v1beta1")), std::vector<std::string>{"x/r"});
  EXPECT_TRUE(queued(OwnerOf("ReplicaSet", "extensions/v1")).empty());
  EXPECT_TRUE(queued(OwnerOf("Node")).empty());
  EXPECT_EQ(queued(OwnerOf("Node", "v1", false, false)), std::vector<std::string>{"n1"});
}

}  // namespace
}  // namespace larder
