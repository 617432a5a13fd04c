// The indexes of a collection as their records describe them, computed again from objects: for
// verification and repair, which run without the program that declared them. Internal to storage/.
#pragma once

#include <string>
#include <vector>

#include "schema/field_path.h"
#include "storage/cipher.h"
#include "storage/store.h"

namespace larder {

class StoredIndexes {
 public:
  // `cipher` may be null.
  StoredIndexes(std::vector<IndexRecord> records, const Cipher* cipher);

  const std::vector<IndexRecord>& records() const { return records_; }
  // False for a user's function, and for hashes under a key that is not the newest.
  bool Computable(size_t index) const { return kinds_[index] != Kind::kUnknown; }
  // The values of each index as they stand in keys; empty for those that cannot be computed.
  std::vector<std::vector<std::string>> Values(const Object& object) const;

 private:
  enum class Kind { kUnknown, kLabel, kField };

  std::vector<IndexRecord> records_;
  const Cipher* cipher_;
  std::vector<Kind> kinds_;
  std::vector<bool> blind_;
  std::vector<std::string> labels_;  // by index
  std::vector<FieldPath> paths_;
  std::vector<size_t> path_owner_;
};

}  // namespace larder
