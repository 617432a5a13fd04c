#include "informer/row_memory.h"

#include <utility>

namespace larder {
namespace {

constexpr uint64_t kRowBits = 3;

}  // namespace

RowMemory::Slot RowMemory::SlotOf(const ObjectKey& key) {
  const KeySet::Hash hash = KeySet::HashOf(key);
  return {hash[0] & ~kRowBits, hash[1]};
}

size_t RowMemory::Place(const Slot& slot) const {
  const size_t mask = slots_.size() - 1;
  size_t at = slot[1] & mask;
  while (slots_[at] != Slot{} &&
         ((slots_[at][0] & ~kRowBits) != slot[0] || slots_[at][1] != slot[1])) {
    at = (at + 1) & mask;
  }
  return at;
}

RowMemory::Row RowMemory::Find(const ObjectKey& key) const {
  const Row absent = complete_ ? Row::kNone : Row::kUnknown;
  if (size_ == 0) return absent;
  const Slot& slot = slots_[Place(SlotOf(key))];
  return slot == Slot{} ? absent : static_cast<Row>(slot[0] & kRowBits);
}

void RowMemory::Set(const ObjectKey& key, Row row) {
  Slot slot = SlotOf(key);
  size_t at = slots_.empty() ? 0 : Place(slot);
  const bool here = !slots_.empty() && slots_[at] != Slot{};
  if (row == Row::kNone) {
    if (here) Remove(at);
    return;
  }
  if (!here) {
    if (!MakeRoom()) {
      complete_ = false;
      return;
    }
    at = Place(slot);
    ++size_;
  }
  slot[0] |= static_cast<uint64_t>(row);
  slots_[at] = slot;
}

bool RowMemory::MakeRoom() {
  constexpr size_t kFirstSlots = 64;
  if ((size_ + 1) * 4 <= slots_.size() * 3) return true;
  if (slots_.size() == kMostSlots) return false;
  const size_t count = slots_.empty() ? kFirstSlots : slots_.size() * 2;
  for (const Slot& slot : std::exchange(slots_, std::vector<Slot>(count))) {
    if (slot != Slot{}) slots_[Place({slot[0] & ~kRowBits, slot[1]})] = slot;
  }
  return true;
}

// Moves up what a free slot here would cut off from its place.
void RowMemory::Remove(size_t at) {
  const size_t mask = slots_.size() - 1;
  for (size_t next = (at + 1) & mask; slots_[next] != Slot{}; next = (next + 1) & mask) {
    const size_t home = slots_[next][1] & mask;
    if (((next - home) & mask) < ((next - at) & mask)) continue;
    slots_[at] = slots_[next];
    at = next;
  }
  slots_[at] = {};
  --size_;
}

void RowMemory::StartEmpty() {
  Forget();
  complete_ = true;
}

void RowMemory::Forget() {
  std::vector<Slot>().swap(slots_);  // = {} would keep its memory
  size_ = 0;
  complete_ = false;
}

}  // namespace larder
