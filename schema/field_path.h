// A path to fields of an object, declared as text, read without materialising the object.
//
// Grammar: names joined by dots (`spec.nodeName`); a name with dots or slashes in brackets and
// quotes (`metadata.labels['app.kubernetes.io/name']`); `[*]` for every element of a list, `[0]`
// for one. A list met without brackets means every element, so `spec.containers.image` gives
// several values. A leading dot, kubectl's braces (`{.spec.nodeName}`) and its `\.` for a dot
// inside a name are accepted.
//
//   Result<FieldPath> path = FieldPath::Parse("spec.nodeName");
//   std::vector<std::string> values = path->Values(*pod);
//
// Immutable after Parse; any number of threads may use one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "schema/object.h"

namespace larder {

class FieldPath {
 public:
  struct Step {
    enum class Kind { kField, kAll, kIndex } kind = Kind::kField;
    std::string name;
    size_t index = 0;
  };

  static Result<FieldPath> Parse(std::string_view text);

  // Every scalar at the path, as text: strings unescaped, numbers and booleans as in the JSON.
  // Absent fields, nulls, objects, empty lists and malformed JSON give nothing. Metadata fields
  // (name, namespace, uid, labels, ...) are read from the envelope where possible.
  std::vector<std::string> Values(const Object& object) const;
  // The same for several paths at once, in one pass over the document: what Values of each gives.
  static std::vector<std::vector<std::string>> ValuesOf(std::span<const FieldPath> paths,
                                                        const Object& object);
  // The first of Values, or nullopt.
  std::optional<std::string> Value(const Object& object) const;
  // The raw JSON at the path (objects and lists too): one entry for each place that matches.
  std::vector<std::string> Raw(const Object& object) const;

  const std::string& text() const { return text_; }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::string text_;
  std::vector<Step> steps_;
};

}  // namespace larder
