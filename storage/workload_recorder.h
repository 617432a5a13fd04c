// Records what is asked of a store into a trace, beside the work. Internal to storage/.
//
// While nothing is recorded each call costs one relaxed load. While recording, a caller appends to
// a buffer under a mutex; a thread of its own compresses and writes. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "storage/trace.h"

namespace larder {

class WorkloadRecorder {
 public:
  WorkloadRecorder() = default;
  ~WorkloadRecorder();
  WorkloadRecorder(const WorkloadRecorder&) = delete;
  WorkloadRecorder& operator=(const WorkloadRecorder&) = delete;

  bool active() const { return active_.load(std::memory_order_relaxed); }
  void Commit(std::string_view batch, bool sync);
  void Get(Family family, std::string_view key);
  void Scan(Family family, std::string_view prefix, uint64_t rows);

  Result<void> Start(const RecordOptions& options);
  // Fills the counts into `summary` and finishes the file.
  Result<void> Stop(TraceSummary& summary);
  // Reached its size, or its disk failed: Stop it.
  bool ended() const { return ended_.load(); }

 private:
  void Add(TraceStep& step);
  void WriteLoop(const std::stop_token& stop);

  std::atomic<bool> active_{false};
  std::atomic<bool> ended_{false};
  Mutex control_mutex_;  // serialises Start and Stop
  Mutex mutex_ LARDER_ACQUIRED_AFTER(control_mutex_);
  std::condition_variable_any wake_;
  std::string buffer_ LARDER_GUARDED_BY(mutex_);
  std::deque<std::string> waiting_ LARDER_GUARDED_BY(mutex_);
  std::string spare_ LARDER_GUARDED_BY(mutex_);  // a buffer that was written, for the next block
  TraceSummary counts_ LARDER_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point last_ LARDER_GUARDED_BY(mutex_);
  uint64_t max_bytes_ LARDER_GUARDED_BY(mutex_) = 0;
  Result<void> failure_ LARDER_GUARDED_BY(mutex_);
  std::unique_ptr<TraceWriter> writer_;  // the thread's, while there is one
  std::jthread thread_;                  // last: it uses the rest
};

}  // namespace larder
