// What somebody may see of a resource: namespaces and selectors, all of which must hold.
//
// Immutable once it is made; any thread may ask it.
#pragma once

#include <set>
#include <string>

#include "base/error.h"
#include "schema/object.h"
#include "schema/selector.h"

namespace larder {

struct Scope {
  std::set<std::string> namespaces{};  // empty: all
  LabelSelector labels{};
  FieldSelector fields{};

  bool Contains(const ObjectKey& key) const {
    return namespaces.empty() || namespaces.count(key.ns) != 0;
  }
  bool Contains(const Object& object) const;
};

// A selector that holds where both do, as text in canonical form. kInvalidArgument names the one
// that cannot be read.
Result<std::string> JoinLabelSelectors(const std::string& a, const std::string& b);
Result<std::string> JoinFieldSelectors(const std::string& a, const std::string& b);

// Does `narrow` ask for everything that `wide` asks for, so that what it selects is among what
// `wide` selects? False also where that cannot be told from the text.
bool Implies(const LabelSelector& narrow, const LabelSelector& wide);
bool Implies(const FieldSelector& narrow, const FieldSelector& wide);

}  // namespace larder
