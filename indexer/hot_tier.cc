#include "indexer/hot_tier.h"

#include <functional>

namespace larder {
namespace {

// What an entry costs beside its object: list and table nodes, the name.
constexpr size_t kEntryOverhead = 160;

}  // namespace

size_t HotTier::NameHash::operator()(std::string_view name) const {
  return std::hash<std::string_view>()(name);
}

HotTier::HotTier(const HotTierOptions& options) : options_(options) {}

void HotTier::AppendName(std::string& name, CollectionId collection, const ObjectKey& key) {
  name.append(reinterpret_cast<const char*>(&collection), sizeof collection);
  name += key.ns;
  name += '/';
  name += key.name;
}

std::string HotTier::NameOf(CollectionId collection, const ObjectKey& key) {
  std::string name;
  name.reserve(sizeof collection + key.ns.size() + 1 + key.name.size());
  AppendName(name, collection, key);
  return name;
}

HotTier::Shard& HotTier::ShardOf(std::string_view name) const {
  // The table uses the low bits; take others.
  return shards_[(NameHash()(name) >> 57) % kShards];
}

ObjectPtr HotTier::Get(CollectionId collection, const ObjectKey& key, uint64_t at_most) {
  // Kept per thread: the hot path allocates nothing.
  thread_local std::string name;
  name.clear();
  AppendName(name, collection, key);
  Shard& shard = ShardOf(name);
  {
    std::shared_lock lock(shard.mutex);
    const auto it = shard.by_name.find(std::string_view(name));
    if (it != shard.by_name.end() && it->second->sequence <= at_most) {
      Entry& entry = *it->second;
      if (options_.ttl.count() == 0 || options_.clock->Now() < entry.expires) {
        if (!entry.used.load(std::memory_order_relaxed)) {
          entry.used.store(true, std::memory_order_relaxed);
        }
        shard.hits.fetch_add(1, std::memory_order_relaxed);
        return entry.object;
      }
    } else {
      shard.misses.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
  }
  std::lock_guard lock(shard.mutex);
  const auto it = shard.by_name.find(std::string_view(name));
  if (it != shard.by_name.end() && options_.clock->Now() >= it->second->expires) {
    Erase(shard, it->second);
    ++shard.expired;
  }
  shard.misses.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

HotTier::Ticket HotTier::BeginFill(CollectionId collection, const ObjectKey& key) const {
  const std::string name = NameOf(collection, key);
  Shard& shard = ShardOf(name);
  std::shared_lock lock(shard.mutex);
  return {shard.epoch, sequence()};
}

void HotTier::Fill(CollectionId collection, ObjectPtr object, const Ticket& ticket) {
  std::string name = NameOf(collection, object->key());
  Shard& shard = ShardOf(name);
  std::lock_guard lock(shard.mutex);
  if (shard.epoch != ticket.shard_epoch || shard.pending.count(name) != 0) return;
  if (shard.by_name.count(std::string_view(name)) != 0) return;
  Insert(shard, std::move(name), std::move(object), ticket.sequence);
}

void HotTier::BeginCommit(CollectionId collection, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    std::string name = NameOf(collection, change.key);
    Shard& shard = ShardOf(name);
    std::lock_guard lock(shard.mutex);
    ++shard.epoch;
    const auto it = shard.by_name.find(std::string_view(name));
    if (it != shard.by_name.end()) Erase(shard, it->second);
    shard.pending.insert(std::move(name));
  }
}

void HotTier::EndCommit(CollectionId collection, const std::vector<Change>& changes,
                        bool committed) {
  // Entries carry a number that no snapshot taken before this commit has. Snapshots taken from now
  // on read the raised one; until an entry is in, its key is pending and the store answers.
  const uint64_t sequence = sequence_.fetch_add(1, std::memory_order_acq_rel) + 1;
  for (const Change& change : changes) {
    std::string name = NameOf(collection, change.key);
    Shard& shard = ShardOf(name);
    std::lock_guard lock(shard.mutex);
    shard.pending.erase(name);
    if (committed && change.object) Insert(shard, std::move(name), change.object, sequence);
  }
}

void HotTier::DropCollection(CollectionId collection) {
  for (Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);
    ++shard.epoch;
    for (auto it = shard.entries.begin(); it != shard.entries.end();) {
      const auto next = std::next(it);
      if (it->name.compare(0, sizeof collection, reinterpret_cast<const char*>(&collection),
                           sizeof collection) == 0) {
        Erase(shard, it);
      }
      it = next;
    }
  }
}

void HotTier::Insert(Shard& shard, std::string name, ObjectPtr object, uint64_t sequence) {
  const auto existing = shard.by_name.find(std::string_view(name));
  if (existing != shard.by_name.end()) Erase(shard, existing->second);
  const size_t bytes = object->ByteSize() + name.size() + kEntryOverhead;
  // Behind the hand: the last place it will come to.
  const auto entry = shard.entries.emplace(shard.hand);
  entry->name = std::move(name);
  entry->object = std::move(object);
  entry->sequence = sequence;
  entry->bytes = bytes;
  entry->used.store(false, std::memory_order_relaxed);
  if (options_.ttl.count() != 0) entry->expires = options_.clock->Now() + options_.ttl;
  shard.by_name.emplace(std::string_view(entry->name), entry);
  shard.bytes += bytes;
  Shrink(shard);
}

void HotTier::Erase(Shard& shard, Entries::iterator entry) {
  if (shard.hand == entry) ++shard.hand;
  shard.by_name.erase(std::string_view(entry->name));
  shard.bytes -= entry->bytes;
  shard.entries.erase(entry);
}

void HotTier::Shrink(Shard& shard) {
  const auto too_much = [&] {
    return shard.bytes > options_.max_bytes / kShards ||
           (options_.max_objects != 0 &&
            shard.entries.size() > std::max<size_t>(1, options_.max_objects / kShards));
  };
  while (!shard.entries.empty() && too_much()) {
    if (shard.hand == shard.entries.end()) shard.hand = shard.entries.begin();
    if (shard.hand->used.exchange(false, std::memory_order_relaxed)) {
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
  for (const Shard& shard : shards_) {
    std::shared_lock lock(shard.mutex);
    stats.hits += shard.hits.load(std::memory_order_relaxed);
    stats.misses += shard.misses.load(std::memory_order_relaxed);
    stats.evictions += shard.evictions;
    stats.expired += shard.expired;
    stats.bytes += shard.bytes;
    stats.objects += shard.entries.size();
  }
  return stats;
}

}  // namespace larder
