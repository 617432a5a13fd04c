// The inside of WorkQueue: the lock, the waiting and the threads around QueueState.
//
// No call into the store, the rate limiter or the metrics is made under mutex_.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
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

  Result<uint64_t> Stage(Transaction& transaction, std::string_view item, int32_t priority);
  void Committed(Staged staged);

  std::vector<DeadLetter> DeadLetters() const;
  Result<void> Requeue(std::string_view item, Durability durability);
  Result<void> Drop(std::string_view item);

  Durability durability() const { return options_.durability; }
  Result<void> Flush(Durability durability);
  Result<void> WaitUntilLoaded(const std::stop_token& stop) const;
  QueueStatus Status() const;
  QueueCounters Counters();
  std::vector<QueueItemInfo> Items();
  void PublishMetrics();

  // For tests: ends as a killed process does, without the last write.
  void Abandon() { abandoned_ = true; }

 private:
  using Nanos = internal::Nanos;

  bool durable() const { return options_.store != nullptr; }
  Nanos Now() const { return options_.clock->Now().time_since_epoch().count(); }
  // Only where somebody looks at it: reading the clock costs as much as half an Add.
  Nanos NowIfMeasured() const { return metrics_ == nullptr ? 0 : Now(); }
  internal::TimePoint Moment() const;
  // A node counts its bytes in 16 bits.
  Result<void> CheckSize(std::string_view item) const;
  std::string EpochNote() const { return "queue/" + options_.name + "/epoch"; }

  // Fair is by the time an item became ready: what is due goes before what is added now.
  void PromoteDue() LARDER_REQUIRES(mutex_) {
    if (state_.has_delayed()) state_.Promote(Now());
  }
  // Holds a mutex. What is done under it takes a fraction of a microsecond, so a short wait is
  // cheaper awake than asleep.
  class LARDER_SCOPED_CAPABILITY Lock : public MutexLock {
   public:
    explicit Lock(Mutex& mutex) LARDER_ACQUIRE(mutex)
        : MutexLock(Acquired(mutex), std::adopt_lock) {}
    ~Lock() LARDER_RELEASE() = default;

   private:
    static Mutex& Acquired(Mutex& mutex) LARDER_ACQUIRE(mutex);
  };
  // Holds mutex_, lets go of it and wakes whoever has something to do since.
  class LARDER_SCOPED_CAPABILITY Change {
   public:
    explicit Change(Impl* impl) LARDER_ACQUIRE(impl->mutex_);
    ~Change() LARDER_RELEASE();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    Impl* const impl_;
    Lock lock_;
    const size_t ready_;
    const Nanos next_due_;
  };
  Nanos NextDue() const LARDER_REQUIRES(mutex_);
  // Whatever it could not read: that is no reason to keep the rest from anybody.
  void WaitForLoader() const { static_cast<void>(WaitUntilLoaded({})); }

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
  Result<void> FlushLocked(Durability durability) LARDER_REQUIRES(flush_mutex_);
  Result<void> Commit(const internal::QueueWrites& writes, Durability durability);
  // One chunk of what is stored. True: there is more.
  Result<bool> LoadChunk();
  void NoteDamaged(const DamagedQueueItem& damaged);
  void LoadInto(const std::vector<internal::QueueState::Loaded>& chunk);
  void FinishLoading(std::optional<Error> error);
  void DelayLoading(const Error& error, bool first);

  void Run(const std::stop_token& stop);
  void RunLoader(const std::stop_token& stop);
  void WaitForChanges(const std::stop_token& stop) LARDER_REQUIRES(mutex_);
  void PublishIfDue();

  WorkQueueOptions options_;
  Mutex publish_mutex_;
  std::unique_ptr<internal::QueueMetrics> metrics_ LARDER_PT_GUARDED_BY(publish_mutex_);
  bool possessed_ = false;
  bool abandoned_ = false;

  // Generations of this process begin at first_generation_: epoch * 2^40, with an epoch that counts
  // starts.
  uint64_t first_generation_ = 0;
  std::atomic<uint64_t> next_generation_{1};

  Mutex flush_mutex_;  // one writer at a time
  mutable Mutex mutex_ LARDER_ACQUIRED_AFTER(flush_mutex_, publish_mutex_);
  internal::QueueState state_ LARDER_GUARDED_BY(mutex_);
  std::condition_variable_any ready_condition_;
  size_t waiting_ LARDER_GUARDED_BY(mutex_) = 0;  // workers in Get
  // One of them waits for the next delayed item.
  bool timer_waiting_ LARDER_GUARDED_BY(mutex_) = false;
  bool shutting_down_ LARDER_GUARDED_BY(mutex_) = false;
  bool draining_ LARDER_GUARDED_BY(mutex_) = false;
  std::condition_variable_any drained_condition_;
  std::condition_variable_any writer_condition_;
  bool writer_idle_ LARDER_GUARDED_BY(mutex_) = false;
  bool loaded_ LARDER_GUARDED_BY(mutex_) = true;
  std::optional<Error> load_error_ LARDER_GUARDED_BY(mutex_);
  bool writing_ LARDER_GUARDED_BY(mutex_) = false;              // what was unwritten is on its way
  std::optional<Error> write_error_ LARDER_GUARDED_BY(mutex_);  // of the last write
  mutable std::condition_variable_any loaded_condition_;

  // Group commit: see SyncThrough. A ticket is drawn under mutex_ with the add it stands for.
  std::atomic<uint64_t> tickets_{0};
  std::atomic<uint32_t> group_round_{0};    // counts the leaders that were; followers sleep on it
  std::atomic<bool> group_leading_{false};  // somebody writes for the group
  std::atomic<uint64_t> group_last_{0};     // how many the last sync served
  std::atomic<uint64_t> attempted_through_{0};  // tickets up to this one were in a sync that ended
  std::atomic<uint64_t> synced_through_{0};     // in one that succeeded
  std::chrono::nanoseconds sync_duration_{0};   // of the last one; the leader's
  Mutex group_mutex_ LARDER_ACQUIRED_AFTER(flush_mutex_);
  std::condition_variable_any group_gather_condition_;
  std::optional<Error> group_error_ LARDER_GUARDED_BY(group_mutex_);

  // The loader's, used by one thread.
  std::string load_after_;
  size_t load_limit_ = 256;
  size_t load_count_ = 0;             // items that were stored
  size_t load_damaged_ = 0;           // records that could not be read
  std::optional<Error> load_damage_;  // what the first of them is
  Clock::Steady next_publish_{};

  std::jthread thread_;  // last: it uses everything above
};

}  // namespace larder
