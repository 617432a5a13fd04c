#include "indexer/hot_tier.h"

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

// Of a shard's room, as much as may be evicted while readers keep it from being freed.
constexpr size_t kEvictAheadShare = 8;

// An eighth more, for the gaps that the allocator has between pieces that come and go: with 11,000
// small objects 8.0 MB counted without it were 9.1 MB of the process.
size_t EntryBytes(size_t name_bytes, const Object& object) {
  const size_t bytes = object.ByteSize() + name_bytes + kEntryOverhead;
  return bytes + bytes / 8;
}

// A line that many read is written only where that says something new.
void NoteUse(HotEntry& entry) {
  if (!entry.used.load(std::memory_order_relaxed)) {
    entry.used.store(true, std::memory_order_relaxed);
  }
}

}  // namespace

HotTier::HotTier(const HotTierOptions& options)
    : options_(options),
      shard_count_(ShardCount(options)),
      shards_(std::make_unique<Shard[]>(shard_count_)) {}

ObjectPtr HotTier::Get(CollectionId collection, const ObjectKey& key, uint64_t at_most) {
  const HotName name(collection, key.ns, key.name);
  Shard& shard = ShardOf(name);
  MutexLock lock(shard.mutex);
  HotEntry* entry = shard.entries.Find(name);
  if (entry == nullptr || entry->sequence > at_most) {
    ++shard.misses;
    return nullptr;
  }
  if (Expired(*entry)) {
    Erase(shard, entry);
    ++shard.expired;
    ++shard.misses;
    return nullptr;
  }
  NoteUse(*entry);
  ++shard.hits;
  return entry->object;
}

ObjectPtr HotTier::Peek(CollectionId collection, const ObjectKey& key, uint64_t at_most) const {
  const HotName name(collection, key.ns, key.name);
  const Shard& shard = ShardOf(name);
  MutexLock lock(shard.mutex);
  const HotEntry* entry = shard.entries.Find(name);
  if (entry == nullptr || entry->sequence > at_most || Expired(*entry)) return nullptr;
  return entry->object;
}

const Object* HotTier::Find(CollectionId collection, const ObjectKey& key) const {
  const HotName name(collection, key.ns, key.name);
  HotEntry* entry = ShardOf(name).entries.Find(name);
  if (entry == nullptr || Expired(*entry)) return nullptr;
  NoteUse(*entry);
  return entry->object.get();
}

void HotTier::EndRead(uint64_t reader, uint64_t hits) {
  readers_.End(reader);
  readers_hits_.fetch_add(hits, std::memory_order_relaxed);
  if (kept_.load() == 0) return;
  for (size_t i = 0; i < shard_count_; ++i) {
    MutexLock lock(shards_[i].mutex);
    FreeKept(shards_[i]);
  }
}

void HotTier::Fill(CollectionId collection, ObjectPtr object, uint64_t sequence) {
  const HotName name(collection, object->ns(), object->name());
  Shard& shard = ShardOf(name);
  MutexLock lock(shard.mutex);
  if (shard.changed > sequence || shard.commits != 0) return;
  if (shard.entries.Find(name) != nullptr) return;
  Insert(shard, name, std::move(object), sequence);
}

void HotTier::BeginCommit(CollectionId collection, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const HotName name(collection, change.key.ns, change.key.name);
    Shard& shard = ShardOf(name);
    MutexLock lock(shard.mutex);
    ++shard.commits;
    if (HotEntry* entry = shard.entries.Find(name)) Erase(shard, entry);
  }
}

void HotTier::EndCommit(CollectionId collection, const std::vector<Change>& changes,
                        bool committed) {
  // Entries carry a number that no snapshot taken before this commit has. Snapshots taken from now
  // on read the raised one; until an entry is in, the store answers.
  const uint64_t sequence = sequence_.fetch_add(1, std::memory_order_acq_rel) + 1;
  for (const Change& change : changes) {
    const HotName name(collection, change.key.ns, change.key.name);
    Shard& shard = ShardOf(name);
    MutexLock lock(shard.mutex);
    // Whoever read the store during the commit may have read the version before it. Commits of
    // other collections may end in another order than they were numbered in.
    shard.changed = std::max(shard.changed, sequence);
    --shard.commits;
    if (!committed || !change.object) continue;
    if (change.if_room &&
        Full(shard, EntryBytes(name.ns.size() + name.name.size(), *change.object), 1))
      continue;
    Insert(shard, name, change.object, sequence);
  }
}

