// Moves values to their resource's current dictionary while RocksDB compacts anyway. Internal to
// storage/.
#pragma once

#include <rocksdb/compaction_filter.h>

#include <memory>
#include <string>

#include "storage/cipher.h"
#include "storage/collection.h"
#include "storage/dictionary_book.h"

namespace larder {

class ResourceNames {
 public:
  virtual ~ResourceNames() = default;
  virtual std::string ResourceOf(CollectionId collection) const = 0;
};

// A value that cannot be read is left as it is: a read will report it.
class RecompressFactory final : public rocksdb::CompactionFilterFactory {
 public:
  RecompressFactory(const ResourceNames* names, const DictionaryBook* dictionaries,
                    const Cipher* cipher)
      : names_(names), dictionaries_(dictionaries), cipher_(cipher) {}

  const char* Name() const override { return "larder.recompress"; }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& context) override;

  void set_cipher(const Cipher* cipher) { cipher_ = cipher; }

 private:
  const ResourceNames* names_;
  const DictionaryBook* dictionaries_;
  const Cipher* cipher_;
};

}  // namespace larder
