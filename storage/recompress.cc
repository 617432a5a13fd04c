#include "storage/recompress.h"

#include <charconv>

namespace larder {
namespace {

// One filter serves one compaction on one thread.
class Recompress final : public rocksdb::CompactionFilter {
 public:
  explicit Recompress(const RowPolicy* policy)
      : policy_(policy), decode_(policy->decode_options()) {}

  const char* Name() const override { return "larder.recompress"; }

  Decision FilterV2(int, const rocksdb::Slice& key, ValueType type, const rocksdb::Slice& existing,
                    std::string* new_value, std::string*) const override {
    if (type != ValueType::kValue) return Decision::kKeep;
    const std::string_view row_key(key.data(), key.size());
    const std::string_view value(existing.data(), existing.size());
    const auto head = DecodeHead(row_key, value, decode_.cipher);
    if (!head || !FindEncoding(row_key)) return Decision::kKeep;
    const EncodeOptions& encode = head->encrypted ? sealed_ : encode_;
    if (IsAsNew(*head, encode)) return Decision::kKeep;
    if (!DecodeParts(row_key, value, decode_, parts_)) return Decision::kKeep;
    auto encoded = EncodeValue(row_key, parts_, encode);
    if (!encoded) return Decision::kKeep;
    *new_value = std::move(encoded->value);
    return Decision::kChangeValue;
  }

 private:
  static bool IsAsNew(const ValueHead& head, const EncodeOptions& encode) {
    const DictionaryId current = encode.dictionary ? encode.dictionary->id() : 0;
    return head.compressed == encode.compress && head.dictionary == current && head.current_key &&
           head.encrypted == (encode.cipher != nullptr);
  }

  // Keys come in order, so the collection rarely changes: look its encoding up only then.
  bool FindEncoding(std::string_view row_key) const {
    CollectionId collection = 0;
    std::from_chars(row_key.data(), row_key.data() + row_key.size(), collection);
    if (collection != collection_) {
      collection_ = collection;
      known_ = policy_->EncodingOf(collection, encode_);
      sealed_ = encode_;
      sealed_.cipher = decode_.cipher;
      sealed_.dictionary = nullptr;
    }
    return known_;
  }

  const RowPolicy* policy_;
  const DecodeOptions decode_;
  mutable CollectionId collection_ = 0;
  mutable bool known_ = false;
  mutable EncodeOptions encode_;
  // Of a row that is encrypted: it stays so, also where the collection says otherwise. Who wrote
  // it may have known more than who compacts.
  mutable EncodeOptions sealed_;
  mutable ObjectParts parts_;
};

}  // namespace

std::unique_ptr<rocksdb::CompactionFilter> RecompressFactory::CreateCompactionFilter(
    const rocksdb::CompactionFilter::Context&) {
  return std::make_unique<Recompress>(policy_);
}

}  // namespace larder
