// The durable half of WorkQueue: possession of a stored queue, writing, group commit, loading, and
// the thread for it.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "base/thread_name.h"
#include "base/wall_time.h"
#include "queue/dead_letter.h"
#include "queue/growing_pause.h"
#include "queue/work_queue_impl.h"
#include "storage/owner_request.h"

namespace larder {

using internal::QueueState;
using internal::QueueWrites;
using namespace std::chrono_literals;

namespace {

constexpr int kGenerationBits = 40;
// Of one transaction: large enough to share the cost of a commit, small enough to be held up by
// nothing.
constexpr size_t kMaxWrites = 2048;
constexpr size_t kLoadChunk = 4096;
constexpr size_t kShownItemBytes = 100;  // of one that is too long
constexpr auto kPublishInterval = 500ms;
constexpr auto kMaxGather = std::chrono::nanoseconds(2ms);
constexpr auto kMaxBackoff = std::chrono::nanoseconds(5s);

// Which queues this process has open: two in one store under one name would process each other's
// items.
class OpenQueues {
 public:
  bool Insert(const Store* store, const std::string& name) {
    MutexLock lock(mutex_);
    return open_.emplace(store, name).second;
  }
  void Erase(const Store* store, const std::string& name) {
    MutexLock lock(mutex_);
    open_.erase({store, name});
  }
  static OpenQueues& Instance() {
    static OpenQueues queues;
    return queues;
  }

 private:
  Mutex mutex_;
  std::set<std::pair<const Store*, std::string>> open_ LARDER_GUARDED_BY(mutex_);
};

// A disk that fails may recover; bytes that are wrong stay wrong.
bool MayPass(const Error& error) { return error.IsRetryable() || error.code == ErrorCode::kIo; }

// Joins another generation of the same item. Work outranks a dead letter: it was added when the
// item was dead.
void MergeStored(const StoredQueueItem& stored, QueueState::Loaded* loaded) {
  loaded->older.push_back(loaded->generation);
  loaded->generation = stored.generation;
  QueueRecord& into = loaded->record;
  const QueueRecord& record = stored.record;
  if (record.dead != into.dead) {
    if (into.dead) into = record;
    return;
  }
  into.added_ms = std::min(into.added_ms, record.added_ms);
  into.not_before_ms = std::min(into.not_before_ms, record.not_before_ms);
  into.priority = std::max(into.priority, record.priority);
  into.failures = std::max(into.failures, record.failures);
  if (!record.last_error.empty()) into.last_error = record.last_error;
}

}  // namespace

internal::TimePoint WorkQueue::Impl::Moment() const { return {Now(), WallMs(*options_.clock)}; }

Result<void> WorkQueue::Impl::Start() {
  if (durable()) {
    LARDER_RETURN_IF_ERROR(TakePossession());
    {
      MutexLock lock(mutex_);
      loaded_ = false;
    }
    AnswerRequests(*options_.store, internal::DeadLetterRequestName(options_.name),
                   [this](const std::string& request) { return AnswerDeadLetters(request); });
  }
  if (options_.flush_interval > 0ms) {
    if (durable() || metrics_ != nullptr) {
      thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
    }
    return {};
  }
  while (durable()) {
    LARDER_ASSIGN_OR_RETURN(const bool more, LoadChunk());
    if (!more) break;
  }
  FinishLoading({});
  return {};
}

Result<void> WorkQueue::Impl::TakePossession() {
  if (options_.name.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "a durable queue needs a name");
  }
  if (!OpenQueues::Instance().Insert(options_.store, options_.name)) {
    return MakeError(ErrorCode::kAlreadyExists, "queue {} is open already", options_.name);
  }
  possessed_ = true;
  LARDER_ASSIGN_OR_RETURN(const uint64_t epoch, NextEpoch());
  first_generation_ = epoch << kGenerationBits;
  next_generation_ = first_generation_;
  // Not synced: a power loss that takes this note takes all that is written after it.
  Transaction transaction = options_.store->Begin();
  transaction.PutNote(EpochNote(), std::to_string(epoch));
  return options_.store->Commit(std::move(transaction), Durability::kRelaxed);
}

