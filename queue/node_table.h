// Finds the nodes of a work queue by item, and owns them.
//
// Made for a queue of a million items as much as for one of ten: looking for an item that is not
// there touches one cache line, adding and finishing an item allocate nothing once the queue has
// been as long before, and a queue that has become empty gives the memory of its long days back.
//
// Not thread-safe: QueueState owns it, under the queue's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "queue/large_block.h"
#include "queue/queue_node.h"

namespace larder::internal {

inline uint32_t HashItem(std::string_view item) {
  const size_t hash = std::hash<std::string_view>()(item);
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

// Where a node is: 32 bits in place of a pointer make the table half as large. 0: nowhere.
using NodeRef = uint32_t;

// Memory for nodes: cut from large chunks one behind the other, so that items that were added in a
// row lie in a row, and reused by size. At most 32 GiB.
class NodePool {
 public:
  NodeRef Make(std::string_view item, uint32_t hash);
  void Free(NodeRef ref);
  QueueNode* At(NodeRef ref) const { return static_cast<QueueNode*>(Address(ref)); }
  // Gives the chunks back. REQUIRES: no node is in use.
  void Clear();

 private:
  static constexpr size_t kStep = 8;                         // what a reference counts in
  static constexpr size_t kMaxExact = 512;                   // sizes up to here are a class each
  static constexpr size_t kClasses = kMaxExact / kStep + 9;  // then 1 KiB, 2 KiB, ... 128 KiB
  static constexpr size_t kFirstChunk = 16384;               // chunks double from here
  static constexpr size_t kLastChunk = 2 << 20;
  static constexpr int kChunkBits = 18;  // of a reference, for the place in its chunk
  static_assert(kLastChunk / kStep == 1 << kChunkBits);

  struct FreeNode {
    NodeRef next;
  };
  struct SizeClass {
    size_t index;
    size_t bytes;
  };

  static SizeClass ClassOf(size_t bytes);
  void* Address(NodeRef ref) const {
    auto* chunk = static_cast<std::byte*>(chunks_[ref >> kChunkBits].data());
    return chunk + (ref & ((1 << kChunkBits) - 1)) * kStep;
  }
  NodeRef Allocate(size_t bytes);
  void AddChunk(size_t at_least);

  std::array<NodeRef, kClasses> free_{};
  std::vector<LargeBlock> chunks_;
  size_t next_chunk_ = kFirstChunk;
  size_t cut_ = 0;  // where the last chunk is free
  size_t end_ = 0;
};

// Open addressing with linear probing; an entry carries the hash, so that a node is looked at only
// when it is most likely the one.
class NodeTable {
 public:
  NodeTable() { Reset(kMinSlots); }
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;

  // nullptr: not there.
  QueueNode* Find(std::string_view item, uint32_t hash) const;
  // REQUIRES: not there yet.
  QueueNode* Insert(std::string_view item, uint32_t hash);
  void Erase(QueueNode* node);
  size_t size() const { return size_; }

  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (size_t i = 0; i <= mask_; ++i) {
      if (slots_[i].node != 0) visit(*pool_.At(slots_[i].node));
    }
  }

 private:
  static constexpr size_t kMinSlots = 64;
  static constexpr size_t kKeptSlots = 4096;  // kept when the table becomes empty

  // All zero: free.
  struct Slot {
    NodeRef node;
    uint32_t hash;
  };

  void Reset(size_t slots);
  void Place(const Slot& entry);
  void Grow();

  LargeBlock memory_;
  Slot* slots_ = nullptr;
  size_t mask_ = 0;  // their number, a power of two, less one; at most three quarters are taken
  size_t size_ = 0;
  NodePool pool_;
};

}  // namespace larder::internal
