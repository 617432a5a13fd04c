#include "indexer/hot_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <new>
#include <utility>

namespace larder {
namespace {

// The entry last: who sees it sees what belongs to it.
void Set(HotTable::Slot& slot, uint64_t hash, HotEntry* entry) {
  slot.hash.store(hash, std::memory_order_relaxed);
  slot.entry.store(entry, std::memory_order_release);
}

HotEntry* EntryIn(const HotTable::Slot& slot) { return slot.entry.load(std::memory_order_relaxed); }

void Place(HotTable::Slots& slots, HotEntry* entry) {
  size_t at = entry->hash & slots.mask;
  while (EntryIn(slots.at[at]) != nullptr) at = (at + 1) & slots.mask;
  Set(slots.at[at], entry->hash, entry);
}

}  // namespace

HotName::HotName(CollectionId in, std::string_view of_ns, std::string_view of_name)
    : collection(in), ns(of_ns), name(of_name) {
  hash = XXH3_64bits_withSeed(name.data(), name.size(),
                              XXH3_64bits_withSeed(ns.data(), ns.size(), collection));
}

HotEntry::HotEntry(const HotName& of, HotValue value)
    : HotValue(std::move(value)),
      hash(of.hash),
      collection(of.collection),
      ns_bytes(static_cast<uint32_t>(of.ns.size())),
      name_bytes(static_cast<uint32_t>(of.name.size())) {}

bool HotEntry::Is(const HotName& other) const {
  return collection == other.collection && ns_bytes == other.ns.size() &&
         name_bytes == other.name.size() &&
         std::memcmp(text() + ns_bytes, other.name.data(), name_bytes) == 0 &&
         std::memcmp(text(), other.ns.data(), ns_bytes) == 0;
}

void HotEntryDelete::operator()(HotEntry* entry) const {
  entry->~HotEntry();
  ::operator delete(entry);
}

HotTable::HotTable() : slots_(std::make_unique<Slots>(kMinSlots)) { current_ = slots_.get(); }

HotTable::~HotTable() {
  while (hand_ != nullptr) (void)Erase(hand_);
}

HotEntry* HotTable::Insert(const HotName& name, HotValue value) {
  if ((size_ + 1) * 2 > slots_->at.size()) Grow();
  void* memory = ::operator new(sizeof(HotEntry) + name.ns.size() + name.name.size());
  auto* entry = new (memory) HotEntry(name, std::move(value));
  char* text = static_cast<char*>(memory) + sizeof(HotEntry);
  std::memcpy(text, name.ns.data(), name.ns.size());
  std::memcpy(text + name.ns.size(), name.name.data(), name.name.size());
  ++size_;
  if (hand_ == nullptr) {
    hand_ = entry->previous = entry->next = entry;
  } else {
    entry->next = hand_;
    entry->previous = hand_->previous;
    entry->previous->next = hand_->previous = entry;
  }
  Place(*slots_, entry);
  return entry;
}

HotEntryPtr HotTable::Erase(HotEntry* entry) {
  Slots& slots = *slots_;
  size_t at = entry->hash & slots.mask;
  while (EntryIn(slots.at[at]) != entry) at = (at + 1) & slots.mask;
  // What follows without a gap moves up, unless it stands where it belongs.
  for (size_t after = (at + 1) & slots.mask; EntryIn(slots.at[after]) != nullptr;
       after = (after + 1) & slots.mask) {
    HotEntry* const other = EntryIn(slots.at[after]);
    const size_t wanted = other->hash & slots.mask;
    if (((after - wanted) & slots.mask) < ((after - at) & slots.mask)) continue;
    Set(slots.at[at], other->hash, other);
    at = after;
  }
  Set(slots.at[at], 0, nullptr);
  --size_;
  if (hand_ == entry) hand_ = size_ == 0 ? nullptr : entry->next;
  entry->previous->next = entry->next;
  entry->next->previous = entry->previous;
  return HotEntryPtr(entry);
}

void HotTable::Grow() {
  auto larger = std::make_unique<Slots>(slots_->at.size() * 2);
  for (const Slot& slot : slots_->at) {
    if (HotEntry* entry = EntryIn(slot)) Place(*larger, entry);
  }
  current_.store(larger.get(), std::memory_order_release);
  outgrown_ = std::exchange(slots_, std::move(larger));
}

}  // namespace larder