Result<uint64_t> WorkQueue::Impl::NextEpoch() const {
  LARDER_ASSIGN_OR_RETURN(const std::optional<std::string> note,
                          options_.store->GetNote(EpochNote()));
  uint64_t epoch = 0;
  if (note) {
    const auto [end, error] = std::from_chars(note->data(), note->data() + note->size(), epoch);
    if (error != std::errc() || end != note->data() + note->size()) {
      return MakeError(ErrorCode::kCorruption, "queue {}: the note {} is \"{}\", not a number",
                       options_.name, EpochNote(), *note);
    }
    return epoch + 1;
  }
  // A queue that was never opened is empty, unless its items were brought here by a tool.
  LARDER_RETURN_IF_ERROR(options_.store->ScanQueue(
      options_.name, {},
      [&epoch](const StoredQueueItem& item) {
        epoch = std::max(epoch, item.generation >> kGenerationBits);
        return true;
      },
      [&epoch](const DamagedQueueItem& item) {
        epoch = std::max(epoch, item.generation >> kGenerationBits);
        return true;
      }));
  return epoch + 1;
}

Result<std::string> WorkQueue::Impl::AnswerDeadLetters(const std::string& request) {
  // The store's thread that asks must not wait: the loading may need it.
  if (!Status().loaded) {
    return MakeError(ErrorCode::kNotReady, "queue {} is still being read; ask again",
                     options_.name);
  }
  auto answer = internal::AnswerDeadLetterRequest(
      request, DeadLetters(), [this](DeadLetterChange change, const std::string& item) {
        return change == DeadLetterChange::kRequeue ? Requeue(item, Durability::kRelaxed)
                                                    : Drop(item);
      });
  // Synced, once for all, and before anybody hears that it is done.
  if (answer) LARDER_RETURN_IF_ERROR(Flush(Durability::kSync));
  return answer;
}

WorkQueue::Impl::~Impl() {
  if (possessed_) {
    StopAnswering(*options_.store, internal::DeadLetterRequestName(options_.name));
  }
  ShutDown(false);
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  // A write that fails here costs no promise: it was relaxed, or its caller was told.
  if (possessed_ && !abandoned_) static_cast<void>(Flush(Durability::kRelaxed));
  if (possessed_) OpenQueues::Instance().Erase(options_.store, options_.name);
}

Result<uint64_t> WorkQueue::Impl::Stage(Transaction& transaction, std::string_view item,
                                        int32_t priority) {
  LARDER_RETURN_IF_ERROR(CheckSize(item));
  // A row in another store would stand for nothing here, and nobody would ever delete it.
  if (!durable() || !options_.store->Began(transaction)) return 0;
  const uint64_t generation = next_generation_.fetch_add(1, std::memory_order_relaxed);
  QueueRecord record;
  record.added_ms = Moment().wall_ms;
  record.priority = priority;
  transaction.PutQueueItem(options_.name, item, generation, record);
  return generation;
}

Result<void> WorkQueue::Impl::Flush(Durability durability) {
  if (!durable()) return {};
  MutexLock flushing(flush_mutex_);
  return FlushLocked(durability);
}

// Group commit: one caller leads, writes all that waits and syncs once; those who come meanwhile
// sleep until its round ends, and one of them leads the next. A group that fails fails for
// everybody in it. The followers take no lock on their way: hundreds that wake for one would queue
// up at it.
Result<void> WorkQueue::Impl::SyncThrough(uint64_t ticket) {
  for (;;) {
    const uint32_t round = group_round_.load();
    if (attempted_through_.load() >= ticket) return SyncOutcome(ticket);
    if (!group_leading_.exchange(true)) break;
    if (GroupIsComplete()) WakeGatherer();
    group_round_.wait(round);
  }
  // Its own ticket may have been in the round that ended just now.
  if (attempted_through_.load() < ticket) LeadGroup();
  group_leading_.store(false);
  ++group_round_;
  group_round_.notify_all();
  return SyncOutcome(ticket);
}

