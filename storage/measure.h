// A store whose every write to disk is counted, to replay a trace on: how `larder tune` compares
// options.
//
//   LARDER_ASSIGN_OR_RETURN(auto measured, MeasuredStore::Open(options));
//   measured->Apply(step);                    // a commit, a get or a scan of a trace
//   const EngineCounters counters = measured->Counters();
//
// Apply is for one thread; the counters may be read from any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/error.h"
#include "storage/store.h"
#include "storage/trace.h"

namespace larder {

// Since the store was opened.
struct EngineCounters {
  uint64_t log_bytes = 0;    // written to the log
  uint64_t table_bytes = 0;  // written by flushes and compactions, blob files too
  uint64_t other_bytes = 0;  // manifests
  uint64_t syncs = 0;
  uint64_t tables_made = 0;
  uint64_t stall_micros = 0;
  // By Apply's gets and scans.
  uint64_t read_blocks = 0;  // fetched from files: not in the block cache
  uint64_t read_bytes = 0;
};

// At this moment.
struct EngineState {
  uint64_t disk_bytes = 0;  // all files
  uint64_t log_bytes = 0;
  uint64_t table_bytes = 0;
  uint64_t table_files = 0;
  uint64_t memory_bytes = 0;  // memtables, block cache, index and filter blocks, dictionaries
};

class MeasuredStore {
 public:
  static Result<std::unique_ptr<MeasuredStore>> Open(const StoreOptions& options);
  ~MeasuredStore();
  MeasuredStore(const MeasuredStore&) = delete;
  MeasuredStore& operator=(const MeasuredStore&) = delete;

  Store& store() const;
  struct Outcome {
    uint64_t rows = 0;   // that were read
    uint64_t bytes = 0;  // of their keys and values
  };
  // What a caller of the store would have done: an object that is read is decoded too.
  Result<Outcome> Apply(const TraceStep& step);
  EngineCounters Counters() const;
  EngineState State() const;
  bool Busy() const;  // a flush or a compaction runs or is due
  // Waits until nothing is flushed or compacted any more.
  Result<void> Settle(const std::stop_token& stop);

 private:
  struct Rep;
  explicit MeasuredStore(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

// Every row of a family, in order, as it is stored. The visitor returns false to stop.
Result<void> ForEachStoredRow(
    const Store& store, Family family,
    const std::function<bool(std::string_view key, std::string_view value)>& visit);
// Puts a row as it is: for copies of whole stores, never for single objects.
void PutStoredRow(Transaction& transaction, Family family, std::string_view key,
                  std::string_view value);
void DeleteStoredRow(Transaction& transaction, Family family, std::string_view key);
void DeleteStoredRange(Transaction& transaction, Family family, std::string_view begin,
                       std::string_view end);
// What an object's row says without being unpacked; nullopt for what is no such row.
struct StoredObject {
  CollectionId collection = 0;
  ObjectKey key;
  uint64_t json_bytes = 0;
  bool encrypted = false;
};
std::optional<StoredObject> DescribeObjectRow(std::string_view key, std::string_view value);
// Does this row of the family meta hold a dictionary?
bool IsDictionaryRow(std::string_view key);
// The collection that a row of objects, indexes or deltas belongs to.
std::optional<CollectionId> CollectionOfRow(std::string_view key);

}  // namespace larder
