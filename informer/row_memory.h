// What is known of the rows of one handler without a look at the disk: so that a handler that is
// blocked for good costs the commits of all others next to nothing.
//
// Bounded: 32 bytes a key on average, half a megabyte at most. Past that, and after Forget, it only
// knows less: of a key that it does not have it says kUnknown instead of kNone. Keys are kept as
// hashes, as in KeySet.
//
//   RowMemory rows;
//   rows.Find(key);                                // kUnknown
//   rows.StartEmpty();
//   rows.Find(key);                                // kNone
//   rows.Set(key, RowMemory::Row::kUnread);
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "informer/key_set.h"
#include "schema/object.h"

namespace larder {

class RowMemory {
 public:
  enum class Row : uint8_t {
    kNone,     // there is none
    kUnknown,  // there may be one
    kUnread,   // there is one, and nobody has read it: an update leaves it as it is
    kUnheard,  // the same, and the handler has not heard of the object: a delete takes it away
  };

  Row Find(const ObjectKey& key) const;
  void Set(const ObjectKey& key, Row row);
  // There is no row at all.
  void StartEmpty();
  // Whatever it knew may be wrong by now. Gives the memory back.
  void Forget();
  size_t size() const { return size_; }
  size_t MemoryBytes() const { return slots_.capacity() * sizeof(Slot); }

  static constexpr size_t kMostSlots = size_t{1} << 15;
  static constexpr size_t kMostKeys = kMostSlots / 4 * 3;

 private:
  // A key's hash, with the row in the two lowest bits of the first half. All zero: a free slot.
  using Slot = KeySet::Hash;

  static Slot SlotOf(const ObjectKey& key);
  // Where it is, or where it would be put. REQUIRES: there are slots.
  size_t Place(const Slot& slot) const;
  // False: it is full.
  bool MakeRoom();
  void Remove(size_t at);

  std::vector<Slot> slots_;  // none or a power of two, at most three quarters of them taken
  size_t size_ = 0;
  bool complete_ = false;  // a key that is not here has no row
};

}  // namespace larder