void WorkQueue::Impl::LeadGroup() {
  GatherForSync();
  const auto started = std::chrono::steady_clock::now();
  const uint64_t covered = tickets_.load();
  const Result<void> flushed = Flush(Durability::kSync);
  sync_duration_ = std::chrono::steady_clock::now() - started;
  group_last_.store(covered - attempted_through_.load());
  if (flushed) {
    synced_through_.store(covered);
  } else {
    MutexLock lock(group_mutex_);
    group_error_ = flushed.error();
  }
  attempted_through_.store(covered);  // after the outcome that it lets others read
}

// A later sync that succeeded wrote what an earlier one could not.
Result<void> WorkQueue::Impl::SyncOutcome(uint64_t ticket) {
  if (synced_through_.load() >= ticket) return {};
  MutexLock lock(group_mutex_);
  return tl::unexpected(*group_error_);
}

// Those served by the last sync come back one by one as they wake. The first of them would lead a
// group of one, and all others would wait for two syncs: it waits for half of them, up to the time
// that this may save. The disk's time, not the injected clock's.
void WorkQueue::Impl::GatherForSync() {
  MutexLock lock(group_mutex_);
  group_gather_condition_.wait_for(group_mutex_, std::min(sync_duration_, kMaxGather),
                                   [this] { return GroupIsComplete(); });
}

void WorkQueue::Impl::WakeGatherer() {
  MutexLock lock(group_mutex_);
  group_gather_condition_.notify_one();
}

Result<void> WorkQueue::Impl::FlushLocked(Durability durability) {
  size_t dirty = 0;
  size_t deletes = 0;
  {
    MutexLock lock(mutex_);
    dirty = state_.dirty();
    deletes = state_.deletes();
  }
  bool synced = durability != Durability::kSync;
  // Until all is written that was there at the start; what is added meanwhile is the next flush's.
  while (dirty > 0 || deletes > 0) {
    QueueWrites writes;
    size_t in_order = 0;
    size_t taken_deletes = 0;
    {
      const internal::TimePoint now = Moment();
      MutexLock lock(mutex_);
      const size_t waiting = state_.deletes();
      in_order = state_.Collect(
          kMaxWrites, now,
          [this] { return next_generation_.fetch_add(1, std::memory_order_relaxed); }, &writes);
      taken_deletes = waiting - state_.deletes();
      writing_ = !writes.empty();
    }
    if (writes.empty()) break;
    dirty -= std::min(dirty, in_order);
    // Not all in `writes`: an item that is written anew brings the delete of its old record with
    // it.
    deletes -= std::min(deletes, taken_deletes);
    // A sync covers all that was committed before it, so the last transaction alone needs one.
    const bool last = dirty == 0 && deletes == 0;
    const Durability wanted = last ? durability : Durability::kRelaxed;
    const Nanos started = Now();
    Result<void> committed = Commit(writes, wanted);
    const Nanos ended = Now();
    // The writer's thread may have found nothing to do while this was under way: where it failed,
    // there is something again.
    Change change(this);
    writing_ = false;
    QueueCounters& counters = state_.counters();
    counters.flush_duration.Observe(ended - started);
    if (!committed) {
      ++counters.flush_errors;
      write_error_ = committed.error();
      state_.Restore(std::move(writes));
      return committed;
    }
    write_error_.reset();
    ++counters.flushes;
    counters.records_written += writes.puts.size();
    counters.records_deleted += writes.deletes.size();
    if (wanted == Durability::kSync) {
      synced = true;
      state_.MarkSynced(writes.puts);
    }
  }
  if (!synced) LARDER_RETURN_IF_ERROR(options_.store->Sync());
  return {};
}

Result<void> WorkQueue::Impl::Commit(const QueueWrites& writes, Durability durability) {
  Transaction transaction = options_.store->Begin();
  for (const StoredQueueItem& put : writes.puts) {
    transaction.PutQueueItem(options_.name, put.item, put.generation, put.record);
  }
  for (const auto& [item, generation] : writes.deletes) {
    transaction.DeleteQueueItem(options_.name, item, generation);
  }
  return options_.store->Commit(std::move(transaction), durability);
}

