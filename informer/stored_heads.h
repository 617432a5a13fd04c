// Looks up what is stored of a list's objects, one after the other, as the list brings them.
//
// A list comes in the order of the rows (schema/key_order.h), so the rows that come next are read
// ahead in one go, which costs less than a get for each (docs/benchmarks.md). The order is a hope,
// not a demand: a key that is not where it was expected is looked up alone, and reading ahead
// begins again behind it, with few rows.
//
// What is read ahead is as old as that reading. Whoever changes rows of keys that are still to come
// must call Reset. Not thread-safe. Memory: kMostAhead keys and heads.
//
//   StoredHeads heads(indexer);
//   LARDER_ASSIGN_OR_RETURN(const ObjectHead* head, heads.Find(key));   // null: nothing is stored
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "indexer/indexer.h"

namespace larder {

class StoredHeads {
 public:
  static constexpr size_t kLeastAhead = 4;
  static constexpr size_t kMostAhead = 256;

  explicit StoredHeads(Indexer* indexer) : indexer_(*indexer) {}

  // Null: nothing is stored under this key. Valid until the next call. A row that is damaged is
  // kCorruption when its own key is asked for.
  Result<const ObjectHead*> Find(const ObjectKey& key);
  // What was read ahead is forgotten.
  void Reset();

 private:
  Result<std::optional<ObjectHead>> Alone(const ObjectKey& key) const;
  // Reads on behind the key that was asked for last.
  void ReadAhead();
  // Sets `found_` for a key behind the last one. False: it is behind what was read ahead, too.
  bool TakeAhead(const ObjectKey& key);

  Indexer& indexer_;
  std::optional<ObjectKey> last_;                        // that was asked for
  std::optional<ObjectHead> found_;                      // under it
  std::vector<std::pair<ObjectKey, ObjectHead>> ahead_;  // rows behind `last_`, from `next_` on
  size_t next_ = 0;
  bool at_end_ = false;         // there are no rows behind those
  size_t count_ = kLeastAhead;  // to read the next time
};

}  // namespace larder
