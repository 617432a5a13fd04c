#include "indexer/index_set.h"

namespace larder {

IndexSet::IndexSet(std::vector<LiveIndexPtr> indexes) : indexes_(std::move(indexes)) {
  for (size_t i = 0; i < indexes_.size(); ++i) {
    if (const FieldPath* path = indexes_[i]->definition.field_path()) {
      paths_.push_back(*path);
      path_owner_.push_back(i);
    }
  }
}

LiveIndexPtr IndexSet::Find(std::string_view name) const {
  for (const LiveIndexPtr& index : indexes_) {
    if (index->definition.name() == name) return index;
  }
  return nullptr;
}

std::vector<std::vector<std::string>> IndexSet::Values(const Object& object) const {
  std::vector<std::vector<std::string>> out(indexes_.size());
  if (!paths_.empty()) {
    auto values = FieldPath::ValuesOf(paths_, object);
    for (size_t i = 0; i < values.size(); ++i) {
      SortUnique(values[i]);
      out[path_owner_[i]] = std::move(values[i]);
    }
  }
  for (size_t i = 0; i < indexes_.size(); ++i) {
    if (!indexes_[i]->definition.field_path()) out[i] = indexes_[i]->definition.Values(object);
  }
  return out;
}

}  // namespace larder
