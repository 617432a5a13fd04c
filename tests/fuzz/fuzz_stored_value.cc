// A row's value as it may stand on a damaged disk: reading it gives an object or an error, and what
// is read can be written and read again. The first byte says whether the checksum is made right, so
// that the code behind it is reached too.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "storage/value_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kKey = "1/ns/name";
  constexpr size_t kChecksumBytes = 4;
  if (size == 0) return 0;
  std::string value(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((data[0] & 1) != 0 && value.size() >= kChecksumBytes) {
    const size_t covered = value.size() - kChecksumBytes;
    const uint64_t seed = XXH3_64bits(kKey.data(), kKey.size());
    const auto checksum = static_cast<uint32_t>(XXH3_64bits_withSeed(value.data(), covered, seed));
    std::memcpy(value.data() + covered, &checksum, kChecksumBytes);
  }
  (void)larder::DictionaryOf(value);
  (void)larder::DecodeHead(kKey, value, nullptr);
  larder::ObjectParts parts;
  const bool taken = larder::DecodeParts(kKey, value, {}, parts).has_value();
  const auto object = larder::DecodeValue(kKey, value, {});
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
