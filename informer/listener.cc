#include "informer/listener.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <random>

#include "schema/key_order.h"

namespace larder {
namespace {

// Has the stream not come to this key yet? `after`: the last that it read.
bool IsAhead(const ObjectKey& key, const ObjectKey& after) {
  return after.name.empty() || ComesBefore(after, key);
}

}  // namespace

Listener::Listener(Indexer* indexer, DurableNames* names, std::shared_ptr<EventHandler> handler,
                   HandlerOptions options, std::string name, Clock* clock)
    : indexer_(indexer),
      names_(names),
      handler_(std::move(handler)),
      options_(std::move(options)),
      name_(std::move(name)),
      clock_(clock),
      rows_(indexer, name_),
      max_delay_(handler_->MaxDelay()) {}

Listener::~Listener() { Stop(); }

Result<void> Listener::Open(bool complete) {
  MutexLock lock(mutex_);
  const auto known = names_->Revision(name_);
  if (!options_.durable_name.empty() && known) {
    // What was not acknowledged waits on disk.
    LARDER_ASSIGN_OR_RETURN(row_count_, rows_.Count());
    if (row_count_ == 0) rows_.NoRowsLeft();
    rows_waiting_ = spilling_ = row_count_ > 0;
    spilling_since_ = clock_->Now();
    note_due_ = *known != options_.revision;
    if (note_due_) stream_ = Stream::kAgain;
  } else {
    LARDER_RETURN_IF_ERROR(rows_.Clear());
    note_due_ = !options_.durable_name.empty();
    // What is stored, also of a first list that is not complete: the rest comes
    // with its commits.
    stream_ = Stream::kFirst;
  }
  if (complete) {
    list_complete_ = true;
    if (stream_ == Stream::kNone) PushListEnd();
  }
  resync_at_ = NextResync();
  return {};
}

void Listener::Start() {
  MutexLock lock(mutex_);
  started_ = true;
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

bool Listener::Stop(Clock::Steady deadline) {
  RequestStop();
  if (OnOwnThread()) return true;
  bool ended = false;
  {
    MutexLock lock(mutex_);
    if (!started_) return true;
    stopping_ = true;
    // Outside of the handler it is our own code, which ends by itself.
    while (!ended_ && !let_go_ && (!busy_ || clock_->Now() < deadline)) {
      clock_->WaitUntil(mutex_, wake_, busy_ ? deadline : Clock::Steady::max(), {});
    }
    if (std::exchange(let_go_, true)) return ended_;
    if (!ended_) {
      spdlog::error(
          "{}: handler {} has not returned from {}: its thread is left behind, and ends when it "
          "does",
          indexer_->collection().spec.ToString(), name_,
          delivering_ ? delivering_->current()->key().ToString() : "its flush");
      left_behind_ = shared_from_this();
      thread_.detach();
      wake_.notify_all();
    }
    ended = ended_;
  }
  if (ended) {
    thread_.join();
  } else {
    handler_->LeaveBehind();
  }
  return ended;
}

Result<void> Listener::Forget() {
  {
    MutexLock lock(mutex_);
    forgotten_ = true;
  }
  if (!options_.durable_name.empty()) LARDER_RETURN_IF_ERROR(names_->Forget(name_));
  return rows_.Clear();
}

bool Listener::Holds(const Object& object) {
  try {
    return !options_.filter || options_.filter(object);
  } catch (const std::exception& error) {
    spdlog::error("the filter of handler {} threw on {}: {}", name_, object.key().ToString(),
                  error.what());
  } catch (...) {
    spdlog::error("the filter of handler {} threw on {}", name_, object.key().ToString());
  }
  MutexLock lock(mutex_);
  ++stats_.exceptions;
  return false;
}

std::optional<ObjectChange> Listener::NarrowToFilter(const ObjectChange& change) {
  if (!options_.ns.empty() && change.current()->ns() != options_.ns) return std::nullopt;
  if (!options_.filter) return change;
  return Narrow(change, [this](const Object& object) { return Holds(object); });
}

void Listener::NarrowToFilter(PendingDeltas::Row& row) {
  std::vector<ObjectChange> seen;
  for (const ObjectChange& change : row.changes) {
    std::optional<ObjectChange> one = NarrowToFilter(change);
    row.narrowed = row.narrowed || !one || one->type != change.type;
    if (one) seen.push_back(*std::move(one));
  }
  // An add that it may have heard of, and that holds no more.
  if (seen.empty() && row.told) {
    const auto gone =
        NarrowToFilter(ObjectChange{ChangeType::kDeleted, row.told, nullptr, false, false});
    if (gone) seen.push_back(*gone);
  }
  row.changes = std::move(seen);
}

bool Listener::HasRoom() const {
  return buffer_.size() + staged_.size() < options_.buffer_events &&
         buffer_bytes_ < options_.buffer_bytes;
}

Result<void> Listener::Stage(Indexer::Writer& writer, const ObjectChange& change) {
  std::optional<ObjectChange> seen = NarrowToFilter(change);
  if (!seen) return {};
  MutexLock lock(mutex_);
  const bool first = stream_ == Stream::kFirst;
  if (const ObjectKey key = seen->current()->key(); first && IsAhead(key, stream_after_)) {
    stream_idle_ = stream_idle_ && !spilling_ && HasRoom();
    if (!stream_idle_) return {};
    stream_after_ = key;
  }
  const bool durable = !options_.durable_name.empty() && !first;
  if (!spilling_ && !HasRoom()) {
    spilling_ = true;
    spilling_since_ = clock_->Now();
  }
  const bool spill = spilling_;
  uint64_t generation = 0;
  if (durable || spill) {
    lock.unlock();
    using Merged = PendingDeltas::Merged;
    LARDER_ASSIGN_OR_RETURN(const Merged merged, rows_.Merge(writer, *seen, spill));
    generation = rows_.last_generation();
    lock.lock();
    if (merged == Merged::kNewRow) ++staged_rows_;
    if (merged == Merged::kTookRowAway) --staged_rows_;
    if (merged != Merged::kNewRow && spill) ++stats_.merged;
    if (spill) ++stats_.spilled;
  }
  if (spill) {
    rows_waiting_ = true;
  } else {
    buffer_bytes_ += seen->ByteSize();
    staged_.push_back({*std::move(seen), generation, false, clock_->Now()});
  }
  return {};
}

void Listener::Publish(bool committed) {
  MutexLock lock(mutex_);
  if (committed) row_count_ += static_cast<size_t>(staged_rows_);  // also what is negative
  if (!committed) rows_.CommitFailed();
  staged_rows_ = 0;
  for (Pending& pending : staged_) {
    if (committed) {
      buffer_.push_back(std::move(pending));
    } else {
      buffer_bytes_ -= pending.change.ByteSize();
    }
  }
  staged_.clear();
  wake_.notify_all();
}

void Listener::ListComplete() {
  MutexLock lock(mutex_);
  if (std::exchange(list_complete_, true)) return;
  if (stream_ == Stream::kNone) {
    PushListEnd();
  } else if (stream_idle_) {
    EndStream();
  }
}

void Listener::PushListEnd() {
  buffer_.push_back({.change = {}, .generation = 0, .list_end = true, .since = {}});
  wake_.notify_all();
}

Clock::Steady Listener::NextResync() const {
  if (options_.resync_period.count() == 0) return Clock::Steady::max();
  // Spread over a tenth of the period, so that many handlers do not resync at once.
  static thread_local std::minstd_rand random{
      static_cast<unsigned>(std::hash<std::thread::id>()(std::this_thread::get_id()))};
  const auto jitter =
      std::uniform_int_distribution<int64_t>(0, options_.resync_period.count() / 10)(random);
  return clock_->Now() + options_.resync_period + std::chrono::milliseconds(jitter);
}

ListenerStats Listener::Stats() const {
  MutexLock lock(mutex_);
  ListenerStats stats = stats_;
  const auto oldest = std::find_if(buffer_.begin(), buffer_.end(),
                                   [](const Pending& pending) { return !pending.list_end; });
  stats.buffered = buffer_.size();
  stats.buffered_bytes = buffer_bytes_;
  stats.rows = row_count_;
  stats.spilling = spilling_;
  if (oldest != buffer_.end() || rows_waiting_) {
    const auto since = oldest != buffer_.end() ? oldest->since : spilling_since_;
    stats.lag = std::chrono::duration_cast<std::chrono::milliseconds>(clock_->Now() - since);
  }
  return stats;
}

}  // namespace larder
