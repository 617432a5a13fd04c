#include "queue/work_queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "queue/work_queue_impl.h"

namespace larder {

using internal::HashItem;
using internal::QueueNode;
using internal::QueueState;

namespace {

constexpr internal::Nanos kNever = std::numeric_limits<internal::Nanos>::max();
// A thread that waits for the lock looks after 128 pauses (two or three microseconds), then 256,
// ...: seldom enough that the one who has the lock gets several operations done with its data in
// its own cache, and in all about as long as putting a thread to sleep and waking it takes.
constexpr int kFirstPauses = 128;
constexpr int kLastPauses = 1024;
constexpr size_t kUsualItemBytes = 63;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

WorkQueue::Impl::Impl(WorkQueueOptions options)
    : options_(std::move(options)), state_(options_.store != nullptr) {
  if (options_.rate_limiter == nullptr) {
    options_.rate_limiter = DefaultControllerRateLimiter(options_.clock);
  }
  if (options_.metrics != nullptr && !options_.name.empty()) {
    metrics_ = std::make_unique<internal::QueueMetrics>(options_.metrics, options_.name, durable());
  }
}

Mutex& WorkQueue::Impl::Lock::Acquired(Mutex& mutex) {
  if (mutex.try_lock()) return mutex;
  for (int pauses = kFirstPauses; pauses <= kLastPauses; pauses *= 2) {
    for (int i = 0; i < pauses; ++i) Pause();
    if (mutex.try_lock()) return mutex;
  }
  mutex.lock();
  return mutex;
}

internal::Nanos WorkQueue::Impl::NextDue() const {
  return state_.has_delayed() ? state_.next_due() : kNever;
}

WorkQueue::Impl::Change::Change(Impl* impl)
    : impl_(impl), lock_(impl->mutex_), ready_(impl->state_.ready()), next_due_(impl->NextDue()) {}

WorkQueue::Impl::Change::~Change() {
  const size_t ready = impl_->state_.ready();
  const bool waited_for = impl_->waiting_ > 0;
  const bool wake_all = waited_for && (impl_->NextDue() < next_due_ || ready > ready_ + 1);
  const bool wake_one = waited_for && ready > ready_;
  const bool wake_writer = impl_->writer_idle_ && impl_->state_.unwritten() > 0;
  if (wake_writer) impl_->writer_idle_ = false;
  lock_.unlock();
  if (wake_all) {
    impl_->ready_condition_.notify_all();
  } else if (wake_one) {
    impl_->ready_condition_.notify_one();
  }
  if (wake_writer) impl_->writer_condition_.notify_one();
}

Result<void> WorkQueue::Impl::CheckSize(std::string_view item) const {
  if (item.size() <= kMaxItemBytes) return {};
  return MakeError(ErrorCode::kInvalidArgument, "queue {}: an item of {} bytes; the limit is {}",
                   options_.name, item.size(), kMaxItemBytes);
}

Result<void> WorkQueue::Impl::Add(std::string_view item, const AddOptions& options) {
  LARDER_RETURN_IF_ERROR(CheckSize(item));
  const uint32_t hash = HashItem(item);
  Duration delay = options.after;
  QueueState::Retry retry{0, options.priority, 0, options_.max_retries, options.error};
  if (options.rate_limited) {
    const Duration limited = options_.rate_limiter->When(item);
    delay = delay > Duration(0) ? std::min(delay, limited) : limited;
    retry.requeues = options_.rate_limiter->NumRequeues(item);
  }
  delay = std::max(delay, options.at_least);
  const bool delayed = delay > Duration(0);
  const internal::TimePoint moment =
      options.rate_limited ? Moment() : internal::TimePoint{delayed ? Now() : NowIfMeasured(), 0};
  const Nanos due = delayed ? internal::After(moment.steady, delay.count()) : moment.steady;
  retry.due = due;

  bool alive = true;
  uint64_t ticket = 0;
  {
    Change change(this);
    if (shutting_down_ && !durable()) {
      return MakeError(ErrorCode::kCancelled, "queue {} is shut down", options_.name);
    }
    PromoteDue();
    bool on_disk = false;
    if (options.rate_limited) {
      alive = state_.AddRetry(item, hash, moment, retry);
    } else {
      if (delayed) ++state_.counters().retries;
      const QueueNode& node =
          state_.Add(item, hash, moment.steady, {due, options.priority.value_or(0), 0});
      on_disk = node.synced && !node.dirty;
    }
    const Durability durability = options.durability.value_or(options_.durability);
    if (durable() && durability == Durability::kSync && !on_disk) ticket = ++tickets_;
  }
  // A dead letter that is put back to work begins anew.
  if (!alive) options_.rate_limiter->Forget(item);
  return ticket == 0 ? Result<void>() : SyncThrough(ticket);
}

std::optional<WorkItem> WorkQueue::Impl::Get(const std::stop_token& stop, Duration timeout) {
  Clock::Steady deadline = Clock::Steady::max();
  if (timeout != kForever) deadline = Clock::After(options_.clock->Now(), timeout);
  // Room for most keys before the lock is taken.
  WorkItem taken;
  taken.item.reserve(kUsualItemBytes);
  bool found = false;
  Lock lock(mutex_);
  while (!stop.stop_requested()) {
    PromoteDue();
    if (const QueueNode* node = state_.Take(NowIfMeasured())) {
      taken.item.assign(node->item());
      taken.priority = node->priority;
      taken.failures = node->failures;
      found = true;
      break;
    }
    if (shutting_down_) break;
    if (timeout != kForever && options_.clock->Now() >= deadline) break;
    // One of the waiting workers watches the clock for the next delayed item; the others need not
    // wake for it.
    const bool timer = state_.has_delayed() && !timer_waiting_;
    Clock::Steady wake = deadline;
    if (timer) {
      timer_waiting_ = true;
      wake = std::min(wake, Clock::Steady(std::chrono::nanoseconds(state_.next_due())));
    }
    ++waiting_;
    options_.clock->WaitUntil(mutex_, ready_condition_, wake, stop);
    --waiting_;
    if (timer) timer_waiting_ = false;
  }
  // Pass on what this worker leaves behind: a wake-up it did not use, or the watch on the clock.
  const bool pass_on =
      waiting_ > 0 && (state_.ready() > 0 || (state_.has_delayed() && !timer_waiting_));
  lock.unlock();
  if (pass_on) ready_condition_.notify_one();
  return found ? std::optional(std::move(taken)) : std::nullopt;
}

void WorkQueue::Impl::Done(std::string_view item) {
  const uint32_t hash = HashItem(item);
  const Nanos now = NowIfMeasured();
  Change change(this);
  PromoteDue();
  state_.Finish(item, hash, now);
  if (draining_ && state_.processing() == 0) drained_condition_.notify_all();
}

void WorkQueue::Impl::Forget(std::string_view item) {
  options_.rate_limiter->Forget(item);
  const uint32_t hash = HashItem(item);
  Change change(this);
  state_.Forget(item, hash);
}

uint32_t WorkQueue::Impl::NumRequeues(std::string_view item) const {
  const uint32_t limiter = options_.rate_limiter->NumRequeues(item);
  Lock lock(mutex_);
  return std::max(limiter, state_.Failures(item, HashItem(item)));
}

size_t WorkQueue::Impl::Len() {
  Lock lock(mutex_);
  PromoteDue();
  return state_.ready();
}

void WorkQueue::Impl::ShutDown(bool drain) {
  Lock lock(mutex_);
  shutting_down_ = true;
  draining_ = drain;
  state_.Close();
  ready_condition_.notify_all();
  drained_condition_.notify_all();
  while (draining_ && state_.processing() != 0) drained_condition_.wait(mutex_);
}

bool WorkQueue::Impl::ShuttingDown() const {
  Lock lock(mutex_);
  return shutting_down_;
}

void WorkQueue::Impl::Committed(Staged staged) {
  // Taking the lock in slices lets workers in between.
  constexpr size_t kSlice = 256;
  const std::vector<Staged::Entry> entries = std::move(staged.entries_);
  const Nanos now = NowIfMeasured();
  for (size_t begin = 0; begin < entries.size(); begin += kSlice) {
    const size_t end = std::min(begin + kSlice, entries.size());
    Change change(this);
    if (shutting_down_ && !durable()) return;
    PromoteDue();
    for (size_t i = begin; i < end; ++i) {
      const Staged::Entry& entry = entries[i];
      const uint32_t hash = HashItem(entry.item);
      const QueueState::Request request{now, entry.priority, 0};
      if (entry.generation == 0) {
        state_.Add(entry.item, hash, now, request);
      } else {
        state_.Adopt(entry.item, hash, now, request, entry.generation);
      }
    }
  }
}

std::vector<DeadLetter> WorkQueue::Impl::DeadLetters() const {
  WaitForLoader();
  std::vector<DeadLetter> letters;
  Lock lock(mutex_);
  for (QueueState::Dead& dead : state_.DeadItems()) {
    letters.push_back({std::move(dead.item), dead.failures, dead.priority, dead.died_ms,
                       std::move(dead.last_error)});
  }
  return letters;
}

Result<void> WorkQueue::Impl::Requeue(std::string_view item) {
  WaitForLoader();
  AddOptions options;
  {
    Lock lock(mutex_);
    options.priority = state_.DeadPriority(item, HashItem(item));
  }
  if (!options.priority) {
    return MakeError(ErrorCode::kNotFound, "queue {}: no dead letter {}", options_.name, item);
  }
  return Add(item, options);
}

Result<void> WorkQueue::Impl::Drop(std::string_view item) {
  WaitForLoader();
  Change change(this);
  if (state_.DropDead(item, HashItem(item))) return {};
  return MakeError(ErrorCode::kNotFound, "queue {}: no dead letter {}", options_.name, item);
}

WorkQueue::QueueStatus WorkQueue::Impl::Status() const {
  Lock lock(mutex_);
  // What could not be written may have been done meanwhile.
  const bool failing = write_error_ && (writing_ || state_.unwritten() > 0);
  return {loaded_, state_.unwritten(), failing ? write_error_ : load_error_};
}

QueueCounters WorkQueue::Impl::Counters() {
  Lock lock(mutex_);
  PromoteDue();
  return state_.SnapshotCounters();
}

std::vector<QueueItemInfo> WorkQueue::Impl::Items() {
  const internal::TimePoint now = Moment();
  Lock lock(mutex_);
  PromoteDue();
  return state_.Items(now);
}

void WorkQueue::Impl::PublishMetrics() {
  if (metrics_ == nullptr) return;
  MutexLock publishing(publish_mutex_);
  metrics_->Publish(Counters(), Now());
}

WorkQueue::WorkQueue(WorkQueueOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  const Result<void> started = impl_->Start();
  LARDER_CHECK(started.has_value());
}

WorkQueue::WorkQueue(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<WorkQueue>> WorkQueue::Open(WorkQueueOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  LARDER_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<WorkQueue>(new WorkQueue(std::move(impl)));
}

WorkQueue::~WorkQueue() = default;

Result<void> WorkQueue::Add(std::string_view item) { return impl_->Add(item, {}); }

Result<void> WorkQueue::AddWithOptions(std::string_view item, const AddOptions& options) {
  return impl_->Add(item, options);
}

Result<void> WorkQueue::AddWithPriority(std::string_view item, int32_t priority) {
  AddOptions options;
  options.priority = priority;
  return impl_->Add(item, options);
}

Result<void> WorkQueue::AddAfter(std::string_view item, Duration delay) {
  AddOptions options;
  options.after = delay;
  return impl_->Add(item, options);
}

Result<void> WorkQueue::AddRateLimited(std::string_view item, std::string_view error) {
  AddOptions options;
  options.rate_limited = true;
  options.error = error;
  return impl_->Add(item, options);
}

std::optional<std::string> WorkQueue::Get(const std::stop_token& stop, Duration timeout) {
  std::optional<WorkItem> item = impl_->Get(stop, timeout);
  if (!item) return std::nullopt;
  return std::move(item->item);
}

std::optional<WorkItem> WorkQueue::GetWithPriority(const std::stop_token& stop, Duration timeout) {
  return impl_->Get(stop, timeout);
}

void WorkQueue::Done(std::string_view item) { impl_->Done(item); }
void WorkQueue::Forget(std::string_view item) { impl_->Forget(item); }
uint32_t WorkQueue::NumRequeues(std::string_view item) const { return impl_->NumRequeues(item); }
size_t WorkQueue::Len() const { return impl_->Len(); }
void WorkQueue::ShutDown() { impl_->ShutDown(false); }
void WorkQueue::ShutDownWithDrain() { impl_->ShutDown(true); }
bool WorkQueue::ShuttingDown() const { return impl_->ShuttingDown(); }

Result<void> WorkQueue::Stage(Transaction& transaction, std::string_view item, int32_t priority,
                              Staged* staged) {
  LARDER_ASSIGN_OR_RETURN(const uint64_t generation, impl_->Stage(transaction, item, priority));
  staged->entries_.push_back({std::string(item), generation, priority});
  return {};
}

WorkQueue::Staged WorkQueue::Stage(Transaction& transaction, std::string_view item,
                                   int32_t priority) {
  Staged staged;
  static_cast<void>(Stage(transaction, item, priority, &staged));
  return staged;
}

void WorkQueue::Committed(Staged staged) { impl_->Committed(std::move(staged)); }

std::vector<DeadLetter> WorkQueue::DeadLetters() const { return impl_->DeadLetters(); }
Result<void> WorkQueue::Requeue(std::string_view item) { return impl_->Requeue(item); }
Result<void> WorkQueue::Drop(std::string_view item) { return impl_->Drop(item); }
Durability WorkQueue::durability() const { return impl_->durability(); }
Result<void> WorkQueue::Flush(Durability durability) { return impl_->Flush(durability); }
Result<void> WorkQueue::WaitUntilLoaded(const std::stop_token& stop) const {
  return impl_->WaitUntilLoaded(stop);
}
WorkQueue::QueueStatus WorkQueue::Status() const { return impl_->Status(); }
QueueCounters WorkQueue::Counters() const { return impl_->Counters(); }
std::vector<QueueItemInfo> WorkQueue::Items() const { return impl_->Items(); }
void WorkQueue::PublishMetrics() { impl_->PublishMetrics(); }

}  // namespace larder
