// Traces: what a store was asked to do, in order, to be done again elsewhere.
//
// A trace file holds every commit (as it was written, with its durability) and every read (which
// key, which range, how many rows), in blocks that are compressed and carry a checksum. It ends
// with a summary, so that one that was cut off is told from one that is complete. It holds what the
// store holds: the file is made with mode 0600, and what is stored encrypted is encrypted in it.
//
// The one process that owns a store records. From inside:
//
//   StartRecording(*store, {.path = "trace"});  ...  StopRecording(*store);
//
// or asked from outside through the store's directory (RequestRecording), which the owner looks at
// every sync_interval. Recording never blocks a commit on the trace's disk: where that is too slow,
// operations are left out and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "storage/collection.h"
#include "storage/family.h"
#include "storage/store.h"

namespace larder {

struct TraceSummary {
  int64_t started_ms = 0;
  int64_t ended_ms = 0;
  uint64_t commits = 0;
  uint64_t gets = 0;
  uint64_t scans = 0;
  uint64_t dropped = 0;       // operations that are missing because the trace's disk was too slow
  uint64_t commit_bytes = 0;  // of the batches
  bool full = false;          // ended because max_bytes were reached
  size_t memory_limit = 0;    // of the store
  struct Stream {
    std::string fingerprint;
    std::string resource;
  };
  std::map<CollectionId, Stream> collections;
};

struct TraceStep {
  enum class Kind : uint8_t { kCommit = 1, kGet = 2, kScan = 3 };
  Kind kind = Kind::kCommit;
  uint64_t micros = 0;  // since the step before
  bool sync = false;    // a commit's
  Family family = Family::kObjects;
  std::string_view key;    // of a get; the prefix of a scan
  uint64_t rows = 0;       // that a scan read
  std::string_view batch;  // of a commit, for ForEachRow and MeasuredStore::Commit
};

// One change in a commit.
struct TraceRow {
  enum class Change : uint8_t { kPut, kDelete, kDeleteRange };
  Change change = Change::kPut;
  Family family = Family::kObjects;
  std::string_view key;
  std::string_view value;  // of a put; the end of a range
};
Result<void> ForEachRow(std::string_view batch, const std::function<void(const TraceRow&)>& visit);

// Writes a trace. Not thread-safe.
class TraceWriter {
 public:
  static Result<std::unique_ptr<TraceWriter>> Create(const std::string& path);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  Result<void> AddCommit(uint64_t micros, const Transaction& transaction, bool sync);
  Result<void> AddStep(const TraceStep& step);
  // Steps that were spelled by AppendStep already.
  Result<void> AddBlock(std::string_view steps);
  // The summary's counts are the caller's.
  Result<void> Finish(const TraceSummary& summary);
  uint64_t bytes() const;

 private:
  struct Rep;
  explicit TraceWriter(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};
void AppendStep(std::string& out, const TraceStep& step);

// Reads a trace. Open reads it once from end to end and fails with kCorruption where it was cut off
// or changed. Not thread-safe.
class TraceReader {
 public:
  static Result<std::unique_ptr<TraceReader>> Open(const std::string& path);
  ~TraceReader();

  const TraceSummary& summary() const;
  uint64_t steps() const;
  // False at the end. What the step views stays until the next call.
  Result<bool> Next(TraceStep& step);
  Result<void> Rewind();

 private:
  struct Rep;
  explicit TraceReader(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

struct RecordOptions {
  std::string path{};
  uint64_t max_bytes = uint64_t{256} << 20;
};
Result<void> StartRecording(Store& store, const RecordOptions& options);
Result<TraceSummary> StopRecording(Store& store);

// Does this trace fit the store, so that replaying it on a copy means something? kInvalidArgument
// names the collection that is missing or another one.
Result<void> CheckTraceFits(const TraceSummary& trace, const Store& store);

}  // namespace larder
