// Changes that wait on disk for one handler, merged per key: one row a key, whatever happened to it
// meanwhile.
//
// A row says what the handler must hear to get from the state it knows to the state now: the kind
// of change, and the state it knew (for OnUpdate's old, for OnDelete's last known). The new state
// is not in the row: it is the stored object.
//
// Not thread-safe by itself: writes happen under the collection's write lock (Indexer::Writer), so
// that merging and acknowledging exclude each other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "indexer/indexer.h"
#include "informer/change.h"

namespace larder {

class PendingDeltas {
 public:
  // `handler` names the rows: a durable name, or one that is unique in this process.
  PendingDeltas(Indexer* indexer, std::string handler);

  // Merges `change` into the key's row, in `writer`'s transaction. True when a row stood already.
  Result<bool> Merge(Indexer::Writer& writer, const ObjectChange& change);

  struct Row {
    ObjectKey key;
    uint64_t generation = 0;
    ObjectChange change;               // as the handler must hear it
    std::optional<ObjectChange> then;  // a second one: deleted, then added again
  };
  // Up to `limit` rows behind `after`, in key order, with the objects of the same moment.
  Result<std::vector<Row>> Read(const ObjectKey& after, size_t limit) const;
  // Removes the rows that did not change since they were read.
  Result<void> Acknowledge(Indexer::Writer& writer, const std::vector<Row>& rows) const;
  // The same for changes delivered from memory: removes a key's row when its last change was this
  // one.
  Result<void> Acknowledge(Indexer::Writer& writer, const ObjectKey& key,
                           uint64_t generation) const;
  uint64_t last_generation() const { return generation_; }

  Result<bool> Empty() const;
  Result<void> Clear();

 private:
  Indexer* const indexer_;
  const std::string handler_;
  uint64_t generation_;
};

}  // namespace larder