void HotTier::Insert(Shard& shard, const HotName& name, ObjectPtr object, uint64_t sequence) {
  if (HotEntry* existing = shard.entries.Find(name)) Erase(shard, existing);
  if (options_.ttl.count() != 0) DropExpired(shard);
  const size_t bytes = EntryBytes(name.ns.size() + name.name.size(), *object);
  if (bytes > options_.max_bytes / shard_count_) return;  // more than all the room there is
  if (!MakeRoom(shard, bytes)) return;
  HotValue value{.bytes = bytes, .object = std::move(object), .sequence = sequence};
  if (options_.ttl.count() != 0) value.expires = options_.clock->Now() + options_.ttl;
  shard.entries.Insert(name, std::move(value));
  shard.bytes += bytes;
  if (auto outgrown = shard.entries.TakeOutgrown()) {
    const size_t slot_bytes = outgrown->ByteSize();
    Keep(shard, {0, nullptr, std::move(outgrown), slot_bytes});
  }
}

void HotTier::Erase(Shard& shard, HotEntry* entry) {
  const size_t bytes = entry->bytes;
  shard.bytes -= bytes;
  Keep(shard, {0, shard.entries.Erase(entry), nullptr, bytes});
}

// Frees it, where nobody can have found it.
void HotTier::Keep(Shard& shard, Kept kept) {
  kept.moment = readers_.Now();
  if (kept.moment == 0) return;
  shard.kept_bytes += kept.bytes;
  shard.kept.push_back(std::move(kept));
  kept_.fetch_add(1);
  // They may have ended before they could see that something is kept.
  FreeKept(shard);
}

void HotTier::FreeKept(Shard& shard) {
  size_t over = 0;
  while (over < shard.kept.size() && readers_.IsOver(shard.kept[over].moment)) {
    shard.kept_bytes -= shard.kept[over++].bytes;
  }
  if (over == 0) return;
  shard.kept.erase(shard.kept.begin(), shard.kept.begin() + static_cast<ptrdiff_t>(over));
  kept_.fetch_sub(over);
}

// What nobody asks for would otherwise outlive its time: each insertion looks at the oldest two.
void HotTier::DropExpired(Shard& shard) {
  const Clock::Steady now = options_.clock->Now();
  for (int i = 0; i < 2 && shard.entries.size() != 0; ++i) {
    HotEntry* oldest = shard.entries.hand();
    if (now < oldest->expires) return;
    Erase(shard, oldest);
    ++shard.expired;
  }
}

bool HotTier::Full(const Shard& shard, size_t bytes, size_t objects) const {
  return shard.bytes + shard.kept_bytes + bytes > options_.max_bytes / shard_count_ ||
         (options_.max_objects != 0 &&
          shard.entries.size() + objects > options_.max_objects / shard_count_);
}

// For one more: before it is here, so that it is not the one to go. Where readers keep what is
// evicted, the room is there only when they have ended: not for this one, but for those after it.
bool HotTier::MakeRoom(Shard& shard, size_t bytes) {
  const size_t most_kept = options_.max_bytes / shard_count_ / kEvictAheadShare;
  size_t evicted = 0;
  while (Full(shard, bytes, 1)) {
    if (shard.entries.size() == 0) return false;
    if (shard.kept_bytes > 0 && (evicted >= bytes || shard.kept_bytes >= most_kept)) return false;
    HotEntry* entry = shard.entries.hand();
    if (entry->used.exchange(false, std::memory_order_relaxed)) {
      shard.entries.MoveHand();
      continue;
    }
    evicted += entry->bytes;
    Erase(shard, entry);
    ++shard.evictions;
  }
  return true;
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
    stats.bytes += shard.bytes + shard.kept_bytes;
    stats.kept_bytes += shard.kept_bytes;
    stats.objects += shard.entries.size();
  }
  stats.hits += readers_hits_.load(std::memory_order_relaxed);
  stats.readers = readers_.size();
  return stats;
}

}  // namespace larder
