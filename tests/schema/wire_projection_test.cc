// Objects made without what a transform cuts out, beside those that are made whole and cut.
#include "schema/wire_projection.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "schema/wire_to_json.h"
#include "tests/schema/wire_samples.h"

namespace larder {
namespace {

// The JSON of the sample, made without what the transform cuts out. Nothing where that is not done.
std::optional<std::string> Projected(const WireSample& sample, const Transform& transform) {
  const auto projection = WireProjection::Of(*WireSchema::BuiltIn().Find(sample.type), transform);
  if (!projection) return std::nullopt;
  std::string json;
  KnownJson known(KnownJson::kForList);
  EXPECT_TRUE(WireToJson(projection->message(), sample.type, sample.bytes, 100, known, json));
  return json;
}

// The same with the whole document in hand.
void Cut(Json& value, const PathTree& tree, PathMode mode) {
  if (value.is_array()) {
    for (Json& element : value) Cut(element, tree, mode);
  }
  if (!value.is_object()) return;
  for (auto it = value.begin(); it != value.end();) {
    const PathTree* const found = tree.Find(it.key());
    if (mode == PathMode::kKeep ? !found : found && found->chosen) {
      it = value.erase(it);
      continue;
    }
    if (found && !found->chosen) Cut(it.value(), *found, mode);
    ++it;
  }
}

// The paths of all fields in a document, those inside lists included.
void AddPaths(const Json& value, const std::string& above, std::set<std::string>& paths) {
  if (value.is_array()) {
    for (const Json& element : value) AddPaths(element, above, paths);
  }
  if (!value.is_object()) return;
  for (const auto& [key, inside] : value.items()) {
    // What a path would have to quote stands below maps only.
    if (key.find_first_of("./[]\"':") != std::string::npos) continue;
    const std::string path = above.empty() ? key : above + "." + key;
    paths.insert(path);
    AddPaths(inside, path, paths);
  }
}

void ExpectSame(const WireSample& sample, Json cut, const Transform& transform,
                std::string_view projected) {
  for (const PathCut& part : transform.cuts) Cut(cut, *part.tree, part.mode);
  ASSERT_EQ(Json::parse(projected), cut) << sample.type.kind << ", " << transform.name;
  const auto whole = Object::Parse(sample.json);
  if (!whole) return;  // most samples have no name that an object could have
  const auto applied = transform.apply(*whole);
  ASSERT_TRUE(applied.has_value()) << applied.error().ToString();
  EXPECT_EQ(projected, (*applied)->json()) << sample.type.kind << ", " << transform.name;
}

TEST(WireProjection, OfEveryFieldOfEveryKindIsWhatTheTransformMakes) {
  size_t done = 0, left = 0;
  for (const WireSample& sample : WireSamples()) {
    const Json whole = Json::parse(sample.json);
    std::set<std::string> paths;
    AddPaths(whole, "", paths);
    for (const std::string& path : paths) {
      for (const auto& transform : {DropPaths({path}), KeepPaths({path})}) {
        if (!transform) continue;  // it would take away what an object is known by
        const auto projected = Projected(sample, *transform);
        ++(projected ? done : left);
        if (projected) ExpectSame(sample, whole, *transform, *projected);
        if (HasFatalFailure()) return;
      }
    }
  }
  // Left are labels and the like, keys of maps, and paths into JSON.
  EXPECT_GT(done, 2000U);
  EXPECT_GT(left, 0U);
  EXPECT_LT(left, done / 4);
}

TEST(WireProjection, SeveralPathsAndSeveralTransforms) {
  const std::vector<Transform> transforms = {
      StripManagedFields(),
      *DropPaths({"metadata.managedFields", "spec.containers[*].env", "status.conditions"}),
      *KeepPaths({"spec.nodeName", "spec.containers.image", "status.phase"}),
      Chain({*DropPaths({"status"}), StripManagedFields()}),
  };
  for (const WireSample& sample : WireSamples()) {
    for (const Transform& transform : transforms) {
      const auto projected = Projected(sample, transform);
      if (!projected) continue;  // another kind may have a map where a pod has a message
      ExpectSame(sample, Json::parse(sample.json), transform, *projected);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(WireProjection, AnObjectSaysThatNothingIsLeftToCut) {
  const TypeMeta type{"v1", "Pod"};
  const WireMessage& whole = *WireSchema::BuiltIn().Find(type);
  const auto cut = WireProjection::Of(whole, StripManagedFields());
  ASSERT_NE(cut, nullptr);
  // metadata (1) with a name (1) and an entry of managedFields (17) by a manager (1).
  const std::string pod(
      "\n\x09\n\x01"
      "a\x8a\x01\x03\n\x01m",
      11);
  for (const WireMessage* message : {&whole, &cut->message()}) {
    std::string json;
    KnownJson known;
    const auto head = WireToJson(*message, type, pod, 100, known, json);
    ASSERT_TRUE(head.has_value()) << head.error().ToString();
    const ObjectPtr object = Object::FromWire(json, type, *head).value();
    EXPECT_EQ(object->projected(), message != &whole);
    EXPECT_EQ(json.find("managedFields") == std::string::npos, message != &whole) << json;
  }
}

TEST(WireProjection, IsNoneWhereATransformDoesMore) {
  const WireMessage& pod = *WireSchema::BuiltIn().Find({"v1", "Pod"});
  const Transform own{"own@1", [](const ObjectPtr& object) { return object; }};
  EXPECT_EQ(WireProjection::Of(pod, {}), nullptr);
  EXPECT_EQ(WireProjection::Of(pod, own), nullptr);
  EXPECT_EQ(WireProjection::Of(pod, Chain({StripManagedFields(), own})), nullptr);
  for (const char* path :
       {"metadata.labels", "metadata.annotations.big", "metadata.ownerReferences",
        "metadata.managedFields.fieldsV1.x", "spec.nodeSelector.zone"}) {
    EXPECT_EQ(WireProjection::Of(pod, *DropPaths({path})), nullptr) << path;
  }
  EXPECT_NE(WireProjection::Of(pod, *DropPaths({"spec.nodeSelector"})), nullptr);
}

}  // namespace
}  // namespace larder
