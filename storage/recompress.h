// Moves values to their resource's current dictionary and to the newest encryption key while
// RocksDB compacts anyway. Internal to storage/.
#pragma once

#include <rocksdb/compaction_filter.h>

#include <memory>

#include "storage/cipher.h"
#include "storage/collection.h"
#include "storage/value_codec.h"

namespace larder {

// What the filter asks of the store. Called on RocksDB's threads.
class RowPolicy {
 public:
  virtual ~RowPolicy() = default;
  virtual DecodeOptions decode_options() const = 0;
  // How a new value of this collection would be encoded. False where the collection is not known.
  virtual bool EncodingOf(CollectionId collection, EncodeOptions& options) const = 0;
};

// A value that cannot be read is left as it is: a read will report it.
class RecompressFactory final : public rocksdb::CompactionFilterFactory {
 public:
  explicit RecompressFactory(const RowPolicy* policy) : policy_(policy) {}

  const char* Name() const override { return "larder.recompress"; }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& context) override;

 private:
  const RowPolicy* policy_;
};

}  // namespace larder
