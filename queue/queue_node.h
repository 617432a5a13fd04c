// One item of a work queue and three of the structures that hold it: the ready lists by priority,
// the heap of delayed ones, and the list of those whose state is not on disk yet. The fourth, which
// finds and owns it, is NodeTable (queue/node_table.h).
//
// Everything about an item is in one node, with the item's bytes behind it; the structures are
// intrusive. A million pending items of 28 bytes cost 100 bytes each and 16 bytes of table.
//
// Not thread-safe: QueueState owns them, under the queue's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "queue/queue_item_info.h"

namespace larder::internal {

// Nanoseconds on the steady clock.
using Nanos = int64_t;
using Phase = PendingPhase;

// For ever where that is later than 64 bits can say.
inline Nanos After(Nanos now, Nanos delay) {
  constexpr Nanos kForever = std::numeric_limits<Nanos>::max();
  return now > 0 && delay > kForever - now ? kForever : now + delay;
}

struct QueueNode {
  QueueNode* next = nullptr;  // neighbours in a ready list or in the list of those in process
  QueueNode* prev = nullptr;
  uint64_t stored = 0;  // the generation on disk that stands for the pending work; 0: none
  uint64_t taken = 0;   // the generation on disk that stands for the run in process; 0: none
  Nanos when = 0;       // ready: since when, 0 where nobody measures; delayed or parked: due
  Nanos started = 0;    // when the run in process began
  uint32_t hash = 0;
  uint32_t failures = 0;
  int32_t priority = 0;
  uint32_t heap_slot = 0;
  uint32_t dirty_slot = 0;
  uint16_t size = 0;
  Phase phase = Phase::kIdle;
  bool processing : 1 = false;
  bool dirty : 1 = false;   // in the dirty list
  bool synced : 1 = false;  // `stored` was written with a sync

  std::string_view item() const { return {reinterpret_cast<const char*>(this + 1), size}; }
};

// First in, first out.
class NodeList {
 public:
  bool empty() const { return head_ == nullptr; }
  QueueNode* front() const { return head_; }
  void PushBack(QueueNode* node);
  void Remove(QueueNode* node);

 private:
  QueueNode* head_ = nullptr;
  QueueNode* tail_ = nullptr;
};

// A list for each priority; the highest first.
class ReadyLists {
 public:
  size_t size() const { return size_; }
  void PushBack(QueueNode* node);
  void Remove(QueueNode* node);
  // nullptr: empty.
  QueueNode* PopFront();

 private:
  // Empty lists are kept while they are few: a queue that goes from one item to none and back does
  // not allocate.
  static constexpr size_t kKeptLists = 16;
  using Lists = std::map<int32_t, NodeList, std::greater<>>;

  Lists::iterator Find(int32_t priority);
  void DropIfEmpty(Lists::iterator list);

  Lists lists_;
  Lists::iterator last_ =
      lists_.end();  // where the last one was found: most queues use one priority
  size_t size_ = 0;
};

// Delayed nodes, the earliest first; equal times in the order in which they came.
class DelayHeap {
 public:
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  // REQUIRES: not empty.
  Nanos NextDue() const { return heap_.front().due; }
  QueueNode* front() const { return heap_.front().node; }
  // Orders by node->when, which must not change while the node is in the heap.
  void Push(QueueNode* node);
  void Remove(QueueNode* node);

 private:
  struct Entry {
    Nanos due;
    uint64_t order;
    QueueNode* node;
    bool Before(const Entry& other) const {
      return due != other.due ? due < other.due : order < other.order;
    }
  };

  void Place(size_t slot, const Entry& entry);
  void SiftUp(size_t slot, const Entry& entry);
  void SiftDown(size_t slot, const Entry& entry);

  std::vector<Entry> heap_;
  uint64_t next_order_ = 0;
};

// Nodes whose state must still be written, the oldest first. Removal leaves a hole, so that all is
// O(1).
class DirtyList {
 public:
  // Number of nodes, without the holes.
  size_t size() const { return size_; }
  void PushBack(QueueNode* node);
  void Remove(QueueNode* node);
  // nullptr: empty.
  QueueNode* PopFront();

 private:
  // After a burst the memory goes back.
  static constexpr size_t kKeptSlots = 65536;

  void Trim();

  std::vector<QueueNode*> slots_;
  size_t head_ = 0;    // slots before it are used up
  uint32_t base_ = 0;  // the position of slots_[0], modulo 2^32
  size_t size_ = 0;
};

}  // namespace larder::internal
