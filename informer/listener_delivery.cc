// The handler's thread: what it delivers, in which order, and what it acknowledges.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>

#include "base/thread_name.h"
#include "informer/listener.h"

namespace larder {
namespace {

constexpr size_t kRowsPerRead = 256;
constexpr size_t kAcknowledgeEvery = 256;
// Objects read at a time while nobody can commit: a millisecond or so.
constexpr size_t kStreamPiece = 128;
// Before it is tried again. Damage waits for a repair, and says so in the store's Health().
constexpr std::chrono::seconds kPause{1};
constexpr std::chrono::seconds kPauseAfterDamage{30};

}  // namespace

// Waits for something to do; false: stop.
bool Listener::Wait(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!buffer_.empty() || rows_waiting_) return true;
    if (stream_ != Stream::kNone && !stream_idle_) return true;
    const Clock::Steady due = unflushed_ > 0 ? std::min(resync_at_, flush_at_) : resync_at_;
    if (clock_->Now() >= due || (unflushed_ == 0 && !delivered_.empty())) return true;
    if (synced_ && note_due_) return true;  // it could not be written yet
    clock_->WaitUntil(mutex_, wake_, due, stop);
  }
  return false;
}

void Listener::Run(const std::stop_token& stop) {
  NameThread("larder-handler");
  thread_id_ = std::this_thread::get_id();
  Work(stop);
  std::shared_ptr<Listener> self;  // the last thing to go
  MutexLock lock(mutex_);
  thread_id_ = std::thread::id();
  ended_ = true;
  wake_.notify_all();
  self = std::move(left_behind_);
}

void Listener::Work(const std::stop_token& stop) {
  while (Wait(stop)) {
    const Result<bool> outcome = DeliverOnce(stop);
    if (outcome && !*outcome) return;
    SetError(outcome ? Result<void>() : tl::unexpected(outcome.error()));
    if (!outcome) {
      spdlog::error("handler {}: {}; trying again", name_, outcome.error().ToString());
      const bool damage = outcome.error().code == ErrorCode::kCorruption;
      clock_->SleepFor(damage ? kPauseAfterDamage : kPause, stop);
    }
  }
  const Result<bool> flushed = Flush(stop);
  if (flushed && !*flushed) return;
  SetError(flushed ? AcknowledgeDelivered() : tl::unexpected(flushed.error()));
}

// False: left behind.
Result<bool> Listener::DeliverOnce(const std::stop_token& stop) {
  BeginResyncWhenDue();
  // What of the stream cannot be read keeps nothing back that came since.
  const Result<void> read = ReadStream();
  LARDER_ASSIGN_OR_RETURN(const bool delivered, DeliverBuffered(stop));
  if (!delivered) return false;
  if (synced_) LARDER_RETURN_IF_ERROR(RememberName());
  if (read && MayGather()) return true;
  LARDER_ASSIGN_OR_RETURN(const bool flushed, Flush(stop));
  if (!flushed) return false;
  LARDER_RETURN_IF_ERROR(AcknowledgeDelivered());
  const bool stream_has_turn = read && FirstStreamIsBehind();
  LARDER_ASSIGN_OR_RETURN(const bool told, DeliverRows(stop, /*one_page=*/stream_has_turn));
  if (!told) return false;
  LARDER_RETURN_IF_ERROR(read);
  return true;
}

Result<void> Listener::DeliverWaiting(const std::stop_token& stop) {
  return DeliverOnce(stop).map([](bool) {});
}

// Rows wait for the acknowledgement of what went through memory: they hold it, too.
bool Listener::MayGather() {
  MutexLock lock(mutex_);
  return unflushed_ > 0 && !rows_waiting_ && clock_->Now() < flush_at_;
}

void Listener::SetError(const Result<void>& outcome) {
  MutexLock lock(mutex_);
  stats_.error = outcome ? std::optional<Error>() : outcome.error();
}

