// Changes that wait on disk for one handler, merged per key: one row a key, whatever happened to it
// meanwhile.
//
// A row says what the handler must hear to get from the state it knows to the state now: the kind
// of change, and the state it knew (for OnUpdate's old, for OnDelete's last known). The new state
// is not in the row: it is the stored object.
//
// Not thread-safe by itself: everything but Read happens under the collection's write lock
// (Indexer::Writer), so that merging, reading and acknowledging exclude each other.
//
// A row that nobody has read needs no second write for a second update: it says the same. That is
// what keeps a handler that is blocked for long cheap for everybody else. Which rows those are is
// remembered, up to a bound, so that they are not even looked at.
//
// An object that came and went before the handler heard of it leaves no row: so there are never
// more rows than objects which the handler knows or which are stored, however long it blocks. That
// it has not heard is stored in the row, because a later process cannot know what an earlier one
// told.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "indexer/indexer.h"
#include "informer/change.h"

namespace larder {

class PendingDeltas {
 public:
  // `handler` names the rows: a durable name, or one that is unique in this process.
  PendingDeltas(Indexer* indexer, std::string handler);

  enum class Merged { kNewRow, kIntoRow, kTookRowAway };
  // Merges `change` into the key's row, in `writer`'s transaction.
  // `only_on_disk`: the change is heard of through Read alone. Otherwise last_generation() is that
  // of its row, to be acknowledged by.
  Result<Merged> Merge(Indexer::Writer& writer, const ObjectChange& change, bool only_on_disk);

  struct Row {
    ObjectKey key;
    uint64_t generation = 0;
    ObjectChange change;               // as the handler must hear it
    std::optional<ObjectChange> then;  // a second one: deleted, then added again
    bool unheard = false;              // see HandOut
  };
  // The moment to read at. From here on a change of any row of it is a new row.
  Indexer::View BeginRead(const Indexer::Writer& write_lock);
  // Up to `limit` rows behind `after`, in key order, with the objects of the same moment.
  Result<std::vector<Row>> Read(const Indexer::View& view, const ObjectKey& after,
                                size_t limit) const;
  // From here on the handler may have heard of these rows: to be committed before it is told of the
  // first. Drops those that changed since they were read, or went. False: there is nothing to
  // commit.
  Result<bool> HandOut(Indexer::Writer& writer, std::vector<Row>* rows) const;
  // Removes the rows that did not change since they were read; returns how
  // many.
  Result<size_t> Acknowledge(Indexer::Writer& writer, const std::vector<Row>& rows) const;
  // The same for changes delivered from memory: removes a key's row when its
  // last change was this one.
  Result<bool> Acknowledge(Indexer::Writer& writer, const ObjectKey& key,
                           uint64_t generation) const;
  uint64_t last_generation() const { return generation_; }
  // What was merged in the last transaction is not stored.
  void CommitFailed() { unread_.clear(); }

  // Counts the rows, up to `limit`.
  Result<size_t> Count(size_t limit = SIZE_MAX) const;
  Result<void> Clear();

 private:
  Indexer* const indexer_;
  const std::string handler_;
  uint64_t generation_;
  // Rows up to this generation may have been read, or are in somebody's memory.
  uint64_t handed_out_;
  std::unordered_set<std::string> unread_;  // keys of rows that an update leaves as they are
};

}  // namespace larder
