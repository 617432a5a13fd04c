// Decoded objects in memory, above the store: recently used ones stay, the rest is one read away on
// disk.
//
// It only ever forgets: eviction (byte budget, object limit) and TTL drop an object to disk, never
// lose it. It never serves what the store does not hold:
//  1. An entry is the newest committed version of its key. A commit takes its keys out before it
//     writes (BeginCommit) and puts the new versions in after (EndCommit); a reader that was on its
//     way meanwhile, in either order, cannot put an older one back (Fill).
//  2. Every entry knows the commit it is from at the latest (`sequence`). A reader with a snapshot
//     takes it only when that is not newer than the snapshot; so an index read and the object read
//     beside it agree.
//
// Thread-safe, sharded; a hit holds its shard's lock for the look-up alone and moves nothing
// (eviction is CLOCK, an approximation of LRU). Between BeginRead and EndRead a hit takes neither a
// lock nor a count (Find); what is replaced, evicted or dropped meanwhile is kept until then, and
// counts as part of the budget: where it takes the room, nothing new is kept. So a reader that does
// not end costs speed, not memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "indexer/hot_readers.h"
#include "indexer/hot_table.h"
#include "schema/object.h"
#include "storage/collection.h"

namespace larder {

struct HotTierOptions {
  size_t max_bytes = size_t{24} << 20;
  size_t max_objects = 0;            // 0: only the bytes count
  std::chrono::milliseconds ttl{0};  // 0: no TTL
  Clock* clock = RealClock();
};

class HotTier {
 public:
  explicit HotTier(const HotTierOptions& options);

  // The newest version, or null: not here, not "not there". With `at_most`, only a version no newer
  // than that commit.
  ObjectPtr Get(CollectionId collection, const ObjectKey& key, uint64_t at_most = UINT64_MAX);
  // The same for a pass over everything, which says nothing of what will be asked for: it counts
  // neither as use of the object nor as a hit or a miss.
  ObjectPtr Peek(CollectionId collection, const ObjectKey& key, uint64_t at_most) const;

  // For reads without a lock. Every BeginRead needs its EndRead, with what it returned and the
  // number of hits.
  uint64_t BeginRead() { return readers_.Begin(); }
  void EndRead(uint64_t reader, uint64_t hits);
  // As Get; valid until EndRead. Null also where a change is under way nearby: Get knows better.
  const Object* Find(CollectionId collection, const ObjectKey& key) const;

  // What was not here and was read from the store. `sequence` is sequence() from before the read,
  // or from before its snapshot was taken: it is kept unless a commit touched the key's shard since
  // then, or is about to.
  void Fill(CollectionId collection, ObjectPtr object, uint64_t sequence);

  // A commit: BeginCommit, then the store's write, then EndCommit with what is now stored (null:
  // deleted) and whether the write succeeded. After a failed one the keys are simply not here any
  // more. Every BeginCommit needs its EndCommit, with the same changes.
  struct Change {
    ObjectKey key;
    ObjectPtr object;
    // Of a first list: nobody has asked for it, so it takes free room, but no other object's.
    bool if_room = false;
  };
  void BeginCommit(CollectionId collection, const std::vector<Change>& changes);
  void EndCommit(CollectionId collection, const std::vector<Change>& changes, bool committed);
  // The last commit that is visible: a snapshot's own number is taken before the snapshot is.
  uint64_t sequence() const { return sequence_.load(std::memory_order_acquire); }

  struct Stats {
    uint64_t hits = 0, misses = 0, evictions = 0, expired = 0;
    size_t bytes = 0, objects = 0;
    size_t kept_bytes = 0;  // for readers: a part of the bytes
    size_t readers = 0;
  };
  Stats GetStats() const;

 private:
  // Out of sight, but not of reach of those who read since before.
  struct Kept {
    uint64_t moment = 0;  // of HotReaders
    HotEntryPtr entry;
    std::unique_ptr<HotTable::Slots> slots;
    size_t bytes = 0;
  };

  struct alignas(64) Shard {
    mutable Mutex mutex;
    HotTable entries;                                 // changed under the mutex; Find needs none
    std::vector<Kept> kept LARDER_GUARDED_BY(mutex);  // by moment
    size_t kept_bytes LARDER_GUARDED_BY(mutex) = 0;
    size_t commits LARDER_GUARDED_BY(mutex) = 0;    // under way, and touching this shard
    uint64_t changed LARDER_GUARDED_BY(mutex) = 0;  // the last such commit that ended
    size_t bytes LARDER_GUARDED_BY(mutex) = 0;      // of the entries
    uint64_t hits LARDER_GUARDED_BY(mutex) = 0;
    uint64_t misses LARDER_GUARDED_BY(mutex) = 0;
    uint64_t evictions LARDER_GUARDED_BY(mutex) = 0;
    uint64_t expired LARDER_GUARDED_BY(mutex) = 0;
  };

  Shard& ShardOf(const HotName& name) const {
    return shards_[name.hash >> 32 & (shard_count_ - 1)];
  }
  bool Expired(const HotEntry& entry) const {
    return options_.ttl.count() != 0 && options_.clock->Now() >= entry.expires;
  }
  void Insert(Shard& shard, const HotName& name, ObjectPtr object, uint64_t sequence)
      LARDER_REQUIRES(shard.mutex);
  void Erase(Shard& shard, HotEntry* entry) LARDER_REQUIRES(shard.mutex);
  void DropExpired(Shard& shard) LARDER_REQUIRES(shard.mutex);
  // False: readers hold what would have to go.
  bool MakeRoom(Shard& shard, size_t bytes) LARDER_REQUIRES(shard.mutex);
  void Keep(Shard& shard, Kept kept) LARDER_REQUIRES(shard.mutex);
  void FreeKept(Shard& shard) LARDER_REQUIRES(shard.mutex);
  // Is there too much, with this much more?
  bool Full(const Shard& shard, size_t bytes, size_t objects) const LARDER_REQUIRES(shard.mutex);

  const HotTierOptions options_;
  const size_t shard_count_;  // a power of two
  HotReaders readers_;
  std::atomic<uint64_t> readers_hits_{0};
  std::atomic<size_t> kept_{0};  // in all shards: how many
  const std::unique_ptr<Shard[]> shards_;
  std::atomic<uint64_t> sequence_{0};
};

}  // namespace larder
