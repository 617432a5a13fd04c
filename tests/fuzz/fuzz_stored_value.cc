// A row's value as it may stand on a damaged disk: reading it gives an object or an error, and what
// is read can be written and read again. The first byte says whether the checksum is made right, so
// that the code behind it is reached too, and whether there are a dictionary and a key.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "storage/value_codec.h"

namespace {

// Number 7, a piece of a pod: zstd takes any text for one.
class OneDictionary final : public larder::DictionarySource {
 public:
  larder::DictionaryPtr Find(larder::DictionaryId id) const override {
    return id == dictionary_->id() ? dictionary_ : nullptr;
  }

 private:
  const larder::DictionaryPtr dictionary_ = std::make_shared<const larder::Dictionary>(
      7, 0,
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"ownerReferences":[{)"
      R"("controller":true}]},"spec":{"containers":[{"name":"main","image":"nginx"}],"nodeName":)"
      R"("node-1"},"status":{"phase":"Running","podIP":"10.0.0.1"}})");
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kKey = "1/ns/name";
  constexpr size_t kChecksumBytes = 4;
  static const OneDictionary dictionary;
  static const larder::Cipher cipher = *larder::Cipher::Make({std::string(32, 'k')});
  if (size == 0) return 0;
  const larder::DecodeOptions options =
      (data[0] & 2) != 0 ? larder::DecodeOptions{&dictionary, &cipher} : larder::DecodeOptions{};
  std::string value(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((data[0] & 1) != 0 && value.size() >= kChecksumBytes) {
    const size_t covered = value.size() - kChecksumBytes;
    const uint64_t seed = XXH3_64bits(kKey.data(), kKey.size());
    const auto checksum = static_cast<uint32_t>(XXH3_64bits_withSeed(value.data(), covered, seed));
    std::memcpy(value.data() + covered, &checksum, kChecksumBytes);
  }
  (void)larder::DictionaryOf(value);
  (void)larder::DecodeHead(kKey, value, options.cipher);
  larder::ObjectParts parts;
  const bool taken = larder::DecodeParts(kKey, value, options, parts).has_value();
  const auto object = larder::DecodeValue(kKey, value, options);
  if (object) {
    LARDER_CHECK(taken);
    larder::TakeApart(**object, parts);
    const auto again = larder::EncodeValue(kKey, parts, {});
    LARDER_CHECK(again.has_value());
    const auto read = larder::DecodeValue(kKey, again->value, {});
    LARDER_CHECK(read.has_value() && (*read)->json() == (*object)->json());
  }
  return 0;
}
