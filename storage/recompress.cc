#include "storage/recompress.h"

#include <charconv>

namespace larder {
namespace {

class Recompress final : public rocksdb::CompactionFilter {
 public:
  Recompress(const ResourceNames* names, const DictionaryBook* dictionaries, const Cipher* cipher)
      : names_(names), dictionaries_(dictionaries), cipher_(cipher) {}

  const char* Name() const override { return "larder.recompress"; }

  Decision FilterV2(int, const rocksdb::Slice& key, ValueType type, const rocksdb::Slice& existing,
                    std::string* new_value, std::string*) const override {
    if (type != ValueType::kValue) return Decision::kKeep;
    const std::string_view row_key(key.data(), key.size());
    const std::string_view value(existing.data(), existing.size());
    const auto head = DecodeHead(row_key, value, cipher_);
    if (!head || (head->encrypted && !cipher_)) return Decision::kKeep;
    const DictionaryPtr current = CurrentFor(row_key);
    const bool better = head->compressed && current && head->dictionary != current->id();
    if (!better && head->current_key) return Decision::kKeep;
    const DecodeOptions decode{dictionaries_, cipher_};
    const auto parts = DecodeParts(row_key, value, decode);
    if (!parts) return Decision::kKeep;
    auto encoded = EncodeValue(row_key, *parts,
                               {head->compressed, current, head->encrypted ? cipher_ : nullptr});
    if (!encoded) return Decision::kKeep;
    *new_value = *std::move(encoded);
    return Decision::kChangeValue;
  }

 private:
  // Keys come in order, so the collection rarely changes: look its dictionary up only then.
  DictionaryPtr CurrentFor(std::string_view row_key) const {
    CollectionId collection = 0;
    std::from_chars(row_key.data(), row_key.data() + row_key.size(), collection);
    if (collection != collection_) {
      collection_ = collection;
      const std::string resource = names_->ResourceOf(collection);
      current_ = resource.empty() ? nullptr : dictionaries_->Current(resource);
    }
    return current_;
  }

  const ResourceNames* names_;
  const DictionaryBook* dictionaries_;
  const Cipher* cipher_;
  // One filter serves one compaction on one thread.
  mutable CollectionId collection_ = 0;
  mutable DictionaryPtr current_;
};

}  // namespace

std::unique_ptr<rocksdb::CompactionFilter> RecompressFactory::CreateCompactionFilter(
    const rocksdb::CompactionFilter::Context&) {
  return std::make_unique<Recompress>(names_, dictionaries_, cipher_);
}

}  // namespace larder
