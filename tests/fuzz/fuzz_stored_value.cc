// A row's value as it may stand on a damaged disk, or as somebody forged it: reading it gives an
// object or an error, what is read can be written and read again, and holds no more than its size.
// The first byte says whether the checksum is made right, so that the code behind it is reached
// too, and whether there are a dictionary and a key; or that the row is made of its parts, so that
// what changes in one does not move the others.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "storage/value_codec.h"

namespace {

constexpr std::string_view kKey = "1/ns/name";

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

// With the right checksum where `whole` says so.
std::string AsItStands(std::string_view bytes, bool whole) {
  constexpr size_t kChecksumBytes = 4;
  std::string value(bytes);
  if (whole && value.size() >= kChecksumBytes) {
    const size_t covered = value.size() - kChecksumBytes;
    const uint64_t seed = XXH3_64bits(kKey.data(), kKey.size());
    const auto checksum = static_cast<uint32_t>(XXH3_64bits_withSeed(value.data(), covered, seed));
    std::memcpy(value.data() + covered, &checksum, kChecksumBytes);
  }
  return value;
}

// [document's size: 3 bytes][envelope's: 2][uid's: 1][version's: 1], then uid, version, envelope
// and body. A part that is not there is empty.
std::string OfParts(std::string_view bytes) {
  const auto take = [&](size_t size) {
    const std::string_view part = bytes.substr(0, size);
    bytes.remove_prefix(part.size());
    return part;
  };
  const auto number = [&](size_t size) {
    size_t value = 0;
    for (const char c : take(size)) value = value << 8 | static_cast<uint8_t>(c);
    return value;
  };
  larder::ObjectParts parts;
  parts.json_bytes = number(3);
  const size_t envelope_bytes = number(2), uid_bytes = number(1), version_bytes = number(1);
  parts.head.uid = take(uid_bytes);
  parts.head.resource_version = take(version_bytes);
  const std::string_view envelope = take(envelope_bytes);
  parts.envelope_bytes = envelope.size();
  parts.raw.append(envelope).append(bytes);
  return larder::EncodeValue(kKey, parts, {false, nullptr, nullptr}).value().value;
}

// Everything that somebody may ask an object for.
size_t Use(const larder::Object& object) {
  size_t bytes = object.api_version().size() + object.kind().size() + object.generate_name().size();
  bytes += object.key().ToString().size();
  for (const auto& [key, value] : object.Labels()) bytes += key.size() + value.size();
  for (const auto& [key, value] : object.Annotations()) bytes += key.size() + value.size();
  for (const auto& finalizer : object.Finalizers()) bytes += finalizer.size();
  for (const auto& owner : object.Owners()) bytes += owner.name.size() + owner.uid.size();
  return bytes + static_cast<size_t>(object.generation()) + object.ByteSize();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const OneDictionary dictionary;
  static const larder::Cipher cipher = *larder::Cipher::Make({std::string(32, 'k')});
  if (size == 0) return 0;
  const larder::DecodeOptions options =
      (data[0] & 2) != 0 ? larder::DecodeOptions{&dictionary, &cipher} : larder::DecodeOptions{};
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string value =
      (data[0] & 4) != 0 ? OfParts(bytes) : AsItStands(bytes, (data[0] & 1) != 0);
  (void)larder::DictionaryOf(value);
  const auto head = larder::DecodeHead(kKey, value, options.cipher);
  larder::ObjectParts parts;
  const bool taken = larder::DecodeParts(kKey, value, options, parts).has_value();
  const auto object = larder::DecodeValue(kKey, value, options);
  if (!object) return 0;
  LARDER_CHECK(taken && head.has_value());
  LARDER_CHECK((*object)->uid() == head->head.uid);
  LARDER_CHECK((*object)->resource_version() == head->head.resource_version);
  LARDER_CHECK((*object)->json().size() == head->json_bytes);
  Use(**object);
  larder::TakeApart(**object, parts);
  const auto again = larder::EncodeValue(kKey, parts, {});
  LARDER_CHECK(again.has_value());
  const auto read = larder::DecodeValue(kKey, again->value, {});
  LARDER_CHECK(read.has_value() && (*read)->json() == (*object)->json());
  LARDER_CHECK((*read)->envelope_bytes() == (*object)->envelope_bytes());
  return 0;
}
