#include "indexer/hot_tier.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace larder {
namespace {

// What an entry costs beside its object: list and table nodes, the name.
constexpr size_t kEntryOverhead = 192;

// Sixteen, unless a shard's share would become too small to mean anything: a budget is per shard.
size_t ShardCount(const HotTierOptions& options) {
  constexpr size_t kMostShards = 16;
  constexpr size_t kLeastBytes = size_t{1} << 20;
  constexpr size_t kLeastObjects = 64;
  size_t count = std::min(kMostShards, options.max_bytes / kLeastBytes);
  if (options.max_objects != 0) count = std::min(count, options.max_objects / kLeastObjects);
  return std::bit_floor(std::max<size_t>(count, 1));
}

size_t EntryBytes(size_t name_bytes, const Object& object) {
  return object.ByteSize() + name_bytes + kEntryOverhead;
}

}  // namespace

HotTier::HotTier(const HotTierOptions& options)
    : options_(options),
      shard_count_(ShardCount(options)),
      shards_(std::make_unique<Shard[]>(shard_count_)) {}

HotTier::Name::Name(CollectionId in, std::string_view of_ns, std::string_view of_name)
    : collection(in), ns(of_ns), name(of_name) {
  hash = XXH3_64bits_withSeed(name.data(), name.size(),
                              XXH3_64bits_withSeed(ns.data(), ns.size(), collection));
}

HotTier::Entry::Entry(const Name& of, ObjectPtr held)
    : text(std::string(of.ns) + std::string(of.name)),
      name(of.collection, std::string_view(text).substr(0, of.ns.size()),
           std::string_view(text).substr(of.ns.size())),
      object(std::move(held)),
      bytes(EntryBytes(text.size(), *object)) {}

ObjectPtr HotTier::Get(CollectionId collection, const ObjectKey& key, uint64_t at_most) {
  const Name name(collection, key.ns, key.name);
  Shard& shard = ShardOf(name);
  MutexLock lock(shard.mutex);
  const auto it = shard.by_name.find(name);
  if (it == shard.by_name.end() || it->second->sequence > at_most) {
    ++shard.misses;
    return nullptr;
  }
  Entry& entry = *it->second;
  if (options_.ttl.count() != 0 && options_.clock->Now() >= entry.expires) {
    Erase(shard, it->second);
    ++shard.expired;
    ++shard.misses;
    return nullptr;
  }
  entry.used = true;
  ++shard.hits;
  return entry.object;
}

HotTier::Ticket HotTier::BeginFill(CollectionId collection, const ObjectKey& key) const {
  const Shard& shard = ShardOf(Name(collection, key.ns, key.name));
  MutexLock lock(shard.mutex);
  return {shard.epoch, sequence()};
}

void HotTier::Fill(CollectionId collection, ObjectPtr object, const Ticket& ticket) {
  const Name name(collection, object->ns(), object->name());
  Shard& shard = ShardOf(name);
  MutexLock lock(shard.mutex);
  if (shard.epoch != ticket.shard_epoch || shard.commits != 0) return;
  if (shard.by_name.count(name) != 0) return;
  Insert(shard, name, std::move(object), ticket.sequence);
}

void HotTier::BeginCommit(CollectionId collection, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const Name name(collection, change.key.ns, change.key.name);
    Shard& shard = ShardOf(name);
    MutexLock lock(shard.mutex);
    ++shard.epoch;
    ++shard.commits;
    const auto it = shard.by_name.find(name);
    if (it != shard.by_name.end()) Erase(shard, it->second);
  }
}

void HotTier::EndCommit(CollectionId collection, const std::vector<Change>& changes,
                        bool committed) {
  // Entries carry a number that no snapshot taken before this commit has. Snapshots taken from now
  // on read the raised one; until an entry is in, the store answers.
  const uint64_t sequence = sequence_.fetch_add(1, std::memory_order_acq_rel) + 1;
  for (const Change& change : changes) {
    const Name name(collection, change.key.ns, change.key.name);
    Shard& shard = ShardOf(name);
    MutexLock lock(shard.mutex);
    // Whoever read the store during the commit may have read the version before it.
    ++shard.epoch;
    --shard.commits;
    if (!committed || !change.object) continue;
    if (change.if_room &&
        Full(shard, EntryBytes(name.ns.size() + name.name.size(), *change.object), 1))
      continue;
    Insert(shard, name, change.object, sequence);
  }
}

void HotTier::DropCollection(CollectionId collection) {
  for (size_t i = 0; i < shard_count_; ++i) {
    Shard& shard = shards_[i];
    MutexLock lock(shard.mutex);
    ++shard.epoch;
    for (auto it = shard.entries.begin(); it != shard.entries.end();) {
      const auto next = std::next(it);
      if (it->name.collection == collection) Erase(shard, it);
      it = next;
    }
  }
}

void HotTier::Insert(Shard& shard, const Name& name, ObjectPtr object, uint64_t sequence) {
  const auto existing = shard.by_name.find(name);
  if (existing != shard.by_name.end()) Erase(shard, existing->second);
  if (options_.ttl.count() != 0) DropExpired(shard);
  const size_t bytes = EntryBytes(name.ns.size() + name.name.size(), *object);
  if (bytes > options_.max_bytes / shard_count_) return;  // more than all the room there is
  MakeRoom(shard, bytes);
  // Behind the hand: the last place it will come to.
  const auto entry = shard.entries.emplace(shard.hand, name, std::move(object));
  entry->sequence = sequence;
  if (options_.ttl.count() != 0) entry->expires = options_.clock->Now() + options_.ttl;
  shard.by_name.emplace(entry->name, entry);
  shard.bytes += entry->bytes;
}

void HotTier::Erase(Shard& shard, Entries::iterator entry) {
  if (shard.hand == entry) ++shard.hand;
  shard.by_name.erase(entry->name);
  shard.bytes -= entry->bytes;
  shard.entries.erase(entry);
}

// What nobody asks for would otherwise outlive its time: each insertion looks at the oldest two.
void HotTier::DropExpired(Shard& shard) {
  const Clock::Steady now = options_.clock->Now();
  for (int i = 0; i < 2 && !shard.entries.empty(); ++i) {
    const auto oldest = shard.hand == shard.entries.end() ? shard.entries.begin() : shard.hand;
    if (now < oldest->expires) return;
    Erase(shard, oldest);
    ++shard.expired;
  }
}

bool HotTier::Full(const Shard& shard, size_t bytes, size_t objects) const {
  return shard.bytes + bytes > options_.max_bytes / shard_count_ ||
         (options_.max_objects != 0 &&
          shard.entries.size() + objects > options_.max_objects / shard_count_);
}

// For one more: before it is here, so that it is not the one to go.
void HotTier::MakeRoom(Shard& shard, size_t bytes) {
  while (!shard.entries.empty() && Full(shard, bytes, 1)) {
    if (shard.hand == shard.entries.end()) shard.hand = shard.entries.begin();
    if (std::exchange(shard.hand->used, false)) {
      ++shard.hand;
      continue;
    }
    const auto victim = shard.hand++;
    Erase(shard, victim);
    ++shard.evictions;
  }
}

HotTier::Stats HotTier::GetStats() const {
  Stats stats;
  for (size_t i = 0; i < shard_count_; ++i) {
    const Shard& shard = shards_[i];
    MutexLock lock(shard.mutex);
    stats.hits += shard.hits;
    stats.misses += shard.misses;
    stats.evictions += shard.evictions;
    stats.expired += shard.expired;
    stats.bytes += shard.bytes;
    stats.objects += shard.entries.size();
  }
  return stats;
}

}  // namespace larder
