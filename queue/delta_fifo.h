// What was heard and is not committed yet: between the thread that parses and the thread that
// commits.
//
// client-go's DeltaFIFO, in batches; what is gone from a list and when to resync is found out from
// the store, by who fills this. The producer appends to the open segment, where changes of one
// key merge; the consumer takes the whole segment as one batch, with the version of the last event
// in it. While one batch is being committed the next segment fills; when that is full, Put blocks:
// that is the back-pressure, nothing grows without bound.
//
// What it guarantees:
//  1. A batch's version is never ahead of its objects: everything put in up to that version is in
//  this batch or one before.
//  2. Changes of one key stay in order. Those that merge lose nothing that the last one does not
//  say: adds and updates
//     of one object (the same uid) become the newest state, an add staying an add; deletes in a row
//     become one; a delete followed by an add stays two changes.
//  3. Batches come out in order, one at a time. One that could not be committed is not skipped:
//     everything behind it is dropped and the producer is told to begin again from the last commit
//     (Fail).
//
// A batch is handed out as soon as there is something to commit, but for deltas of a list, for
// which nobody waits: they gather until the segment is half full or the list ends, because a commit
// and three woken threads for each of 100,000 objects cost more than the objects.
//
// Thread-safe; one consumer. In memory only: after a crash it is heard again, from the cursor on.
// Errors: kCancelled after Close or on stop, kUnavailable after Fail until Reset; nothing of the
// failed call was taken.
//
//   fifo.Put({.type = DeltaType::kUpdated, .key = key, .object = pod}, "4711", stop);
//   while (auto batch = fifo.Pop(stop)) Commit(*batch) ? fifo.Ack(*batch) : fifo.Fail(*batch);
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "schema/object.h"

namespace larder {

enum class DeltaType {
  kAdded,
  kUpdated,
  kDeleted,
  kReplaced,  // part of a list
};
std::string_view ToString(DeltaType type);

struct Delta {
  DeltaType type = DeltaType::kUpdated;
  ObjectKey key{};
  // The state after the change; for deletes the last one the server told, or null.
  ObjectPtr object{};
  // The object as the store will write it, where the producer has made it already.
  std::string encoded{};
  // Part of a list: versions are in no order, and the batch's version does not cover it.
  bool in_list = false;
  // A delete that nobody saw: `object` may be old or null.
  bool final_state_unknown = false;

  size_t ByteSize() const;
};

struct DeltaFifoOptions {
  // Of one segment; two may exist. A single delta larger than the bytes still passes.
  size_t max_items = 512;
  size_t max_bytes = size_t{4} << 20;
  Clock* clock = RealClock();
};

class DeltaFifo {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr Duration kForever = Duration::max();

  struct Batch {
    std::vector<Delta> deltas;
    // Of the last event or bookmark put in; empty: none was.
    std::string resource_version;
    uint64_t number = 0;
  };

  explicit DeltaFifo(DeltaFifoOptions options = {}) : options_(options) {}
  DeltaFifo(const DeltaFifo&) = delete;
  DeltaFifo& operator=(const DeltaFifo&) = delete;

  // Blocks while the segment is full. An empty version leaves the segment's as it is.
  Result<void> Put(Delta delta, std::string_view resource_version,
                   const std::stop_token& stop = {});
  // A bookmark: only the version moves.
  Result<void> PutCursor(std::string_view resource_version, const std::stop_token& stop = {});

  // All that waits, as soon as it is due; at the time-out what there is. nullopt: stop, nothing by
  // the time-out, or closed and empty.
  // REQUIRES: the batch before was given to Ack or Fail.
  std::optional<Batch> Pop(const std::stop_token& stop = {}, Duration timeout = kForever);
  // The batch is committed.
  void Ack(const Batch& batch);
  // It is not, and what came after it cannot be either: everything is dropped, and Put fails until
  // Reset.
  void Fail(const Batch& batch);
  // Waits until no batch is out, drops what is left, and takes new deltas again.
  void Reset();

  // Waits until everything put so far is committed; all of it is due now.
  Result<void> WaitUntilEmpty(const std::stop_token& stop = {});
  // Deltas that wait.
  size_t Len() const;
  // Is everything that was put committed?
  bool Idle() const;
  // Would the next Put have to wait for room?
  bool Full() const;
  // No more Puts; Pop hands out what is left, then nullopt.
  void Close();

 private:
  struct KeyHash {
    size_t operator()(const ObjectKey& key) const {
      const std::hash<std::string_view> hash;
      return hash(key.ns) * 31 + hash(key.name);
    }
  };
  using KeyIndex = std::unordered_map<ObjectKey, size_t, KeyHash>;

  struct Segment {
    std::vector<Delta> deltas;
    KeyIndex last_of;  // key → its newest delta
    std::string resource_version;
    size_t bytes = 0;
    bool due = false;  // the consumer is to take it now
    bool Empty() const { return deltas.empty() && resource_version.empty(); }
  };

  bool HasRoom() const LARDER_REQUIRES(mutex_) {
    return open_.deltas.size() < options_.max_items && open_.bytes < options_.max_bytes;
  }
  Result<void> WaitForRoom(const std::stop_token& stop) LARDER_REQUIRES(mutex_);
  void Append(Delta delta) LARDER_REQUIRES(mutex_);
  // The consumer is to take the open segment now.
  void MakeDue() LARDER_REQUIRES(mutex_);
  void Settle(const Batch& batch) LARDER_REQUIRES(mutex_);

  const DeltaFifoOptions options_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  Segment open_ LARDER_GUARDED_BY(mutex_);
  uint64_t out_ LARDER_GUARDED_BY(mutex_) = 0;  // of the batch being committed; 0: none
  uint64_t batches_ LARDER_GUARDED_BY(mutex_) = 0;
  bool failed_ LARDER_GUARDED_BY(mutex_) = false;
  bool closed_ LARDER_GUARDED_BY(mutex_) = false;
};

}  // namespace larder
