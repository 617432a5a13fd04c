#include "informer/key_set.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

namespace larder {
namespace {

// Of a hundred slots. Fuller, and a search would pass many others.
constexpr size_t kMostFull = 85;
// By how much a shard grows, in percent: 1.25 times as much at 85 % is 68 % full afterwards.
constexpr size_t kGrowth = 125;
constexpr size_t kFirstSlots = 16;

uint64_t AnySeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

KeySet::Hash KeySet::HashOf(const ObjectKey& key, uint64_t seed) {
  thread_local std::string text;
  text.assign(key.ns);
  text += '/';
  text += key.name;
  const XXH128_hash_t hash = XXH3_128bits_withSeed(text.data(), text.size(), seed);
  return {hash.low64 | 1, hash.high64};
}

size_t KeySet::Shard::Place(uint64_t hash) const {
  // The highest bits choose, so that any number of slots will do.
  __extension__ using Wide = unsigned __int128;
  auto at = static_cast<size_t>((Wide{hash} * slots.size()) >> 64);
  while (slots[at] != 0 && slots[at] != hash) {
    if (++at == slots.size()) at = 0;
  }
  return at;
}

void KeySet::Shard::Grow() {
  const size_t count = slots.empty() ? kFirstSlots : slots.size() * kGrowth / 100;
  for (const uint64_t hash : std::exchange(slots, std::vector<uint64_t>(count))) {
    if (hash != 0) slots[Place(hash)] = hash;
  }
}

bool KeySet::Insert(const ObjectKey& key) {
  if (!shards_) {
    shards_ = std::make_unique<std::array<Shard, kShards>>();
    seed_ = AnySeed();
  }
  const Hash hash = HashOf(key, seed_);
  Shard& shard = (*shards_)[hash[1] % kShards];
  if ((shard.taken + 1) * 100 > shard.slots.size() * kMostFull) shard.Grow();
  uint64_t& slot = shard.slots[shard.Place(hash[0])];
  if (slot == hash[0]) return false;
  slot = hash[0];
  ++shard.taken;
  ++size_;
  return true;
}

bool KeySet::Contains(const ObjectKey& key) const {
  if (!shards_) return false;
  const Hash hash = HashOf(key, seed_);
  const Shard& shard = (*shards_)[hash[1] % kShards];
  return !shard.slots.empty() && shard.slots[shard.Place(hash[0])] == hash[0];
}

void KeySet::Clear() {
  shards_.reset();
  size_ = 0;
}

size_t KeySet::MemoryBytes() const {
  if (!shards_) return 0;
  size_t bytes = sizeof(*shards_);
  for (const Shard& shard : *shards_) bytes += shard.slots.capacity() * sizeof(uint64_t);
  return bytes;
}

}  // namespace larder
