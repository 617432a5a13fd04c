#include "storage/collection.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <initializer_list>

namespace larder {

std::string CollectionSpec::Fingerprint() const {
  // Each part with its length in front, so that no two different specs read the same.
  std::string text;
  for (const std::string& part : std::initializer_list<std::string>{
           cluster_uid, resource.group, resource.version, resource.resource, ns, label_selector,
           field_selector, projection, transform, shard}) {
    text += std::to_string(part.size()) + ":" + part + ";";
  }
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string CollectionSpec::ToString() const {
  std::string out = resource.ToString();
  if (!ns.empty()) out += " in " + ns;
  for (const std::string* part :
       {&label_selector, &field_selector, &projection, &transform, &shard}) {
    if (!part->empty()) out += ", " + *part;
  }
  return out;
}

}  // namespace larder
