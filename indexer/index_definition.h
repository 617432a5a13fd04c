// What an index is over: a label, a field path declared as text, or a user's function with a
// version.
//
//   IndexDefinition::ByField("node", "spec.nodeName");
//   IndexDefinition::ByLabel("app");
//   IndexDefinition::ByFunction("owner", 2, [](const Object& pod) { return OwnerNames(pod); });
//
// An object may have any number of values. definition() is stored with the index: when it changes
// (another path, a raised version), the index is built anew. A function must give the same values
// for the same object, always. An object on which it throws has no values; that is logged and
// counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "schema/field_path.h"
#include "schema/object.h"

namespace larder {

using IndexFunction = std::function<std::vector<std::string>(const Object&)>;

class IndexDefinition {
 public:
  static Result<IndexDefinition> ByField(std::string name, std::string_view path);
  // Named after the label unless `name` is given.
  static IndexDefinition ByLabel(std::string label, std::string name = {});
  static IndexDefinition ByFunction(std::string name, int version, IndexFunction function);
  // From what is stored ("field:spec.nodeName"). A function cannot be stored: such an index can be
  // looked up, but gives no values of its own (Computable).
  static Result<IndexDefinition> FromStored(std::string name, std::string_view definition);

  const std::string& name() const { return name_; }
  const std::string& definition() const { return definition_; }
  // The label or the path that it is over; empty otherwise. For the planner.
  const std::string& label() const { return label_; }
  const std::string& path() const { return path_; }
  const FieldPath* field_path() const { return field_path_ ? &*field_path_ : nullptr; }
  bool Computable() const { return field_path_ || function_; }

  // Sorted, without repetitions.
  std::vector<std::string> Values(const Object& object) const;
  // How often the function threw, since it was declared.
  uint64_t exceptions() const { return exceptions_ ? exceptions_->load() : 0; }

 private:
  std::vector<std::string> Call(const Object& object) const;

  std::string name_;
  std::string definition_;
  std::string label_;
  std::string path_;
  std::optional<FieldPath> field_path_;
  IndexFunction function_;
  std::shared_ptr<std::atomic<uint64_t>> exceptions_;  // of all copies
};

// Brings values into the form that indexes have them in.
void SortUnique(std::vector<std::string>& values);

}  // namespace larder
