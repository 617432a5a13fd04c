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
// what keeps a handler that is blocked for long cheap for everybody else. Which rows those are, and
// which keys have none, is remembered, up to a bound (RowMemory), so that they are not even looked
// at. Nor is the state that the handler knew compressed anew: its bytes are those that are stored.
//
// An object that came and went before the handler heard of it leaves no row: so there are never
// more rows than objects which the handler knows or which are stored, however long it blocks. That
// it has not heard is stored in the row, because a later process cannot know what an earlier one
// told.
//
// What comes while no handler of the name is there is kept as it is, because its filter is not
// known either. It is narrowed when it is read: a row begins with the state that the handler knew,
// and ends with the one now, and those two decide. What narrowing makes of a row is stored before
// the handler is told, so that what comes later is merged into what it was told.
//
// What changes again between the telling and its acknowledgement is a new row, which still begins
// with the state before: a process that ends here leaves nobody who knows what was told. With the
// acknowledgement it begins with what was told, as an update, also where it was an add, or a delete
// and an add. So who acknowledges what was told before reading on never brings a handler an older
// `old` than it has heard, nor a delete behind the add that followed it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "indexer/indexer.h"
#include "informer/change.h"
#include "informer/row_memory.h"

namespace larder {

class PendingDeltas {
 public:
  // `handler` names the rows: a durable name, or one that is unique in this process.
  PendingDeltas(Indexer* indexer, std::string handler);

  enum class Merged { kNewRow, kIntoRow, kTookRowAway };
  // Merges `change` into the key's row, in `writer`'s transaction.
  // `only_on_disk`: the change is heard of through Read alone. Otherwise last_generation() is that
  // of its row, to be acknowledged by.
  // `narrowed`: the handler's filter has seen the change.
  Result<Merged> Merge(Indexer::Writer& writer, const ObjectChange& change, bool only_on_disk,
                       bool narrowed = true);

  struct Row {
    ObjectKey key;
    uint64_t generation = 0;
    // As the handler must hear them: one, or two, deleted and then added again. None: what was
    // narrowed left nothing.
    std::vector<ObjectChange> changes;
    ObjectPtr told;         // of an add that an earlier process may have told: the state then
    bool unheard = false;   // see HandOut
    bool narrowed = false;  // other changes than were read
  };
  // The moment to read at. From here on a change of any row of it is a new row.
  Indexer::View BeginRead(const Indexer::Writer& write_lock);
  // Up to `limit` rows behind `after`, in key order, with the objects of the same moment; fewer
  // where these have `max_bytes` before, but one.
  Result<std::vector<Row>> Read(const Indexer::View& view, const ObjectKey& after, size_t limit,
                                size_t max_bytes) const;
  // From here on the handler may have heard of these rows: to be committed before it is told of the
  // first. Writes down what narrowing made of them. Drops those that changed since they were read,
  // or went. False: there is nothing to commit.
  Result<bool> HandOut(Indexer::Writer& writer, std::vector<Row>* rows) const;
  // What the handler has dealt with: a row, or a change from memory.
  struct Delivered {
    ObjectKey key;
    uint64_t generation = 0;
    ObjectPtr state;  // that it knows now; null: none
  };
  static Delivered DeliveredOf(const Row& row);
  // In the order of their delivery. Removes the rows that did not change since, and returns how
  // many; one that did begins with what was delivered. An error: nothing is to be committed.
  Result<size_t> Acknowledge(Indexer::Writer& writer, const std::vector<Delivered>& delivered);
  uint64_t last_generation() const { return generation_; }
  // What was merged or acknowledged in the last transaction is not stored.
  void CommitFailed() { memory_.Forget(); }
  // Count() has said 0, under the write lock that is still held.
  void NoRowsLeft() { memory_.StartEmpty(); }

  // Counts the rows, up to `limit`.
  Result<size_t> Count(size_t limit = SIZE_MAX) const;
  Result<void> Clear();

 private:
  Result<Row> ReadRow(const Indexer::View& view, const ObjectKey& key,
                      std::string_view bytes) const;
  Result<bool> AcknowledgeOne(Indexer::Writer& writer, const Delivered& delivered);
  // Is a row of this generation of this object's own making?
  bool IsOwn(uint64_t generation) const { return generation > first_ && generation <= generation_; }

  Indexer* const indexer_;
  const std::string handler_;
  const uint64_t first_;  // rows up to this generation are of others
  uint64_t generation_ = first_;
  // Rows up to this generation may have been read, or are in somebody's memory.
  uint64_t handed_out_ = first_;
  RowMemory memory_;
};

}  // namespace larder
