// What a Transaction is made of. Internal to storage/.
#pragma once

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "storage/dictionary.h"
#include "storage/family_handles.h"
#include "storage/store.h"

namespace larder {

struct Transaction::Rep {
  explicit Rep(FamilyHandles* families_in) : families(families_in) {}

  // Appending to a batch in memory fails only for a batch of 4 GiB.
  void Put(Family family, std::string_view key, std::string_view value) {
    LARDER_CHECK(batch
                     .Put((*families)[family], rocksdb::Slice(key.data(), key.size()),
                          rocksdb::Slice(value.data(), value.size()))
                     .ok());
  }
  void Delete(Family family, std::string_view key) {
    LARDER_CHECK(batch.Delete((*families)[family], rocksdb::Slice(key.data(), key.size())).ok());
  }
  void DeleteRange(Family family, std::string_view begin, std::string_view end) {
    LARDER_CHECK(batch
                     .DeleteRange((*families)[family], rocksdb::Slice(begin.data(), begin.size()),
                                  rocksdb::Slice(end.data(), end.size()))
                     .ok());
  }
  // 0: none.
  void NamesDictionary(DictionaryId id) {
    if (id != 0 && std::find(dictionaries.begin(), dictionaries.end(), id) == dictionaries.end()) {
      dictionaries.push_back(id);
    }
  }

  FamilyHandles* families;  // the store's
  rocksdb::WriteBatch batch;
  std::string scratch;  // for building keys
  bool stores_objects = false;
  std::vector<DictionaryId> dictionaries;  // that the objects in the batch name; each once
};

}  // namespace larder
