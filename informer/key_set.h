// The keys that a list has named: 32 bytes a key on average, however long its name.
//
// Kept are hashes of 128 bits. Two keys of which one would be taken for the other are not to be
// expected in the lifetime of a cluster: a million keys collide with a chance of one in 10^26.
//
//   KeySet seen;
//   seen.Insert({"shop", "cart-1"});    // true: it was not there
//   seen.Contains({"shop", "cart-2"});  // false
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schema/object.h"

namespace larder {

class KeySet {
 public:
  using Hash = std::array<uint64_t, 2>;  // the first is odd
  static Hash HashOf(const ObjectKey& key);

  // False: it was there.
  bool Insert(const ObjectKey& key);
  bool Contains(const ObjectKey& key) const;
  size_t size() const { return size_; }
  // Gives the memory back.
  void Clear();

 private:
  // Where it is, or where it would be put. REQUIRES: there are slots.
  size_t Place(const Hash& hash) const;
  void Grow();

  // None or a power of two, at most three quarters of them taken. All zero: a free one.
  std::vector<Hash> slots_;
  size_t size_ = 0;
};

}  // namespace larder
