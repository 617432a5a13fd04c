// The hot tier's objects by name, in the order in which the clock's hand passes them.
//
// Made for the look-up: one line of a table that carries hashes, then the entry, whose name stands
// in the same piece of memory. Adding and removing cost an allocation each.
//
//   HotTable table;
//   HotEntry* entry = table.Insert(HotName(collection, "shop", "cart-1"), pod);
//   table.Find(HotName(collection, "shop", "cart-1"))->object;
//   table.Erase(entry);
//
// Not thread-safe: a shard of HotTier owns it, under its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "schema/object.h"
#include "storage/collection.h"

namespace larder {

// Whose entry is looked for. Views into the asker's key.
struct HotName {
  HotName(CollectionId in, std::string_view of_ns, std::string_view of_name);

  CollectionId collection;
  std::string_view ns;
  std::string_view name;
  uint64_t hash;
};

struct HotEntry {
  bool Is(const HotName& other) const;

  // The neighbours in the hand's round.
  HotEntry* previous = nullptr;
  HotEntry* next = nullptr;
  size_t bytes = 0;
  Clock::Steady expires;
  const uint64_t hash;
  // What a look-up touches stands together, the name right behind it.
  const ObjectPtr object;
  uint64_t sequence = 0;  // the commit it is from, at the latest
  bool used = false;      // since the hand passed
  const CollectionId collection;
  const uint32_t ns_bytes;
  const uint32_t name_bytes;

 private:
  friend class HotTable;
  HotEntry(const HotName& of, ObjectPtr held);
  // Namespace and name, behind the entry.
  const char* text() const { return reinterpret_cast<const char*>(this + 1); }
};

class HotTable {
 public:
  HotTable() : slots_(kMinSlots) {}
  ~HotTable() { Clear(); }
  HotTable(const HotTable&) = delete;
  HotTable& operator=(const HotTable&) = delete;

  // nullptr: not there.
  HotEntry* Find(const HotName& name) const {
    for (size_t at = name.hash & mask_; slots_[at].entry != nullptr; at = (at + 1) & mask_) {
      if (slots_[at].hash == name.hash && slots_[at].entry->Is(name)) return slots_[at].entry;
    }
    return nullptr;
  }
  // At the place that the hand will come to last. REQUIRES: not there yet.
  HotEntry* Insert(const HotName& name, ObjectPtr object);
  // A hand that stands on it goes on.
  void Erase(HotEntry* entry);
  size_t size() const { return size_; }

  // Where the hand stands; nullptr: there is nothing.
  HotEntry* hand() const { return hand_; }
  void MoveHand() { hand_ = hand_->next; }

 private:
  static constexpr size_t kMinSlots = 64;

  struct Slot {
    uint64_t hash = 0;
    HotEntry* entry = nullptr;
  };

  void Clear();
  void Place(const Slot& slot);
  void Grow();

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  size_t mask_ = kMinSlots - 1;
  size_t size_ = 0;
  HotEntry* hand_ = nullptr;
};

}  // namespace larder
