#include "queue/queue_node.h"

#include "base/error.h"

namespace larder::internal {

void NodeList::PushBack(QueueNode* node) {
  node->prev = tail_;
  node->next = nullptr;
  (tail_ == nullptr ? head_ : tail_->next) = node;
  tail_ = node;
}

void NodeList::Remove(QueueNode* node) {
  (node->prev == nullptr ? head_ : node->prev->next) = node->next;
  (node->next == nullptr ? tail_ : node->next->prev) = node->prev;
}

ReadyLists::Lists::iterator ReadyLists::Find(int32_t priority) {
  if (last_ == lists_.end() || last_->first != priority) last_ = lists_.try_emplace(priority).first;
  return last_;
}

void ReadyLists::DropIfEmpty(Lists::iterator list) {
  if (!list->second.empty() || lists_.size() <= kKeptLists) return;
  if (last_ == list) last_ = lists_.end();
  lists_.erase(list);
}

void ReadyLists::PushBack(QueueNode* node) {
  Find(node->priority)->second.PushBack(node);
  ++size_;
}

void ReadyLists::Remove(QueueNode* node) {
  const auto list = Find(node->priority);
  list->second.Remove(node);
  --size_;
  DropIfEmpty(list);
}

QueueNode* ReadyLists::PopFront() {
  if (size_ == 0) return nullptr;
  auto list = lists_.begin();
  while (list->second.empty()) ++list;
  QueueNode* node = list->second.front();
  list->second.Remove(node);
  --size_;
  DropIfEmpty(list);
  return node;
}

void DelayHeap::Push(QueueNode* node) {
  const Entry entry{node->when, next_order_++, node};
  heap_.push_back(entry);
  SiftUp(heap_.size() - 1, entry);
}

void DelayHeap::Remove(QueueNode* node) {
  const size_t slot = node->heap_slot;
  LARDER_CHECK(slot < heap_.size() && heap_[slot].node == node);
  const Entry last = heap_.back();
  heap_.pop_back();
  if (slot == heap_.size()) return;
  // The last entry takes the free place and may have to move either way.
  if (slot > 0 && last.Before(heap_[(slot - 1) / 2])) {
    SiftUp(slot, last);
  } else {
    SiftDown(slot, last);
  }
}

void DelayHeap::Place(size_t slot, const Entry& entry) {
  heap_[slot] = entry;
  entry.node->heap_slot = static_cast<uint32_t>(slot);
}

void DelayHeap::SiftUp(size_t slot, const Entry& entry) {
  while (slot > 0) {
    const size_t parent = (slot - 1) / 2;
    if (!entry.Before(heap_[parent])) break;
    Place(slot, heap_[parent]);
    slot = parent;
  }
  Place(slot, entry);
}

void DelayHeap::SiftDown(size_t slot, const Entry& entry) {
  for (;;) {
    size_t child = 2 * slot + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].Before(heap_[child])) ++child;
    if (!heap_[child].Before(entry)) break;
    Place(slot, heap_[child]);
    slot = child;
  }
  Place(slot, entry);
}

void DirtyList::PushBack(QueueNode* node) {
  node->dirty = true;
  node->dirty_slot = base_ + static_cast<uint32_t>(slots_.size());
  slots_.push_back(node);
  ++size_;
}

void DirtyList::Remove(QueueNode* node) {
  slots_[node->dirty_slot - base_] = nullptr;
  node->dirty = false;
  --size_;
  // An item that is added and done before the next write was the last one put in, most of the time.
  while (slots_.size() > head_ && slots_.back() == nullptr) slots_.pop_back();
  Trim();
}

QueueNode* DirtyList::PopFront() {
  while (head_ < slots_.size() && slots_[head_] == nullptr) ++head_;
  QueueNode* node = nullptr;
  if (head_ < slots_.size()) {
    node = slots_[head_++];
    node->dirty = false;
    --size_;
  }
  Trim();
  return node;
}

void DirtyList::Trim() {
  if (head_ == slots_.size()) {
    base_ += static_cast<uint32_t>(head_);
    slots_.clear();
    head_ = 0;
    if (slots_.capacity() > kKeptSlots) slots_.shrink_to_fit();
  } else if (head_ >= kKeptSlots / 16 && head_ * 2 >= slots_.size()) {
    base_ += static_cast<uint32_t>(head_);
    slots_.erase(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
}

}  // namespace larder::internal