Result<bool> WorkQueue::Impl::LoadChunk() {
  std::vector<QueueState::Loaded> chunk;
  std::vector<DamagedQueueItem> damaged;
  bool more = false;
  const auto load = [&](const StoredQueueItem& stored) {
    // What this process wrote it knows.
    if (stored.generation >= first_generation_) return true;
    if (const auto fits = CheckSize(stored.item); !fits) {
      // Written before Stage refused it. No worker could be given it.
      spdlog::error("skipped: {}; it begins with {}", fits.error().message,
                    stored.item.substr(0, kShownItemBytes));
      return true;
    }
    if (!chunk.empty() && chunk.back().item == stored.item) {
      MergeStored(stored, &chunk.back());
      return true;
    }
    more = chunk.size() == load_limit_;
    if (!more) chunk.push_back({stored.item, stored.record, stored.generation, {}});
    return !more;
  };
  const Result<void> read =
      options_.store->ScanQueue(options_.name, load_after_, load, [&](const DamagedQueueItem& row) {
        // When and how often is not known, but what: it is handed out, at once.
        QueueRecord record;
        record.added_ms = WallMs(*options_.clock);
        if (row.item && !load({*row.item, row.generation, std::move(record)})) return false;
        damaged.push_back(row);
        return true;
      });
  // What can be read later is read again as a whole: an item's other generations may be missing.
  if (!read && MayPass(read.error())) return tl::unexpected(read.error());
  for (const DamagedQueueItem& row : damaged) NoteDamaged(row);
  if (!chunk.empty()) load_after_ = chunk.back().item;
  load_limit_ = kLoadChunk;
  // The disk has them by name, a worker should get them by age. For all but very long queues a
  // chunk is everything.
  std::sort(chunk.begin(), chunk.end(),
            [](const auto& a, const auto& b) { return a.generation < b.generation; });
  LoadInto(chunk);
  load_count_ += chunk.size();
  if (!read) {
    return MakeError(read.error().code,
                     "queue {}: what is stored behind \"{}\" is not handed out: {}; larder verify "
                     "--repair keeps what can be read",
                     options_.name, load_after_, read.error().message);
  }
  return more;
}

void WorkQueue::Impl::NoteDamaged(const DamagedQueueItem& damaged) {
  const std::string what =
      damaged.item ? fmt::format(
                         "the record of \"{}\" is damaged; it is handed out at once, its failures, "
                         "delay and priority are lost",
                         damaged.item->substr(0, kShownItemBytes))
                   : std::string("a record is damaged, and so is its key: that item is lost");
  spdlog::error("queue {}: {}: {}", options_.name, what, damaged.error.message);
  ++load_damaged_;
  if (load_damage_) return;
  load_damage_ = Error{damaged.error.code,
                       fmt::format("queue {}: {} ({}); larder verify --repair takes it away",
                                   options_.name, what, damaged.error.message),
                       {},
                       {}};
}

void WorkQueue::Impl::LoadInto(const std::vector<QueueState::Loaded>& chunk) {
  constexpr size_t kSlice = 256;
  for (const QueueState::Loaded& loaded : chunk) {
    if (loaded.record.failures > 0 && !loaded.record.dead) {
      options_.rate_limiter->Restore(loaded.item, loaded.record.failures);
    }
  }
  const internal::TimePoint now = Moment();
  for (size_t begin = 0; begin < chunk.size(); begin += kSlice) {
    const size_t end = std::min(begin + kSlice, chunk.size());
    Change change(this);
    for (size_t i = begin; i < end; ++i) state_.Load(chunk[i], now);
  }
}

