// The keys that a list has named: 10 to 12 bytes a key, however long its name, and at no time more.
// It is the one thing in an informer that grows with the number of objects.
//
// Kept are 64 bits of a hash, and 6 more by where they stand, with a seed that is another one after
// every Clear. A key that was never inserted is taken for one that was with a chance of n in 10^21
// among n keys: of a relist of a million objects, 1 % of them gone, one in 10^11 keeps one that is
// gone, and only until the next relist, whose seed is another.
//
//   KeySet seen;
//   seen.Insert({"shop", "cart-1"});    // true: it was not there
//   seen.Contains({"shop", "cart-2"});  // false
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "schema/object.h"

namespace larder {

class KeySet {
 public:
  using Hash = std::array<uint64_t, 2>;  // the first is odd
  static Hash HashOf(const ObjectKey& key, uint64_t seed = 0);

  // False: it was there.
  bool Insert(const ObjectKey& key);
  bool Contains(const ObjectKey& key) const;
  size_t size() const { return size_; }
  // Gives the memory back.
  void Clear();
  // What it takes of the heap.
  size_t MemoryBytes() const;

 private:
  // An open table. Many small ones instead of one, so that only a small part is there twice while
  // it grows, and so that each can grow by little.
  struct Shard {
    std::vector<uint64_t> slots;  // zero: a free one; at most kMostFull of them taken
    size_t taken = 0;

    // Where it is, or where it would be put. REQUIRES: there are slots.
    size_t Place(uint64_t hash) const;
    void Grow();
  };
  static constexpr size_t kShards = 64;

  std::unique_ptr<std::array<Shard, kShards>> shards_;  // null while it is empty
  uint64_t seed_ = 0;
  size_t size_ = 0;
};

}  // namespace larder