void Listener::BeginResyncWhenDue() {
  MutexLock lock(mutex_);
  if (clock_->Now() < resync_at_) return;
  resync_at_ = NextResync();
  // One that is still under way counts for this one, too; and before the first
  // list is delivered there is nothing to repeat.
  if (stream_ != Stream::kNone || !synced_) return;
  stream_ = Stream::kResync;
  stream_after_ = {};
  ++stats_.resyncs;
}

Result<void> Listener::ReadStream() {
  {
    MutexLock lock(mutex_);
    if (stream_ == Stream::kNone || stream_idle_) return {};
    if (!buffer_.empty() && buffer_.size() >= options_.buffer_events / 2) return {};
  }
  // Nothing is staged while this is held; what is staged after it finds the piece in the buffer.
  const auto writer = indexer_->BeginWrite();
  std::vector<ObjectPtr> piece;
  size_t scanned = 0;
  size_t bytes = 0;
  const size_t most = std::clamp<size_t>(options_.buffer_events / 2, 1, kStreamPiece);
  bool more = false;
  // Read outside of mutex_: a filter may be called.
  ObjectKey after;
  Stream stream = Stream::kNone;
  {
    MutexLock lock(mutex_);
    // What is in memory is delivered before the rows. Of the keys that the first stream has not
    // come to there are none.
    if (rows_waiting_ && stream_ != Stream::kFirst) return {};
    // Changes may have come in before the write lock was ours.
    if (!buffer_.empty() && buffer_.size() >= options_.buffer_events / 2) return {};
    after = stream_after_;
    stream = stream_;
  }
  Result<void> read = indexer_->ForEach(
      options_.ns, after,
      [&](const ObjectPtr& object) {
        if (scanned > 0 && (scanned >= most || bytes >= options_.buffer_bytes / 4)) {
          more = true;
          return false;
        }
        after = object->key();
        ++scanned;
        bytes += object->ByteSize();
        if (Holds(*object)) piece.push_back(object);
        return true;
      },
      indexer_->TakeView());
  MutexLock lock(mutex_);
  if (!read) {
    // A resync has told it all before; it is not worth another look every time.
    const bool damage = read.error().code == ErrorCode::kCorruption;
    if (damage && stream == Stream::kResync) EndStream();
    return read;
  }
  const auto now = clock_->Now();
  for (ObjectPtr& object : piece) {
    ObjectChange change =
        stream == Stream::kResync
            ? ObjectChange{ChangeType::kUpdated, object, object, false, false}
            : ObjectChange{ChangeType::kAdded, nullptr, std::move(object), true, false};
    buffer_bytes_ += change.ByteSize();
    buffer_.push_back({std::move(change), 0, false, now});
  }
  stream_after_ = std::move(after);
  if (more) return {};
  if (stream == Stream::kFirst && !list_complete_) {
    stream_idle_ = true;
  } else {
    EndStream();
  }
  return {};
}

bool Listener::FirstStreamIsBehind() const {
  MutexLock lock(mutex_);
  return stream_ == Stream::kFirst && !stream_idle_;
}

void Listener::EndStream() {
  const bool resync = stream_ == Stream::kResync;
  stream_ = Stream::kNone;
  stream_idle_ = false;
  stream_after_ = {};
  if (!resync && list_complete_) PushListEnd();
}

Result<bool> Listener::DeliverBuffered(const std::stop_token& stop) {
  for (size_t delivered = 0; !stop.stop_requested(); ++delivered) {
    Pending next;
    {
      MutexLock lock(mutex_);
      if (buffer_.empty()) return true;
      // A stream has its turn also while changes come without end.
      if (delivered >= kStreamPiece && stream_ != Stream::kNone) return true;
      // The first list ends when what spilled of it is delivered, too.
      if (rows_waiting_ && OnlyListEndIsBuffered() && !list_rows_told_) return true;
      next = buffer_.front();
    }
    if (next.list_end) {
      LARDER_ASSIGN_OR_RETURN(const bool flushed, Flush(stop));
      if (!flushed) return false;
      static_cast<void>(RememberName());  // where it fails, DeliverOnce tries again
      synced_.store(true);
    } else if (!Deliver(next.change)) {
      return false;
    }
    {
      // Taken out only now, so that what the handler is busy with counts as
      // waiting.
      MutexLock lock(mutex_);
      buffer_.pop_front();
      if (!next.list_end) buffer_bytes_ -= next.change.ByteSize();
    }
    if (next.generation != 0) {
      AddDelivered({next.change.current()->key(), next.generation, next.change.object});
    }
    if (std::max(delivered_.size(), unflushed_) >= kAcknowledgeEvery ||
        delivered_bytes_ > options_.buffer_bytes) {
      LARDER_ASSIGN_OR_RETURN(const bool flushed, Flush(stop));
      if (!flushed) return false;
      SetError(AcknowledgeDelivered());
    }
  }
  return true;
}

