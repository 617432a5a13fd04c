#include "informer/key_set.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string>
#include <utility>

namespace larder {

KeySet::Hash KeySet::HashOf(const ObjectKey& key) {
  thread_local std::string text;
  text.assign(key.ns);
  text += '/';
  text += key.name;
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.low64 | 1, hash.high64};
}

size_t KeySet::Place(const Hash& hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash[1] & mask;
  while (slots_[at] != Hash{} && slots_[at] != hash) at = (at + 1) & mask;
  return at;
}

bool KeySet::Insert(const ObjectKey& key) {
  if ((size_ + 1) * 4 > slots_.size() * 3) Grow();
  const Hash hash = HashOf(key);
  Hash& slot = slots_[Place(hash)];
  if (slot == hash) return false;
  slot = hash;
  ++size_;
  return true;
}

bool KeySet::Contains(const ObjectKey& key) const {
  if (slots_.empty()) return false;
  const Hash hash = HashOf(key);
  return slots_[Place(hash)] == hash;
}

void KeySet::Clear() {
  slots_ = {};
  size_ = 0;
}

void KeySet::Grow() {
  constexpr size_t kFirstSlots = 64;
  const size_t count = slots_.empty() ? kFirstSlots : slots_.size() * 2;
  for (const Hash& hash : std::exchange(slots_, std::vector<Hash>(count))) {
    if (hash != Hash{}) slots_[Place(hash)] = hash;
  }
}

}  // namespace larder
