#include "storage/workload_recorder.h"

#include "base/thread_name.h"
#include "base/wall_time.h"
#include "storage/store_impl.h"

namespace larder {
namespace {

constexpr size_t kBlockBytes = size_t{256} << 10;
// What may wait for the trace's disk before operations are left out.
constexpr size_t kMaxWaiting = 64;

}  // namespace

WorkloadRecorder::~WorkloadRecorder() {
  TraceSummary ignored;
  if (active() || ended()) (void)Stop(ignored);
}

Result<void> WorkloadRecorder::Start(const RecordOptions& options) {
  MutexLock control(control_mutex_);
  if (writer_) return MakeError(ErrorCode::kAlreadyExists, "the store is being recorded already");
  {
    MutexLock lock(mutex_);
    buffer_.clear();
    buffer_.reserve(kBlockBytes * 2);
    waiting_.clear();
    counts_ = {};
    counts_.started_ms = WallMs(*RealClock());
    last_ = std::chrono::steady_clock::now();
    max_bytes_ = options.max_bytes;
    failure_ = {};
  }
  ended_.store(false);
  // Before there is a file: who sees it may count on being recorded.
  active_.store(true);
  auto writer = TraceWriter::Create(options.path);
  if (!writer) {
    active_.store(false);
    return tl::unexpected(std::move(writer).error());
  }
  writer_ = *std::move(writer);
  thread_ = std::jthread([this](const std::stop_token& stop) { WriteLoop(stop); });
  return {};
}

Result<void> WorkloadRecorder::Stop(TraceSummary& summary) {
  MutexLock control(control_mutex_);
  if (!writer_) return MakeError(ErrorCode::kNotFound, "the store is not being recorded");
  active_.store(false);
  thread_.request_stop();
  thread_.join();
  MutexLock lock(mutex_);
  counts_.ended_ms = WallMs(*RealClock());
  counts_.collections = std::move(summary.collections);
  counts_.memory_limit = summary.memory_limit;
  summary = counts_;
  auto outcome = failure_;
  if (outcome && !buffer_.empty()) outcome = writer_->AddBlock(buffer_);
  if (outcome) outcome = writer_->Finish(summary);
  writer_.reset();
  buffer_ = {};
  spare_ = {};
  ended_.store(false);
  return outcome;
}

void WorkloadRecorder::Add(TraceStep& step) {
  MutexLock lock(mutex_);
  if (!active()) return;
  if (waiting_.size() >= kMaxWaiting) {
    ++counts_.dropped;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  step.micros = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now - last_).count());
  last_ = now;
  switch (step.kind) {
    case TraceStep::Kind::kCommit:
      ++counts_.commits;
      counts_.commit_bytes += step.batch.size();
      break;
    case TraceStep::Kind::kGet:
      ++counts_.gets;
      break;
    case TraceStep::Kind::kScan:
      ++counts_.scans;
      break;
  }
  AppendStep(buffer_, step);
  if (buffer_.size() < kBlockBytes) return;
  waiting_.push_back(std::move(buffer_));
  buffer_ = std::move(spare_);
  spare_ = {};
  buffer_.reserve(kBlockBytes * 2);
  wake_.notify_one();
}

void WorkloadRecorder::Commit(std::string_view batch, bool sync) {
  TraceStep step;
  step.batch = batch;
  step.sync = sync;
  Add(step);
}

void WorkloadRecorder::Get(Family family, std::string_view key) {
  TraceStep step;
  step.kind = TraceStep::Kind::kGet;
  step.family = family;
  step.key = key;
  Add(step);
}

void WorkloadRecorder::Scan(Family family, std::string_view prefix, uint64_t rows) {
  TraceStep step;
  step.kind = TraceStep::Kind::kScan;
  step.family = family;
  step.key = prefix;
  step.rows = rows;
  Add(step);
}

void WorkloadRecorder::WriteLoop(const std::stop_token& stop) {
  NameThread("larder-trace");
  MutexLock lock(mutex_);
  for (;;) {
    wake_.wait(mutex_, stop, [this]() LARDER_REQUIRES(mutex_) { return !waiting_.empty(); });
    if (waiting_.empty()) return;  // asked to stop, and all is written
    // Stays in the queue while it is written, so that the bound on what waits counts it.
    std::string block = std::move(waiting_.front());
    const uint64_t max_bytes = max_bytes_;
    lock.unlock();
    Result<void> outcome = writer_->AddBlock(block);
    const bool full = writer_->bytes() >= max_bytes;
    block.clear();
    lock.lock();
    waiting_.pop_front();
    // Its pages are there already: a new buffer would cost a fault for each of them.
    spare_ = std::move(block);
    if (outcome && !full) continue;
    // What came meanwhile is not recorded; the file ends here.
    counts_.full = counts_.full || full;
    if (!outcome) failure_ = std::move(outcome);
    active_.store(false);
    ended_.store(true);
    waiting_.clear();
    buffer_.clear();
  }
}

Result<TraceSummary> Store::Impl::StopRecording() {
  TraceSummary summary;
  summary.memory_limit = options.memory_limit;
  {
    ReaderLock lock(collections_mutex_);
    for (const auto& [id, collection] : collections_) {
      summary.collections[id] = {collection->fingerprint, collection->resource};
    }
  }
  LARDER_RETURN_IF_ERROR(recorder_.Stop(summary));
  return summary;
}

Result<void> StartRecording(Store& store, const RecordOptions& options) {
  if (!store.impl().writable()) {
    return MakeError(ErrorCode::kUnsupported,
                     "store {} is open for reading only; its owner records", store.options().path);
  }
  return store.impl().recorder().Start(options);
}

Result<TraceSummary> StopRecording(Store& store) { return store.impl().StopRecording(); }

}  // namespace larder