// From here on the name is known: a restart brings only what is not acknowledged.
Result<void> Listener::RememberName() {
  if (!note_due_) return {};
  const auto writer = indexer_->BeginWrite();
  if (!IsForgotten(*writer)) LARDER_RETURN_IF_ERROR(names_->Remember(name_, options_.revision));
  note_due_ = false;
  return {};
}

bool Listener::IsForgotten(const Indexer::Writer&) const {
  MutexLock lock(mutex_);
  return forgotten_;
}

void Listener::AddDelivered(PendingDeltas::Delivered delivered) {
  if (delivered.state) delivered_bytes_ += delivered.state->ByteSize();
  delivered_.push_back(std::move(delivered));
}

// What cannot be acknowledged stays, and is tried again before anything is read.
Result<void> Listener::AcknowledgeDelivered() {
  if (delivered_.empty()) return {};
  const auto writer = indexer_->BeginWrite();
  if (IsForgotten(*writer)) return {};
  LARDER_ASSIGN_OR_RETURN(const size_t removed, rows_.Acknowledge(*writer, delivered_));
  if (auto outcome = writer->Commit(Durability::kRelaxed); !outcome) {
    rows_.CommitFailed();
    return outcome;
  }
  delivered_.clear();
  delivered_bytes_ = 0;
  MutexLock lock(mutex_);
  row_count_ -= std::min(row_count_, removed);
  return {};
}

// Of what is in memory nothing is newer than a row. A mark behind which there is no change waits
// for the rows; one with changes behind it was set before the first of them spilled.
bool Listener::OnlyListEndIsBuffered() const {
  return buffer_.size() == 1 && buffer_.front().list_end;
}

// The next page of the round. nullopt: what is in memory comes first, or nothing does any more.
Result<std::optional<std::vector<PendingDeltas::Row>>> Listener::ReadRows() {
  std::optional<Indexer::View> view;
  {
    // No commit is under way now: one that began to spill has put the changes before that into the
    // buffer, and those after it go to disk only.
    const auto writer = indexer_->BeginWrite();
    {
      MutexLock lock(mutex_);
      if (!buffer_.empty() && !OnlyListEndIsBuffered()) return std::nullopt;
      if (rows_after_.name.empty()) list_rows_in_round_ = OnlyListEndIsBuffered();
    }
    view = rows_.BeginRead(*writer);
  }
  LARDER_ASSIGN_OR_RETURN(auto rows,
                          rows_.Read(*view, rows_after_, kRowsPerRead, options_.buffer_bytes));
  ObjectKey last = rows.empty() ? ObjectKey() : rows.back().key;
  const size_t count = rows.size();
  // Let go of before the commit: a store that is to be opened again waits for all who read from it.
  view.reset();
  const auto writer = indexer_->BeginWrite();
  if (IsForgotten(*writer)) return std::nullopt;
  for (PendingDeltas::Row& row : rows) NarrowToFilter(row);
  LARDER_ASSIGN_OR_RETURN(const bool marked, rows_.HandOut(*writer, &rows));
  // On the disk before the handler is told: what a power loss takes back would leave it believing
  // in an object whose delete it does not hear of. One sync for so many rows.
  if (marked) LARDER_RETURN_IF_ERROR(writer->Commit(Durability::kSync));
  rows_after_ = std::move(last);
  // What changed since it was read is told in the next round.
  if (rows.size() < count) list_rows_in_round_ = false;
  return rows;
}

