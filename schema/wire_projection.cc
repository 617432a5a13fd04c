#include "schema/wire_projection.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace larder {
namespace {

using Type = WireField::Type;
using Shape = WireField::Shape;

// `"name":` as it stands in the JSON.
std::string_view NameOf(const WireField& field) {
  return std::string_view(field.key).substr(1, field.key.size() - 3);
}

// Object::FromWire reads these from the message itself.
constexpr std::array<std::string_view, 12> kInEnvelope = {
    "name",       "generateName",      "namespace",         "uid",    "resourceVersion",
    "generation", "creationTimestamp", "deletionTimestamp", "labels", "annotations",
    "finalizers", "ownerReferences"};

bool TouchesEnvelope(const PathCut& cut) {
  const PathTree* const metadata = cut.tree->Find("metadata");
  if (cut.mode == PathMode::kKeep) return metadata == nullptr || !metadata->chosen;
  return metadata != nullptr &&
         (metadata->chosen || std::any_of(kInEnvelope.begin(), kInEnvelope.end(),
                                          [&](auto name) { return metadata->Find(name); }));
}

}  // namespace

std::unique_ptr<const WireProjection> WireProjection::Of(const WireMessage& whole,
                                                         const Transform& transform) {
  if (transform.cuts.empty()) return nullptr;
  std::unique_ptr<WireProjection> projection(new WireProjection);
  projection->root_ = &whole;
  for (const PathCut& cut : transform.cuts) {
    if (TouchesEnvelope(cut)) return nullptr;
    projection->root_ = projection->Cut(*projection->root_, *cut.tree, cut.mode);
    if (projection->root_ == nullptr) return nullptr;
  }
  return projection;
}

const WireMessage* WireProjection::Cut(const WireMessage& message, const PathTree& tree,
                                       PathMode mode) {
  WireMessage& cut = *made_.emplace_back(std::make_unique<WireMessage>(message));
  cut.projected = true;
  for (size_t i = 0; i < cut.fields.size(); ++i) {
    WireField& field = cut.fields[i];
    const PathTree* inside = &tree;
    if (!field.inlined()) {
      inside = tree.Find(NameOf(field));
      const bool chosen = inside != nullptr && inside->chosen;
      if (mode == PathMode::kKeep ? inside == nullptr : chosen) {
        cut.left_out |= uint64_t{1} << i;
        continue;
      }
      if (mode == PathMode::kKeep ? chosen : inside == nullptr) continue;  // whole
    }
    // A path goes on below it. Below the keys of a map and inside JSON there are no messages.
    if (field.shape == Shape::kMap || field.type == Type::kRaw) return nullptr;
    if (field.type != Type::kMessage) continue;  // it has no fields to cut
    field.message = Cut(*field.message, *inside, mode);
    if (field.message == nullptr) return nullptr;
  }
  return &cut;
}

}  // namespace larder
