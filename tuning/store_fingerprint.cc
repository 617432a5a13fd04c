#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include "tuning/source.h"

namespace larder::tuning {

Result<std::string> FingerprintOf(const Store& store) {
  uint64_t hash = 0;
  const auto add = [&](std::string_view text) {
    hash = XXH3_64bits_withSeed(text.data(), text.size(), hash);
  };
  LARDER_ASSIGN_OR_RETURN(const auto collections, store.Collections());
  for (const CollectionInfo& info : collections) {
    add(info.spec.Fingerprint());
    LARDER_RETURN_IF_ERROR(
        store.ScanHeads(info.id, {}, [&](const ObjectKey& key, const ObjectHead& head) {
          add(key.ToString());
          add(head.uid);
          add(head.resource_version);
          return true;
        }));
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace larder::tuning
