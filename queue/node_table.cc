#include "queue/node_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace larder::internal {

static_assert(std::is_trivially_destructible_v<QueueNode>);

NodeRef NodePool::Make(std::string_view item, uint32_t hash) {
  LARDER_CHECK(item.size() <= std::numeric_limits<decltype(QueueNode::size)>::max());
  const NodeRef ref = Allocate(sizeof(QueueNode) + item.size());
  auto* node = new (Address(ref)) QueueNode;
  node->hash = hash;
  node->size = static_cast<uint16_t>(item.size());
  if (!item.empty()) std::memcpy(node + 1, item.data(), item.size());
  return ref;
}

void NodePool::Free(NodeRef ref) {
  NodeRef& head = free_[ClassOf(sizeof(QueueNode) + At(ref)->size).index];
  new (Address(ref)) FreeNode{head};
  head = ref;
}

NodePool::SizeClass NodePool::ClassOf(size_t bytes) {
  constexpr size_t kExact = kMaxExact / kStep;
  if (bytes <= kMaxExact) {
    const size_t steps = (bytes + kStep - 1) / kStep;
    return {steps, steps * kStep};
  }
  const size_t rounded = std::bit_ceil(bytes);
  return {kExact + static_cast<size_t>(std::countr_zero(rounded / kMaxExact)), rounded};
}

NodeRef NodePool::Allocate(size_t bytes) {
  const SizeClass size = ClassOf(bytes);
  NodeRef& head = free_[size.index];
  if (head != 0) return std::exchange(head, static_cast<FreeNode*>(Address(head))->next);
  if (end_ - cut_ < size.bytes) AddChunk(size.bytes);
  const size_t place = std::exchange(cut_, cut_ + size.bytes) / kStep;
  return static_cast<NodeRef>(((chunks_.size() - 1) << kChunkBits) + place);
}

void NodePool::AddChunk(size_t at_least) {
  LARDER_CHECK(chunks_.size() < size_t{1} << (32 - kChunkBits));
  // The first step of a chunk stays free: no reference is 0.
  end_ = std::max(next_chunk_, std::bit_ceil(at_least + kStep));
  cut_ = kStep;
  chunks_.emplace_back(end_);
  next_chunk_ = std::min(next_chunk_ * 2, kLastChunk);
}

void NodePool::Clear() {
  free_.fill(0);
  chunks_.clear();
  next_chunk_ = kFirstChunk;
  cut_ = 0;
  end_ = 0;
}

QueueNode* NodeTable::Find(std::string_view item, uint32_t hash) const {
  for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
    const Slot& slot = slots_[i];
    if (slot.node == 0) return nullptr;
    if (slot.hash != hash) continue;
    QueueNode* node = pool_.At(slot.node);
    if (node->item() == item) return node;
  }
}

QueueNode* NodeTable::Insert(std::string_view item, uint32_t hash) {
  if (size_ >= (mask_ + 1) / 4 * 3) Grow();
  const NodeRef ref = pool_.Make(item, hash);
  Place({ref, hash});
  ++size_;
  return pool_.At(ref);
}

void NodeTable::Erase(QueueNode* node) {
  size_t hole = node->hash & mask_;
  while (slots_[hole].hash != node->hash || pool_.At(slots_[hole].node) != node) {
    hole = (hole + 1) & mask_;
  }
  pool_.Free(slots_[hole].node);
  // Those behind it move up when they may, so that no search ends at the hole too early.
  for (size_t i = (hole + 1) & mask_; slots_[i].node != 0; i = (i + 1) & mask_) {
    const size_t from_home = (i - slots_[i].hash) & mask_;
    if (from_home < ((i - hole) & mask_)) continue;
    slots_[hole] = slots_[i];
    hole = i;
  }
  slots_[hole] = {};
  if (--size_ == 0 && mask_ >= kKeptSlots) {
    Reset(kMinSlots);
    pool_.Clear();
  }
}

void NodeTable::Place(const Slot& entry) {
  size_t i = entry.hash & mask_;
  while (slots_[i].node != 0) i = (i + 1) & mask_;
  slots_[i] = entry;
}

void NodeTable::Grow() {
  const LargeBlock memory = std::move(memory_);
  const Slot* old = slots_;
  const size_t count = mask_ + 1;
  Reset(count * 2);
  for (size_t i = 0; i < count; ++i) {
    if (old[i].node != 0) Place(old[i]);
  }
}

void NodeTable::Reset(size_t slots) {
  memory_ = LargeBlock(slots * sizeof(Slot));
  slots_ = static_cast<Slot*>(memory_.data());
  mask_ = slots - 1;
}

}  // namespace larder::internal