// To the end of the round, or one page of it. False: left behind.
Result<bool> Listener::DeliverRows(const std::stop_token& stop, bool one_page) {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!rows_waiting_) return true;
    }
    if (stop.stop_requested()) return true;
    LARDER_ASSIGN_OR_RETURN(const auto rows, ReadRows());
    if (!rows) return true;
    for (const PendingDeltas::Row& row : *rows) {
      if (stop.stop_requested()) break;
      for (const ObjectChange& change : row.changes) {
        if (!Deliver(change)) return false;
      }
      AddDelivered(PendingDeltas::DeliveredOf(row));
    }
    LARDER_ASSIGN_OR_RETURN(const bool flushed, Flush(stop));
    if (!flushed) return false;
    LARDER_RETURN_IF_ERROR(AcknowledgeDelivered());
    if (stop.stop_requested()) return true;
    if (rows_after_.name.empty()) {
      LARDER_RETURN_IF_ERROR(EndRound());
      return true;
    }
    if (one_page) return true;
  }
}

// When no row was left changes go through memory again. The write lock is held meanwhile, so no row
// can come between the look and the switch.
Result<void> Listener::EndRound() {
  if (list_rows_in_round_) list_rows_told_ = true;
  const auto writer = indexer_->BeginWrite();
  LARDER_ASSIGN_OR_RETURN(const size_t left, rows_.Count(/*limit=*/1));
  if (left > 0) return {};
  MutexLock lock(mutex_);
  row_count_ = 0;
  rows_.NoRowsLeft();
  rows_waiting_ = spilling_ = false;
  return {};
}

bool Listener::Deliver(const ObjectChange& change) {
  {
    MutexLock lock(mutex_);
    busy_ = true;
    delivering_ = &change;
    if (stopping_) wake_.notify_all();
  }
  bool threw = true;
  try {
    Call(change);
    threw = false;
  } catch (const std::exception& error) {
    spdlog::error("handler {} threw on {}: {}", name_, change.current()->key().ToString(),
                  error.what());
  } catch (...) {
    spdlog::error("handler {} threw on {}", name_, change.current()->key().ToString());
  }
  MutexLock lock(mutex_);
  ++stats_.delivered;
  if (threw) ++stats_.exceptions;
  busy_ = false;
  delivering_ = nullptr;
  if (left_behind_ || handler_->IsLeftBehind()) return false;
  if (max_delay_.count() > 0 && unflushed_++ == 0) flush_at_ = clock_->Now() + max_delay_;
  return true;
}

Result<bool> Listener::Flush(const std::stop_token& stop) {
  while (unflushed_ > 0) {
    {
      MutexLock lock(mutex_);
      busy_ = true;
      if (stopping_) wake_.notify_all();
    }
    const Result<void> outcome = CallFlush();
    {
      MutexLock lock(mutex_);
      busy_ = false;
      if (left_behind_ || handler_->IsLeftBehind()) return false;
    }
    SetError(outcome);
    if (outcome) {
      unflushed_ = 0;
      break;
    }
    spdlog::error("handler {}: {}; trying again", name_, outcome.error().ToString());
    if (!clock_->SleepFor(kPause, stop)) return tl::unexpected(outcome.error());
  }
  return true;
}

Result<void> Listener::CallFlush() {
  try {
    return handler_->Flush();
  } catch (const std::exception& error) {
    return MakeError(ErrorCode::kInternal, "its flush threw: {}", error.what());
  } catch (...) {
    return MakeError(ErrorCode::kInternal, "its flush threw");
  }
}

void Listener::Call(const ObjectChange& change) {
  switch (change.type) {
    case ChangeType::kAdded:
      handler_->OnAdd(change.object, change.in_initial_list);
      break;
    case ChangeType::kUpdated:
      handler_->OnUpdate(change.old, change.object);
      break;
    case ChangeType::kDeleted:
      handler_->OnDelete(change.old, change.inferred);
      break;
  }
}

}  // namespace larder
