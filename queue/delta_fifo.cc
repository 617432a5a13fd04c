#include "queue/delta_fifo.h"

#include <utility>

namespace larder {
namespace {

bool SameObject(const Delta& a, const Delta& b) {
  return a.object != nullptr && b.object != nullptr && a.object->uid() == b.object->uid();
}

bool IsChange(DeltaType type) { return type == DeltaType::kAdded || type == DeltaType::kUpdated; }

// Joins `next` into the waiting `last` of the same key, where one delta can say both. `next` is
// used up then.
bool Merge(Delta* last, Delta* next) {
  if (last->type == DeltaType::kDeleted && next->type == DeltaType::kDeleted) {
    // A deletion that was seen knows the final state; one that was found out does not.
    if (last->final_state_unknown || !next->final_state_unknown) *last = std::move(*next);
    return true;
  }
  const bool both_changed = IsChange(last->type) && IsChange(next->type);
  const bool both_listed = last->type == DeltaType::kReplaced && next->type == DeltaType::kReplaced;
  if (!(both_changed || both_listed) || !SameObject(*last, *next)) return false;
  // A late event says nothing new. A list's versions are in no order, and come once.
  const auto order =
      CompareResourceVersions(next->object->resource_version(), last->object->resource_version());
  if (both_changed && order.value_or(0) < 0) return true;
  // The consumer has not seen the first one: an add stays an add, of the newest state.
  next->type = last->type;
  *last = std::move(*next);
  return true;
}

}  // namespace

std::string_view ToString(DeltaType type) {
  switch (type) {
    case DeltaType::kAdded:
      return "Added";
    case DeltaType::kUpdated:
      return "Updated";
    case DeltaType::kDeleted:
      return "Deleted";
    case DeltaType::kReplaced:
      return "Replaced";
  }
  return "Unknown";
}

size_t Delta::ByteSize() const {
  return sizeof(Delta) + encoded.size() + (object == nullptr ? 0 : object->ByteSize());
}

Result<void> DeltaFifo::WaitForRoom(const std::stop_token& stop) {
  for (;;) {
    if (closed_ || stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped");
    if (failed_) {
      return MakeError(ErrorCode::kUnavailable, "a commit failed; what came after it is dropped");
    }
    if (HasRoom()) return {};
    MakeDue();
    options_.clock->WaitUntil(mutex_, changed_, Clock::Steady::max(), stop);
  }
}

void DeltaFifo::MakeDue() {
  if (open_.due) return;
  open_.due = true;
  changed_.notify_all();
}

void DeltaFifo::Append(Delta delta) {
  const bool half_full =
      open_.deltas.size() >= options_.max_items / 2 || open_.bytes >= options_.max_bytes / 2;
  if (!delta.in_list || half_full) MakeDue();
  const auto [entry, is_new] = open_.last_of.try_emplace(delta.key, open_.deltas.size());
  if (!is_new) {
    Delta& last = open_.deltas[entry->second];
    const size_t before = last.ByteSize();
    if (Merge(&last, &delta)) {
      open_.bytes = open_.bytes - before + last.ByteSize();
      return;
    }
    entry->second = open_.deltas.size();
  }
  open_.bytes += delta.ByteSize();
  open_.deltas.push_back(std::move(delta));
}

Result<void> DeltaFifo::Put(Delta delta, std::string_view resource_version,
                            const std::stop_token& stop) {
  MutexLock lock(mutex_);
  LARDER_RETURN_IF_ERROR(WaitForRoom(stop));
  Append(std::move(delta));
  const auto order = CompareResourceVersions(resource_version, open_.resource_version);
  if (!resource_version.empty() && order.value_or(1) > 0) open_.resource_version = resource_version;
  return {};
}

Result<void> DeltaFifo::PutCursor(std::string_view resource_version, const std::stop_token& stop) {
  MutexLock lock(mutex_);
  LARDER_RETURN_IF_ERROR(WaitForRoom(stop));
  open_.resource_version = resource_version;
  MakeDue();
  return {};
}

std::optional<DeltaFifo::Batch> DeltaFifo::Pop(const std::stop_token& stop, Duration timeout) {
  Clock::Steady deadline = Clock::Steady::max();
  if (timeout != kForever) deadline = options_.clock->Now() + timeout;
  MutexLock lock(mutex_);
  LARDER_CHECK(out_ == 0);
  while (!open_.due || failed_) {
    if (stop.stop_requested()) return std::nullopt;
    const bool last_call = closed_ || (timeout != kForever && options_.clock->Now() >= deadline);
    if (last_call && (open_.Empty() || failed_)) return std::nullopt;
    if (last_call) break;
    options_.clock->WaitUntil(mutex_, changed_, deadline, stop);
  }
  Segment taken = std::exchange(open_, {});
  out_ = ++batches_;
  changed_.notify_all();
  return Batch{std::move(taken.deltas), std::move(taken.resource_version), out_};
}

void DeltaFifo::Settle(const Batch& batch) {
  LARDER_CHECK(batch.number == out_);
  out_ = 0;
  changed_.notify_all();
}

void DeltaFifo::Ack(const Batch& batch) {
  MutexLock lock(mutex_);
  Settle(batch);
}

void DeltaFifo::Fail(const Batch& batch) {
  MutexLock lock(mutex_);
  Settle(batch);
  failed_ = true;
  open_ = {};
}

void DeltaFifo::Reset() {
  MutexLock lock(mutex_);
  while (out_ != 0 && !closed_) {
    options_.clock->WaitUntil(mutex_, changed_, Clock::Steady::max(), {});
  }
  open_ = {};
  failed_ = false;
  changed_.notify_all();
}

Result<void> DeltaFifo::WaitUntilEmpty(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  for (;;) {
    if (failed_) return MakeError(ErrorCode::kUnavailable, "a commit failed");
    if (out_ == 0 && open_.Empty()) return {};
    if (closed_ || stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped");
    if (!open_.Empty()) MakeDue();
    options_.clock->WaitUntil(mutex_, changed_, Clock::Steady::max(), stop);
  }
}

size_t DeltaFifo::Len() const {
  MutexLock lock(mutex_);
  return open_.deltas.size();
}

bool DeltaFifo::Idle() const {
  MutexLock lock(mutex_);
  return out_ == 0 && open_.Empty();
}

bool DeltaFifo::Full() const {
  MutexLock lock(mutex_);
  return !HasRoom();
}

void DeltaFifo::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace larder
