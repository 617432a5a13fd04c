#include "storage/stored_indexes.h"

#include <algorithm>

#include "storage/index_key_name.h"

namespace larder {
namespace {

constexpr std::string_view kField = "field:";
constexpr std::string_view kLabel = "label:";

}  // namespace

StoredIndexes::StoredIndexes(std::vector<IndexRecord> records, const Cipher* cipher)
    : records_(std::move(records)),
      cipher_(cipher),
      kinds_(records_.size(), Kind::kUnknown),
      blind_(records_.size()),
      labels_(records_.size()) {
  for (size_t i = 0; i < records_.size(); ++i) {
    const auto [definition, key_name] = SplitKeyName(records_[i].definition);
    blind_[i] = !key_name.empty();
    if (blind_[i] && (!cipher_ || cipher_->KeyName() != key_name)) continue;
    if (definition.substr(0, kLabel.size()) == kLabel) {
      kinds_[i] = Kind::kLabel;
      labels_[i] = definition.substr(kLabel.size());
    } else if (definition.substr(0, kField.size()) == kField) {
      auto path = FieldPath::Parse(definition.substr(kField.size()));
      if (!path) continue;
      kinds_[i] = Kind::kField;
      paths_.push_back(*std::move(path));
      path_owner_.push_back(i);
    }
  }
}

std::vector<std::vector<std::string>> StoredIndexes::Values(const Object& object) const {
  std::vector<std::vector<std::string>> out(records_.size());
  if (!paths_.empty()) {
    auto values = FieldPath::ValuesOf(paths_, object);
    for (size_t i = 0; i < values.size(); ++i) out[path_owner_[i]] = std::move(values[i]);
  }
  for (size_t i = 0; i < records_.size(); ++i) {
    if (kinds_[i] == Kind::kLabel) {
      if (const auto value = object.Label(labels_[i])) out[i].emplace_back(*value);
    }
    if (blind_[i]) {
      for (std::string& value : out[i]) value = cipher_->Blind(value).value_or("");
    }
    std::sort(out[i].begin(), out[i].end());
    out[i].erase(std::unique(out[i].begin(), out[i].end()), out[i].end());
  }
  return out;
}

}  // namespace larder
