#include "informer/listener.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <functional>
#include <random>

namespace larder {
namespace {

constexpr size_t kRowsPerRead = 256;
constexpr size_t kAcknowledgeEvery = 256;

size_t Cost(const ObjectChange& change) {
  return (change.old ? change.old->ByteSize() : 0) +
         (change.object ? change.object->ByteSize() : 0) + sizeof(ObjectChange);
}

std::string NoteName(const std::string& name, CollectionId collection) {
  return "handler/" + std::to_string(collection) + "/" + name;
}

}  // namespace

Listener::Listener(Indexer* indexer, std::shared_ptr<EventHandler> handler, HandlerOptions options,
                   std::string name, Clock* clock)
    : indexer_(indexer),
      handler_(std::move(handler)),
      options_(std::move(options)),
      name_(std::move(name)),
      clock_(clock),
      rows_(indexer, name_) {}

Listener::~Listener() { Stop(); }

Result<void> Listener::Open(bool complete) {
  std::lock_guard lock(mutex_);
  bool known = false;
  if (!options_.durable_name.empty()) {
    LARDER_ASSIGN_OR_RETURN(const auto note,
                            indexer_->store()->GetNote(NoteName(name_, indexer_->collection().id)));
    known = note && *note == std::to_string(options_.revision);
  }
  if (known) {
    // What was not acknowledged waits on disk.
    LARDER_ASSIGN_OR_RETURN(const bool empty, rows_.Empty());
    rows_waiting_ = spilling_ = !empty;
  } else {
    LARDER_RETURN_IF_ERROR(rows_.Clear());
    note_due_ = !options_.durable_name.empty();
    // What is stored, also of a first list that is not complete: the rest comes with its commits.
    stream_all_ = true;
    stream_view_ = indexer_->TakeView();
  }
  // What belongs to the first list ends here when there is no list to come.
  if (complete) buffer_.push_back({.change = {}, .generation = 0, .list_end = true});
  return {};
}

void Listener::Start() {
  resync_at_ = NextResync();
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void Listener::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

Result<void> Listener::Stage(Indexer::Writer& writer, const ObjectChange& change) {
  std::unique_lock lock(mutex_);
  const bool durable = !options_.durable_name.empty();
  if (!spilling_ && (buffer_.size() + staged_.size() >= options_.buffer_events ||
                     buffer_bytes_ >= options_.buffer_bytes)) {
    spilling_ = true;
  }
  const bool spill = spilling_;
  lock.unlock();
  uint64_t generation = 0;
  if (durable || spill) {
    LARDER_ASSIGN_OR_RETURN(const bool merged, rows_.Merge(writer, change));
    generation = rows_.last_generation();
    lock.lock();
    if (merged && spill) ++stats_.merged;
    if (spill) ++stats_.spilled;
  } else {
    lock.lock();
  }
  if (spill) {
    rows_waiting_ = true;
  } else {
    buffer_bytes_ += Cost(change);
    staged_.push_back({change, generation, false});
  }
  return {};
}

void Listener::Publish(bool committed) {
  std::lock_guard lock(mutex_);
  for (Pending& pending : staged_) {
    if (committed) {
      buffer_.push_back(std::move(pending));
    } else {
      buffer_bytes_ -= Cost(pending.change);
    }
  }
  staged_.clear();
  wake_.notify_all();
}

void Listener::ListComplete() {
  std::lock_guard lock(mutex_);
  buffer_.push_back({.change = {}, .generation = 0, .list_end = true});
  wake_.notify_all();
}

Clock::Steady Listener::NextResync() {
  if (options_.resync_period.count() == 0) return Clock::Steady::max();
  // Spread over a tenth of the period, so that many handlers do not resync at once.
  static thread_local std::minstd_rand random{
      static_cast<unsigned>(std::hash<std::thread::id>()(std::this_thread::get_id()))};
  const auto jitter =
      std::uniform_int_distribution<int64_t>(0, options_.resync_period.count() / 10)(random);
  return clock_->Now() + options_.resync_period + std::chrono::milliseconds(jitter);
}

// Waits for something to do; false: stop.
bool Listener::Wait(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!buffer_.empty() || rows_waiting_ || stream_all_ || clock_->Now() >= resync_at_)
      return true;
    if (!delivered_.empty()) return true;
    clock_->WaitUntil(lock, wake_, resync_at_, stop);
  }
  return false;
}

void Listener::Run(const std::stop_token& stop) {
  while (Wait(stop)) {
    bool stream = false;
    {
      std::lock_guard lock(mutex_);
      stream = stream_all_;
    }
    Result<void> outcome;
    if (stream) outcome = StreamAll(stop, /*resync=*/false);
    if (outcome) DeliverBuffered(stop);
    if (outcome) outcome = AcknowledgeDelivered();
    if (outcome && !stop.stop_requested()) outcome = DeliverRows(stop);
    if (outcome && clock_->Now() >= resync_at_ && !stop.stop_requested()) {
      outcome = StreamAll(stop, /*resync=*/true);
      resync_at_ = NextResync();
    }
    SetError(outcome);
    if (!outcome) {
      spdlog::error("handler {}: {}; trying again", name_, outcome.error().ToString());
      clock_->SleepFor(std::chrono::seconds(1), stop);
    }
  }
  SetError(AcknowledgeDelivered());
}

void Listener::SetError(const Result<void>& outcome) {
  std::lock_guard lock(mutex_);
  stats_.error = outcome ? std::optional<Error>() : outcome.error();
}

