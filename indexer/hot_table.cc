#include "indexer/hot_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <new>
#include <utility>

namespace larder {

HotName::HotName(CollectionId in, std::string_view of_ns, std::string_view of_name)
    : collection(in), ns(of_ns), name(of_name) {
  hash = XXH3_64bits_withSeed(name.data(), name.size(),
                              XXH3_64bits_withSeed(ns.data(), ns.size(), collection));
}

HotEntry::HotEntry(const HotName& of, ObjectPtr held)
    : hash(of.hash),
      object(std::move(held)),
      collection(of.collection),
      ns_bytes(static_cast<uint32_t>(of.ns.size())),
      name_bytes(static_cast<uint32_t>(of.name.size())) {}

bool HotEntry::Is(const HotName& other) const {
  return collection == other.collection && ns_bytes == other.ns.size() &&
         name_bytes == other.name.size() &&
         std::memcmp(text() + ns_bytes, other.name.data(), name_bytes) == 0 &&
         std::memcmp(text(), other.ns.data(), ns_bytes) == 0;
}

HotEntry* HotTable::Insert(const HotName& name, ObjectPtr object) {
  if ((size_ + 1) * 2 > slots_.size()) Grow();
  void* memory = ::operator new(sizeof(HotEntry) + name.ns.size() + name.name.size());
  auto* entry = new (memory) HotEntry(name, std::move(object));
  char* text = static_cast<char*>(memory) + sizeof(HotEntry);
  std::memcpy(text, name.ns.data(), name.ns.size());
  std::memcpy(text + name.ns.size(), name.name.data(), name.name.size());
  Place({name.hash, entry});
  ++size_;
  if (hand_ == nullptr) {
    hand_ = entry->previous = entry->next = entry;
  } else {
    entry->next = hand_;
    entry->previous = hand_->previous;
    entry->previous->next = hand_->previous = entry;
  }
  return entry;
}

void HotTable::Erase(HotEntry* entry) {
  size_t at = entry->hash & mask_;
  while (slots_[at].entry != entry) at = (at + 1) & mask_;
  // What follows without a gap moves up, unless it stands where it belongs.
  for (size_t next = (at + 1) & mask_; slots_[next].entry != nullptr; next = (next + 1) & mask_) {
    const size_t wanted = slots_[next].hash & mask_;
    if (((next - wanted) & mask_) < ((next - at) & mask_)) continue;
    slots_[at] = slots_[next];
    at = next;
  }
  slots_[at] = {};
  --size_;
  if (hand_ == entry) hand_ = size_ == 0 ? nullptr : entry->next;
  entry->previous->next = entry->next;
  entry->next->previous = entry->previous;
  entry->~HotEntry();
  ::operator delete(entry);
}

void HotTable::Clear() {
  while (hand_ != nullptr) Erase(hand_);
}

void HotTable::Place(const Slot& slot) {
  size_t at = slot.hash & mask_;
  while (slots_[at].entry != nullptr) at = (at + 1) & mask_;
  slots_[at] = slot;
}

void HotTable::Grow() {
  const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(slots_.size() * 2));
  mask_ = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.entry != nullptr) Place(slot);
  }
}

}  // namespace larder
