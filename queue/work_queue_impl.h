// The inside of WorkQueue: the lock, the waiting and the threads around QueueState.
//
// Locks, in the order in which they are taken: flush_mutex_ (one writer at a time), then mutex_
// (the state) or group_mutex_ (who waits for a sync). No call into the store, the rate limiter or
// the metrics is made under mutex_.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "queue/queue_metrics.h"
#include "queue/queue_state.h"
#include "queue/work_queue.h"

namespace larder {

class WorkQueue::Impl {
 public:
  explicit Impl(WorkQueueOptions options);
  ~Impl();

  // Takes possession of the stored queue and starts the thread.
  Result<void> Start();
  // Of another process, through the store.
  Result<std::string> AnswerDeadLetters(const std::string& request);

  Result<void> Add(std::string_view item, const AddOptions& options);
  std::optional<WorkItem> Get(const std::stop_token& stop, Duration timeout);
  void Done(std::string_view item);
  void Forget(std::string_view item);
  uint32_t NumRequeues(std::string_view item) const;
  size_t Len();
  void ShutDown(bool drain);
  bool ShuttingDown() const;

  uint64_t Stage(Transaction& transaction, std::string_view item, int32_t priority);
  void Committed(Staged staged);

  std::vector<DeadLetter> DeadLetters() const;
  Result<void> Requeue(std::string_view item);
  Result<void> Drop(std::string_view item);

  Result<void> Flush(Durability durability);
  Result<void> WaitUntilLoaded(const std::stop_token& stop) const;
  QueueStatus Status() const;
  QueueCounters Counters();
  std::vector<QueueItemInfo> Items();
  void PublishMetrics();

  // For tests: ends as a killed process does, without the last write.
  void Abandon() { abandoned_ = true; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Nanos = internal::Nanos;

  bool durable() const { return options_.store != nullptr; }
  Nanos Now() const { return options_.clock->Now().time_since_epoch().count(); }
  // Only where somebody looks at it: reading the clock costs as much as half an Add.
  Nanos NowIfMeasured() const { return metrics_ == nullptr ? 0 : Now(); }
  internal::TimePoint Moment() const;
  std::string EpochNote() const { return "queue/" + options_.name + "/epoch"; }

  // Fair is by the time an item became ready: what is due goes before what is added now.
  void PromoteDue() {
    if (state_.has_delayed()) state_.Promote(Now());
  }
  // Takes the lock. What is done under it takes a fraction of a microsecond, so a short wait is
  // cheaper awake than asleep.
  Lock Acquire() const;
  // Lets go of the lock and wakes whoever has something to do since `before`.
  struct Before {
    size_t ready;
    Nanos next_due;
  };
  Before Look() const;
  void Release(Lock lock, const Before& before);

  Result<void> TakePossession();
  Result<uint64_t> NextEpoch() const;
  Result<void> SyncThrough(uint64_t ticket);
  void LeadGroup();
  Result<void> SyncOutcome(uint64_t ticket);
  void GatherForSync();
  void WakeGatherer();
  // Half as many wait as the last sync served: while they are written and synced, the other half
  // wake and come back, so that the disk and the callers work at the same time.
  bool GroupIsComplete() const { return 2 * (tickets_ - attempted_through_) >= group_last_; }
  Result<void> FlushLocked(Durability durability);
  Result<void> Commit(const internal::QueueWrites& writes, Durability durability);
  // One chunk of what is stored. True: there is more.
  Result<bool> LoadChunk();
  void LoadInto(const std::vector<internal::QueueState::Loaded>& chunk);
  void FinishLoading(std::optional<Error> error);

  void Run(const std::stop_token& stop);
  void RunLoader(const std::stop_token& stop);
  void WaitForChanges(Lock& lock, const std::stop_token& stop);

  WorkQueueOptions options_;
  std::unique_ptr<internal::QueueMetrics> metrics_;
  std::mutex publish_mutex_;
  bool possessed_ = false;
  bool abandoned_ = false;

  // Generations of this process begin at first_generation_: epoch * 2^40, with an epoch that counts
  // starts.
  uint64_t first_generation_ = 0;
  std::atomic<uint64_t> next_generation_{1};

  mutable std::mutex mutex_;
  internal::QueueState state_;
  std::condition_variable_any ready_condition_;
  size_t waiting_ = 0;          // workers in Get
  bool timer_waiting_ = false;  // one of them waits for the next delayed item
  bool shutting_down_ = false;
  bool draining_ = false;
  std::condition_variable_any drained_condition_;
  std::condition_variable_any writer_condition_;
  bool writer_idle_ = false;
  bool loaded_ = true;
  std::optional<Error> load_error_;
  std::optional<Error> write_error_;
  mutable std::condition_variable_any loaded_condition_;

  std::mutex flush_mutex_;

  // Group commit: see SyncThrough. A ticket is drawn under mutex_ with the add it stands for.
  std::atomic<uint64_t> tickets_{0};
  std::atomic<uint32_t> group_round_{0};    // counts the leaders that were; followers sleep on it
  std::atomic<bool> group_leading_{false};  // somebody writes for the group
  std::atomic<uint64_t> group_last_{0};     // how many the last sync served
  std::atomic<uint64_t> attempted_through_{0};  // tickets up to this one were in a sync that ended
  std::atomic<uint64_t> synced_through_{0};     // in one that succeeded
  std::chrono::nanoseconds sync_duration_{0};   // of the last one; the leader's
  std::mutex group_mutex_;
  std::condition_variable group_gather_condition_;
  std::optional<Error> group_error_;  // guarded by group_mutex_

  // The loader's, used by one thread.
  std::string load_after_;
  size_t load_limit_ = 256;
  Clock::Steady next_publish_{};

  std::jthread thread_;  // last: it uses everything above
};

}  // namespace larder
