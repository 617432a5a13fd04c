// What a Transaction is made of. Internal to storage/.
#pragma once

#include <rocksdb/write_batch.h>

#include <memory>
#include <string_view>

#include "storage/database.h"
#include "storage/store.h"

namespace larder {

struct Transaction::Rep {
  explicit Rep(std::shared_ptr<Database> database_in) : database(std::move(database_in)) {}

  // Appending to a batch in memory fails only for a batch of 4 GiB.
  void Put(Family family, std::string_view key, std::string_view value) {
    LARDER_CHECK(batch
                     .Put(database->family(family), rocksdb::Slice(key.data(), key.size()),
                          rocksdb::Slice(value.data(), value.size()))
                     .ok());
  }
  void Delete(Family family, std::string_view key) {
    LARDER_CHECK(
        batch.Delete(database->family(family), rocksdb::Slice(key.data(), key.size())).ok());
  }
  void DeleteRange(Family family, std::string_view begin, std::string_view end) {
    LARDER_CHECK(batch
                     .DeleteRange(database->family(family),
                                  rocksdb::Slice(begin.data(), begin.size()),
                                  rocksdb::Slice(end.data(), end.size()))
                     .ok());
  }

  std::shared_ptr<Database> database;  // its family handles are in the batch
  rocksdb::WriteBatch batch;
};

}  // namespace larder