void WorkQueue::Impl::FinishLoading(std::optional<Error> error) {
  if (!error && load_count_ > 0) {
    spdlog::info("queue {}: resumed with {} items that were stored", options_.name, load_count_);
  }
  if (!error && load_damage_) {
    error = load_damage_;
    if (load_damaged_ > 1) error->message += fmt::format(", and {} more", load_damaged_ - 1);
  }
  MutexLock lock(mutex_);
  state_.EndLoading();
  loaded_ = true;
  load_error_ = std::move(error);
  loaded_condition_.notify_all();
}

Result<void> WorkQueue::Impl::WaitUntilLoaded(const std::stop_token& stop) const {
  MutexLock lock(mutex_);
  const auto loaded = [this]() LARDER_REQUIRES(mutex_) { return loaded_; };
  if (!loaded_condition_.wait(mutex_, stop, loaded)) {
    return MakeError(ErrorCode::kCancelled, "queue {}: stopped while loading", options_.name);
  }
  if (load_error_) return tl::unexpected(*load_error_);
  return {};
}

void WorkQueue::Impl::Run(const std::stop_token& stop) {
  NameThread("larder-queue");
  if (durable()) RunLoader(stop);
  std::chrono::nanoseconds backoff{0};
  while (!stop.stop_requested()) {
    MutexLock lock(mutex_);
    WaitForChanges(stop);
    // Gathering for a while, so that an item that is done soon costs no write.
    const Clock::Steady due = options_.clock->Now() + options_.flush_interval + backoff;
    while (!stop.stop_requested() && state_.unwritten() > 0 && options_.clock->Now() < due) {
      options_.clock->WaitUntil(mutex_, writer_condition_, due, stop);
    }
    lock.unlock();
    PublishIfDue();
    if (stop.stop_requested() || Flush(Durability::kRelaxed)) {
      backoff = {};
    } else {
      backoff = internal::NextPause(backoff, options_.flush_interval, kMaxBackoff);
    }
  }
}

void WorkQueue::Impl::PublishIfDue() {
  if (options_.clock->Now() < next_publish_) return;
  PublishMetrics();
  next_publish_ = options_.clock->Now() + kPublishInterval;
}

void WorkQueue::Impl::WaitForChanges(const std::stop_token& stop) {
  const Clock::Steady deadline = metrics_ == nullptr ? Clock::Steady::max() : next_publish_;
  while (!stop.stop_requested() && state_.unwritten() == 0 && options_.clock->Now() < deadline) {
    writer_idle_ = true;
    options_.clock->WaitUntil(mutex_, writer_condition_, deadline, stop);
  }
  writer_idle_ = false;
}

void WorkQueue::Impl::RunLoader(const std::stop_token& stop) {
  Clock::Steady next_flush = options_.clock->Now() + options_.flush_interval;
  Clock::Steady next_try = options_.clock->Now();
  std::chrono::nanoseconds backoff{0};
  while (!stop.stop_requested()) {
    if (options_.clock->Now() < next_try) {
      static_cast<void>(options_.clock->SleepFor(options_.flush_interval, stop));
    } else if (const Result<bool> more = LoadChunk(); more) {
      if (!*more) return FinishLoading({});
      backoff = {};
    } else if (MayPass(more.error())) {
      DelayLoading(more.error(), /*first=*/backoff.count() == 0);
      backoff = internal::NextPause(backoff, options_.flush_interval, kMaxBackoff);
      next_try = options_.clock->Now() + backoff;
    } else {
      spdlog::error("{}", more.error().ToString());
      return FinishLoading(more.error());
    }
    PublishIfDue();
    // Loading a long queue, or waiting for a disk, takes longer than a relaxed add may wait.
    if (options_.clock->Now() >= next_flush) {
      static_cast<void>(Flush(Durability::kRelaxed));
      next_flush = options_.clock->Now() + options_.flush_interval;
    }
  }
  FinishLoading(Error{ErrorCode::kCancelled, "the queue was closed while loading", {}, {}});
}

void WorkQueue::Impl::DelayLoading(const Error& error, bool first) {
  if (first) {
    spdlog::error("queue {}: not loaded yet, trying again: {}", options_.name, error.ToString());
  }
  MutexLock lock(mutex_);
  load_error_ = error;
}

}  // namespace larder
