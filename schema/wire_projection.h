// A kind's shape in protobuf without what a transform cuts out: its objects are made without these
// fields, instead of made whole and cut afterwards. What is left out is neither converted nor
// looked at.
//
// The same objects come out of both ways, byte for byte.
//
//   auto projection = WireProjection::Of(*WireSchema::BuiltIn().Find(type), StripManagedFields());
//   if (projection) WireToJson(projection->message(), type, bytes, {}, known, json);
//
// Immutable, for any number of threads. The schema must outlive it.
#pragma once

#include <memory>
#include <vector>

#include "schema/transform.h"
#include "schema/wire_schema.h"

namespace larder {

class WireProjection {
 public:
  // Null where the transform is none, or does what cannot be done here: functions of users', keys
  // of a map, and metadata that an object is known by without its JSON (labels and the like).
  static std::unique_ptr<const WireProjection> Of(const WireMessage& whole,
                                                  const Transform& transform);

  const WireMessage& message() const { return *root_; }

 private:
  WireProjection() = default;
  // Null: it cannot be done.
  const WireMessage* Cut(const WireMessage& message, const PathTree& tree, PathMode mode);

  std::vector<std::unique_ptr<WireMessage>> made_;
  const WireMessage* root_ = nullptr;
};

}  // namespace larder
