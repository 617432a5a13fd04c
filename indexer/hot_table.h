// The hot tier's objects by name, in the order in which the clock's hand passes them.
//
// Made for the look-up: one line of a table that carries hashes, then the entry, whose name stands
// in the same piece of memory. Adding and removing cost an allocation each.
//
//   HotTable table;
//   HotEntry* entry = table.Insert(HotName(collection, "shop", "cart-1"), {.object = pod});
//   table.Find(HotName(collection, "shop", "cart-1"))->object;
//   HotEntryPtr removed = table.Erase(entry);
//
// Changes need a lock, which a shard of HotTier holds. Find needs none, where the caller sees to it
// that nothing is freed meanwhile: what Erase and TakeOutgrown return stays readable for as long as
// it is kept (HotReaders). Beside a change, Find may overlook an entry that stays, because entries
// move up when one before them goes; it never finds one that was removed before it began.
#pragma once

#include <atomic>
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

// What an entry holds beside its name.
struct HotValue {
  size_t bytes = 0;
  Clock::Steady expires{};
  // What a look-up touches stands together, the name right behind it.
  ObjectPtr object{};
  uint64_t sequence = 0;  // the commit it is from, at the latest
};

// The neighbours in the hand's round.
struct HotEntry;
struct HotLinks {
  HotEntry* previous = nullptr;
  HotEntry* next = nullptr;
};

struct HotEntry : HotLinks, HotValue {
  bool Is(const HotName& other) const;

  const uint64_t hash;
  std::atomic<bool> used{false};  // since the hand passed
  const CollectionId collection;
  const uint32_t ns_bytes;
  const uint32_t name_bytes;

 private:
  friend class HotTable;
  HotEntry(const HotName& of, HotValue value);
  // Namespace and name, behind the entry.
  const char* text() const { return reinterpret_cast<const char*>(this + 1); }
};

struct HotEntryDelete {
  void operator()(HotEntry* entry) const;
};
using HotEntryPtr = std::unique_ptr<HotEntry, HotEntryDelete>;

class HotTable {
 public:
  // The places of entries: a power of two, at most half of them taken.
  struct Slot {
    std::atomic<uint64_t> hash{0};
    std::atomic<HotEntry*> entry{nullptr};
  };
  struct Slots {
    explicit Slots(size_t count) : mask(count - 1), at(count) {}
    size_t ByteSize() const { return sizeof(Slots) + at.size() * sizeof(Slot); }

    const size_t mask;
    std::vector<Slot> at;
  };

  HotTable();
  ~HotTable();
  HotTable(const HotTable&) = delete;
  HotTable& operator=(const HotTable&) = delete;

  // nullptr: not there.
  HotEntry* Find(const HotName& name) const {
    const Slots& slots = *current_.load(std::memory_order_acquire);
    for (size_t at = name.hash & slots.mask;; at = (at + 1) & slots.mask) {
      HotEntry* const entry = slots.at[at].entry.load(std::memory_order_acquire);
      if (entry == nullptr) return nullptr;
      if (slots.at[at].hash.load(std::memory_order_relaxed) == name.hash && entry->Is(name)) {
        return entry;
      }
    }
  }
  // At the place that the hand will come to last. REQUIRES: not there yet.
  HotEntry* Insert(const HotName& name, HotValue value);
  // A hand that stands on it goes on.
  [[nodiscard]] HotEntryPtr Erase(HotEntry* entry);
  // The slots that an Insert had to leave; null: it did not.
  [[nodiscard]] std::unique_ptr<Slots> TakeOutgrown() { return std::move(outgrown_); }
  size_t size() const { return size_; }

  // Where the hand stands; nullptr: there is nothing.
  HotEntry* hand() const { return hand_; }
  void MoveHand() { hand_ = hand_->next; }

 private:
  static constexpr size_t kMinSlots = 64;

  void Grow();

  std::atomic<const Slots*> current_;  // slots_, for those who look
  std::unique_ptr<Slots> slots_;
  std::unique_ptr<Slots> outgrown_;
  size_t size_ = 0;
  HotEntry* hand_ = nullptr;
};

}  // namespace larder
