// Operations as a live store recorded them. Objects are unpacked with the dictionaries of the store
// that the trace is of, so that they can be packed in another way.
#include <map>

#include "storage/measure.h"
#include "tuning/source.h"

namespace larder::tuning {
namespace {

constexpr size_t kBaseBatchBytes = size_t{256} << 10;
// Above this many commits a second compactions have no time to themselves.
constexpr double kBurstCommitsPerSecond = 2000;

class TraceSource final : public WorkSource {
 public:
  TraceSource(std::string path, const Store& store, std::string base,
              std::unique_ptr<TraceReader> reader)
      : path_(std::move(path)), store_(store), base_(std::move(base)), reader_(std::move(reader)) {}

  std::string Name() const override { return "trace " + path_; }
  std::string Fingerprint() const override {
    const TraceSummary& summary = reader_->summary();
    return fmt::format("trace-{}-{}-{}-{}-{}", summary.started_ms, summary.ended_ms,
                       summary.commits, summary.commit_bytes, base_);
  }
  bool Burst() const override {
    const TraceSummary& summary = reader_->summary();
    const double seconds =
        static_cast<double>(std::max<int64_t>(1, summary.ended_ms - summary.started_ms)) / 1000;
    return static_cast<double>(summary.commits) / seconds > kBurstCommitsPerSecond;
  }
  uint64_t Steps() const override { return reader_->steps(); }

  Result<void> Prepare(Store& store) override {
    Transaction transaction = store.Begin();
    LARDER_RETURN_IF_ERROR(
        ForEachStoredRow(store_, Family::kMeta, [&](std::string_view key, std::string_view value) {
          if (!IsDictionaryRow(key)) PutStoredRow(transaction, Family::kMeta, key, value);
          return true;
        }));
    return store.Commit(std::move(transaction), Durability::kSync);
  }

  Result<void> Base(Store& store, const Batch& batch) override {
    for (const Family family :
         {Family::kObjects, Family::kIndexes, Family::kQueues, Family::kDeltas}) {
      auto step = std::make_unique<Step>(store);
      Result<void> outcome;
      LARDER_RETURN_IF_ERROR(
          ForEachStoredRow(store_, family, [&](std::string_view key, std::string_view value) {
            outcome = Put(*step, family, key, value);
            if (outcome && step->transaction.ByteSize() >= kBaseBatchBytes) {
              outcome = batch(*step);
              step = std::make_unique<Step>(store);
            }
            return outcome.has_value();
          }));
      LARDER_RETURN_IF_ERROR(outcome);
      LARDER_RETURN_IF_ERROR(batch(*step));
    }
    return reader_->Rewind();
  }

  Result<bool> Next(Step& step) override {
    TraceStep raw;
    LARDER_ASSIGN_OR_RETURN(const bool more, reader_->Next(raw));
    if (!more) return false;
    step.kind = raw.kind;
    step.micros = raw.micros;
    step.sync = raw.sync;
    step.family = raw.family;
    step.key = raw.key;
    step.rows = raw.rows;
    if (raw.kind != TraceStep::Kind::kCommit) return true;
    Result<void> outcome;
    LARDER_RETURN_IF_ERROR(ForEachRow(raw.batch, [&](const TraceRow& row) {
      if (!outcome) return;
      switch (row.change) {
        case TraceRow::Change::kPut:
          outcome = Put(step, row.family, row.key, row.value);
          break;
        case TraceRow::Change::kDelete:
          DeleteStoredRow(step.transaction, row.family, row.key);
          break;
        case TraceRow::Change::kDeleteRange:
          DeleteStoredRange(step.transaction, row.family, row.key, row.value);
          break;
      }
    }));
    LARDER_RETURN_IF_ERROR(outcome);
    return true;
  }

 private:
  Result<void> Put(Step& step, Family family, std::string_view key, std::string_view value) {
    if (family == Family::kMeta && IsDictionaryRow(key)) return {};
    if (family == Family::kObjects) {
      const auto row = DescribeObjectRow(key, value);
      if (row && !row->encrypted) {
        const auto object = store_.Decode(row->collection, row->key, value);
        if (object) return step.PutObject(row->collection, **object);
        // Its dictionary may be gone since it was recorded; its size still counts.
      }
    }
    PutStoredRow(step.transaction, family, key, value);
    return {};
  }

  const std::string path_;
  const Store& store_;
  const std::string base_;  // FingerprintOf it
  const std::unique_ptr<TraceReader> reader_;
};

}  // namespace

Result<std::unique_ptr<WorkSource>> SourceOfTrace(const std::string& path, const Store& store) {
  LARDER_ASSIGN_OR_RETURN(auto reader, TraceReader::Open(path));
  LARDER_RETURN_IF_ERROR(CheckTraceFits(reader->summary(), store));
  if (reader->summary().commits == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the trace {} has no commits: nothing was written while it was recorded",
                     path);
  }
  LARDER_ASSIGN_OR_RETURN(std::string base, FingerprintOf(store));
  return std::unique_ptr<WorkSource>(
      std::make_unique<TraceSource>(path, store, std::move(base), std::move(reader)));
}

}  // namespace larder::tuning
