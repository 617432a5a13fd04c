#include "queue/delta_fifo.h"

#include <unordered_set>
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
  if (next->type == DeltaType::kSync) return true;  // what waits is newer than a resync
  if (last->type == DeltaType::kSync) {
    *last = std::move(*next);
    return true;
  }
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
    case DeltaType::kSync:
      return "Sync";
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
      ++merged_;
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

Result<bool> DeltaFifo::AddIfNotPresent(Delta delta, const std::stop_token& stop) {
  MutexLock lock(mutex_);
  LARDER_RETURN_IF_ERROR(WaitForRoom(stop));
  if (Waiting(delta.key) != nullptr) return false;
  Append(std::move(delta));
  return true;
}

Result<void> DeltaFifo::EndReplace(std::string_view resource_version, const std::stop_token& stop) {
  MutexLock lock(mutex_);
  LARDER_RETURN_IF_ERROR(WaitForRoom(stop));
  open_.resource_version = resource_version;
  open_.list_end = true;
  MakeDue();
  return {};
}

Result<void> DeltaFifo::Replace(const std::vector<ObjectPtr>& list, const KnownObjects& known,
                                std::string_view resource_version, const std::stop_token& stop) {
  std::vector<Delta> gone = FindGone(list, known);
  for (const ObjectPtr& object : list) {
    Delta delta{DeltaType::kReplaced, object->key(), object, {}, true, false};
    LARDER_RETURN_IF_ERROR(Put(std::move(delta), {}, stop));
  }
  for (Delta& delta : gone) LARDER_RETURN_IF_ERROR(Put(std::move(delta), {}, stop));
  return EndReplace(resource_version, stop);
}

std::vector<Delta> DeltaFifo::FindGone(const std::vector<ObjectPtr>& list,
                                       const KnownObjects& known) const {
  std::unordered_set<ObjectKey, KeyHash> handled;
  for (const ObjectPtr& object : list) handled.insert(object->key());
  std::vector<Delta> gone;
  {
    // First what waits here: its state is newer than the one that is known.
    MutexLock lock(mutex_);
    for (const Segment* segment : {&again_, &open_}) {
      for (const auto& entry : segment->last_of) {
        if (!handled.insert(entry.first).second) continue;
        const Delta* last = Waiting(entry.first);
        if (last->type == DeltaType::kDeleted) continue;
        gone.push_back({DeltaType::kDeleted, entry.first, last->object, {}, true, true});
      }
    }
  }
  if (known == nullptr) return gone;
  known([&](const ObjectPtr& object) {
    if (handled.insert(object->key()).second) {
      gone.push_back({DeltaType::kDeleted, object->key(), object, {}, true, true});
    }
    return true;
  });
  return gone;
}

Result<size_t> DeltaFifo::Resync(const KnownObjects& known, const std::stop_token& stop) {
  size_t added = 0;
  Result<void> room;
  known([&](const ObjectPtr& object) {
    MutexLock lock(mutex_);
    room = WaitForRoom(stop);
    if (!room) return false;
    ObjectKey key = object->key();
    if (out_keys_.count(key) != 0 || Waiting(key) != nullptr) return true;
    Append({DeltaType::kSync, std::move(key), object, {}, false, false});
    ++added;
    return true;
  });
  LARDER_RETURN_IF_ERROR(room);
  return added;
}

const Delta* DeltaFifo::Waiting(const ObjectKey& key) const {
  for (const Segment* segment : {&open_, &again_}) {
    const auto found = segment->last_of.find(key);
    if (found != segment->last_of.end()) return &segment->deltas[found->second];
  }
  return nullptr;
}

std::optional<DeltaFifo::Batch> DeltaFifo::Pop(const std::stop_token& stop, Duration timeout) {
  Clock::Steady deadline = Clock::Steady::max();
  if (timeout != kForever) deadline = options_.clock->Now() + timeout;
  MutexLock lock(mutex_);
  LARDER_CHECK(out_ == 0);
  while ((again_.Empty() && !open_.due) || failed_) {
    if (stop.stop_requested()) return std::nullopt;
    const bool last_call = closed_ || (timeout != kForever && options_.clock->Now() >= deadline);
    if (last_call && (open_.Empty() || failed_)) return std::nullopt;
    if (last_call) break;
    options_.clock->WaitUntil(mutex_, changed_, deadline, stop);
  }
  Segment taken = std::exchange(again_.Empty() ? open_ : again_, {});
  out_keys_ = std::move(taken.last_of);
  out_ = ++batches_;
  changed_.notify_all();
  return Batch{std::move(taken.deltas), std::move(taken.resource_version), taken.list_end, out_};
}

void DeltaFifo::Settle(const Batch& batch) {
  LARDER_CHECK(batch.number == out_);
  out_ = 0;
  out_keys_.clear();
  changed_.notify_all();
}

void DeltaFifo::Ack(const Batch& batch) {
  MutexLock lock(mutex_);
  Settle(batch);
  if (batch.list_end) synced_ = true;
}

void DeltaFifo::Requeue(Batch batch) {
  MutexLock lock(mutex_);
  Settle(batch);
  again_.deltas = std::move(batch.deltas);
  again_.resource_version = std::move(batch.resource_version);
  again_.list_end = batch.list_end;
  for (size_t i = 0; i < again_.deltas.size(); ++i) {
    again_.last_of.insert_or_assign(again_.deltas[i].key, i);
    again_.bytes += again_.deltas[i].ByteSize();
  }
}

void DeltaFifo::Fail(const Batch& batch) {
  MutexLock lock(mutex_);
  Settle(batch);
  failed_ = true;
  again_ = {};
  open_ = {};
}

void DeltaFifo::Reset() {
  MutexLock lock(mutex_);
  while (out_ != 0 && !closed_) {
    options_.clock->WaitUntil(mutex_, changed_, Clock::Steady::max(), {});
  }
  again_ = {};
  open_ = {};
  failed_ = false;
  changed_.notify_all();
}

Result<void> DeltaFifo::WaitUntilEmpty(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  for (;;) {
    if (failed_) return MakeError(ErrorCode::kUnavailable, "a commit failed");
    if (out_ == 0 && again_.Empty() && open_.Empty()) return {};
    if (closed_ || stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped");
    if (!open_.Empty()) MakeDue();
    options_.clock->WaitUntil(mutex_, changed_, Clock::Steady::max(), stop);
  }
}

bool DeltaFifo::HasSynced() const {
  MutexLock lock(mutex_);
  return synced_;
}

size_t DeltaFifo::Len() const {
  MutexLock lock(mutex_);
  return again_.deltas.size() + open_.deltas.size();
}

bool DeltaFifo::Full() const {
  MutexLock lock(mutex_);
  return !HasRoom();
}

uint64_t DeltaFifo::Merged() const {
  MutexLock lock(mutex_);
  return merged_;
}

void DeltaFifo::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace larder
