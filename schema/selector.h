// Kubernetes label and field selectors: parsed once, matched often.
//
// Label grammar, in full: `a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x,y)`, `a` (exists), `!a`,
// and for numbers `a>1`, `a<5`; joined by commas, all must hold. `!=` and `notin` also hold where
// the label is absent. Keys and values are validated as the API server validates them. An empty
// selector matches everything.
//
// Field grammar: `path=value`, `path==value`, `path!=value`, joined by commas; `\` escapes `,`, `=`
// and `\`.
//
//   Result<LabelSelector> selector = LabelSelector::Parse("app=web,tier in (a,b),!canary");
//   if (selector->Matches(*pod)) ...
//
// A parse error says what is wrong, where (the column), and shows the selector.
// Immutable after Parse.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "schema/field_path.h"
#include "schema/object.h"

namespace larder {

struct Resource;

class LabelSelector {
 public:
  enum class Op { kIn, kNotIn, kExists, kNotExists, kGreater, kLess };
  // `=` is kIn with one value, `!=` is kNotIn with one value.
  struct Requirement {
    std::string key;
    Op op = Op::kExists;
    std::vector<std::string> values;  // sorted
  };
  using Lookup = std::function<std::optional<std::string_view>(std::string_view key)>;

  static Result<LabelSelector> Parse(std::string_view text);

  bool Matches(const Object& object) const;
  bool Matches(const Lookup& label) const;
  bool Empty() const { return requirements_.empty(); }
  const std::vector<Requirement>& requirements() const { return requirements_; }
  // Canonical: requirements sorted by key, so that equal selectors print equal.
  std::string ToString() const;

 private:
  std::vector<Requirement> requirements_;
};

class FieldSelector {
 public:
  struct Requirement {
    FieldPath path;
    std::string value;
    bool negated = false;
    // For: what an object without the field compares as, and where to look instead of at the path.
    std::string absent{};
    std::vector<FieldPath> read{};
  };

  static Result<FieldSelector> Parse(std::string_view text);
  // A value as it stands in a selector's text.
  static std::string Escape(std::string_view value);
  // The same for objects of this resource, as its API server reads it: an absent bool is "false"
  // (schema/selectable_fields.h). Prints as before.
  FieldSelector For(const Resource& resource) const;

  // A field that is absent compares equal to "", unless For says otherwise.
  bool Matches(const Object& object) const;
  bool Empty() const { return requirements_.empty(); }
  const std::vector<Requirement>& requirements() const { return requirements_; }
  std::string ToString() const;

 private:
  std::vector<Requirement> requirements_;
};

}  // namespace larder