void Listener::DeliverBuffered(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Pending next;
    {
      std::lock_guard lock(mutex_);
      if (buffer_.empty()) return;
      // The first list ends when what spilled of it is delivered, too.
      if (buffer_.front().list_end && rows_waiting_) return;
      next = std::move(buffer_.front());
      buffer_.pop_front();
    }
    if (next.list_end) {
      SetError(RememberName());
      synced_.store(true);
      continue;
    }
    Deliver(next.change);
    {
      std::lock_guard lock(mutex_);
      buffer_bytes_ -= Cost(next.change);
    }
    if (next.generation != 0)
      delivered_.emplace_back(next.change.current()->key(), next.generation);
    if (delivered_.size() >= kAcknowledgeEvery) SetError(AcknowledgeDelivered());
  }
}

// From here on the name is known: a restart brings only what is not acknowledged.
Result<void> Listener::RememberName() {
  if (!note_due_) return {};
  Transaction transaction = indexer_->store()->Begin();
  transaction.PutNote(NoteName(name_, indexer_->collection().id),
                      std::to_string(options_.revision));
  LARDER_RETURN_IF_ERROR(indexer_->store()->Commit(std::move(transaction), Durability::kRelaxed));
  note_due_ = false;
  return {};
}

Result<void> Listener::AcknowledgeDelivered() {
  if (delivered_.empty()) return {};
  const auto writer = indexer_->BeginWrite();
  for (const auto& [key, generation] : delivered_) {
    LARDER_RETURN_IF_ERROR(rows_.Acknowledge(*writer, key, generation));
  }
  LARDER_RETURN_IF_ERROR(writer->Commit(Durability::kRelaxed));
  delivered_.clear();
  return {};
}

Result<void> Listener::DeliverRows(const std::stop_token& stop) {
  ObjectKey after;
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (!rows_waiting_) return {};
      if (!buffer_.empty() && !buffer_.front().list_end) return {};  // older than the rows: first
    }
    if (stop.stop_requested()) return {};
    LARDER_ASSIGN_OR_RETURN(std::vector<PendingDeltas::Row> rows, rows_.Read(after, kRowsPerRead));
    size_t done = 0;
    for (; done < rows.size() && !stop.stop_requested(); ++done) {
      Deliver(rows[done].change);
      if (rows[done].then) Deliver(*rows[done].then);
    }
    rows.resize(done);
    const auto writer = indexer_->BeginWrite();
    LARDER_RETURN_IF_ERROR(rows_.Acknowledge(*writer, rows));
    LARDER_RETURN_IF_ERROR(writer->Commit(Durability::kRelaxed));
    if (stop.stop_requested()) return {};
    if (!rows.empty()) {
      after = rows.back().key;
      continue;
    }
    // Past the last key: begin again at the first, or, when no row is left, go back to memory. The
    // write lock is held, so no row can come between the look and the switch.
    LARDER_ASSIGN_OR_RETURN(const bool empty, rows_.Empty());
    if (empty) {
      std::lock_guard lock(mutex_);
      rows_waiting_ = spilling_ = false;
      return {};
    }
    after = {};
  }
}

Result<void> Listener::StreamAll(const std::stop_token& stop, bool resync) {
  Indexer::View view;
  {
    std::lock_guard lock(mutex_);
    view = resync ? indexer_->TakeView() : *stream_view_;
  }
  LARDER_RETURN_IF_ERROR(indexer_->ForEach(
      {}, {},
      [&](const ObjectPtr& object) {
        if (resync) {
          Deliver({ChangeType::kUpdated, object, object, false, false});
        } else {
          Deliver({ChangeType::kAdded, nullptr, object, true, false});
        }
        return !stop.stop_requested();
      },
      view));
  if (resync || stop.stop_requested()) return {};
  std::lock_guard lock(mutex_);
  stream_all_ = false;
  stream_view_.reset();
  return {};
}

void Listener::Deliver(const ObjectChange& change) {
  ObjectChange seen = change;
  if (options_.filter) {
    const bool before = seen.old && options_.filter(*seen.old);
    const bool now = seen.object && options_.filter(*seen.object);
    if (!before && !now) return;
    if (seen.type == ChangeType::kUpdated && !before)
      seen = {ChangeType::kAdded, nullptr, seen.object, false, false};
    if (seen.type == ChangeType::kUpdated && !now)
      seen = {ChangeType::kDeleted, seen.old, nullptr, false, false};
  }
  bool threw = true;
  try {
    switch (seen.type) {
      case ChangeType::kAdded:
        handler_->OnAdd(seen.object, seen.in_initial_list);
        break;
      case ChangeType::kUpdated:
        handler_->OnUpdate(seen.old, seen.object);
        break;
      case ChangeType::kDeleted:
        handler_->OnDelete(seen.old, seen.inferred);
        break;
    }
    threw = false;
  } catch (const std::exception& error) {
    spdlog::error("handler {} threw on {}: {}", name_, seen.current()->key().ToString(),
                  error.what());
  } catch (...) {
    spdlog::error("handler {} threw on {}", name_, seen.current()->key().ToString());
  }
  std::lock_guard lock(mutex_);
  ++stats_.delivered;
  if (threw) ++stats_.exceptions;
}

ListenerStats Listener::Stats() const {
  std::lock_guard lock(mutex_);
  ListenerStats stats = stats_;
  stats.buffered = buffer_.size();
  stats.spilling = spilling_;
  return stats;
}

}  // namespace larder
