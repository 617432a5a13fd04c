#include "queue/queue_state.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace larder::internal {
namespace {

constexpr Nanos kNanosPerMilli = 1'000'000;
// Of the error of an item that is tried again; a dead letter keeps all of it.
constexpr size_t kMaxErrorBytes = 256;

// Rounded up: nothing comes back early.
int64_t ToWallMs(Nanos when, const TimePoint& now) {
  const Nanos ahead = when - now.steady;
  return now.wall_ms + ahead / kNanosPerMilli + (ahead > 0 && ahead % kNanosPerMilli > 0 ? 1 : 0);
}

Nanos NanosOf(int64_t ms) {
  constexpr Nanos kForever = std::numeric_limits<Nanos>::max();
  return ms > kForever / kNanosPerMilli ? kForever : ms * kNanosPerMilli;
}

}  // namespace

const QueueNode& QueueState::Add(std::string_view item, uint32_t hash, Nanos now,
                                 const Request& request) {
  QueueNode* node = FindOrInsert(item, hash);
  if (node->phase == Phase::kDead) Revive(node);
  if (node->phase == Phase::kIdle) {
    node->priority = request.priority;
    Schedule(node, now, request.due);
    MarkDirty(node);
  } else if (Merge(node, now, request)) {
    MarkDirty(node);
  }
  return *node;
}

bool QueueState::AddRetry(std::string_view item, uint32_t hash, const TimePoint& now,
                          const Retry& retry) {
  QueueNode* node = FindOrInsert(item, hash);
  if (node->phase == Phase::kDead) {
    if (node->processing) return false;
    Revive(node);
  }
  node->failures = std::max(node->failures + 1, retry.requeues);
  ++counters_.retries;
  // An item that something new was added for is not given up: that has not been tried yet.
  const bool added_anew = node->phase == Phase::kReady || node->phase == Phase::kParked;
  if (retry.max_retries && node->failures > *retry.max_retries && !added_anew) {
    Bury(node, retry.error, now.wall_ms);
    MarkDirty(node);
    return false;
  }
  if (durable_ && !retry.error.empty()) {
    errors_.insert_or_assign(node, std::string(CutText(retry.error, kMaxErrorBytes)));
  }
  const int32_t inherited = node->processing ? node->priority : 0;
  const Request request{retry.due, retry.priority.value_or(inherited), node->failures};
  if (node->phase == Phase::kIdle) {
    node->priority = request.priority;
    Schedule(node, now.steady, request.due);
  } else {
    Merge(node, now.steady, request);
  }
  MarkDirty(node);
  return true;
}

const QueueNode* QueueState::Take(Nanos now) {
  QueueNode* node = ready_.PopFront();
  if (node == nullptr) return nullptr;
  --counters_.depth;
  ++counters_.processing;
  counters_.sum_started_nanos += now;
  if (node->when != 0 && now != 0) counters_.queue_duration.Observe(now - node->when);
  node->phase = Phase::kIdle;
  node->processing = true;
  node->started = now;
  in_process_.PushBack(node);
  // What is stored for the pending work stands for the run from now on. Where it says something
  // else (a later time, a lower priority), or nothing is stored, the node stays dirty and the run
  // gets a record of its own: it must come back after a crash.
  if (node->dirty && node->stored != 0) {
    Delete(*node, node->stored);
    node->stored = 0;
  }
  node->taken = std::exchange(node->stored, 0);
  return node;
}

void QueueState::Finish(std::string_view item, uint32_t hash, Nanos now) {
  QueueNode* node = nodes_.Find(item, hash);
  if (node == nullptr || !node->processing) return;
  in_process_.Remove(node);
  node->processing = false;
  --counters_.processing;
  counters_.sum_started_nanos -= node->started;
  if (node->started != 0 && now != 0) counters_.work_duration.Observe(now - node->started);
  if (node->taken != 0) Delete(*node, node->taken);
  node->taken = 0;
  if (node->phase == Phase::kReady) ready_.PushBack(node);
  EraseIfUnused(node);
}

void QueueState::Forget(std::string_view item, uint32_t hash) {
  QueueNode* node = nodes_.Find(item, hash);
  if (node == nullptr || node->failures == 0 || node->phase == Phase::kDead) return;
  node->failures = 0;
  errors_.erase(node);
  if (node->phase != Phase::kIdle) MarkDirty(node);
}

uint32_t QueueState::Failures(std::string_view item, uint32_t hash) const {
  const QueueNode* node = nodes_.Find(item, hash);
  return node == nullptr ? 0 : node->failures;
}

void QueueState::Promote(Nanos now) {
  while (has_delayed() && delayed_.NextDue() <= now) {
    QueueNode* node = delayed_.front();
    delayed_.Remove(node);
    // `when` stays the time it was due, from which its wait for a worker counts. Its record needs
    // no change: a time in the past is ready.
    node->phase = Phase::kReady;
    ++counters_.adds;
    ++counters_.depth;
    if (!node->processing) ready_.PushBack(node);
  }
}

void QueueState::Adopt(std::string_view item, uint32_t hash, Nanos now, const Request& record,
                       uint64_t generation) {
  QueueNode* node = FindOrInsert(item, hash);
  if (node->phase == Phase::kDead) Revive(node);
  bool changed = true;
  if (node->phase == Phase::kIdle) {
    node->priority = record.priority;
    node->failures = std::max(node->failures, record.failures);
    Schedule(node, now, record.due);
  } else {
    changed = Merge(node, now, record);
  }
  if (!durable_) return;
  if (Describes(*node, now, record)) {
    // The new generation says all that there is to say: it takes over.
    if (node->stored != 0) Delete(*node, node->stored);
    node->stored = generation;
    node->synced = false;
    if (!node->processing || node->taken != 0 || IsDueNow(*node, now)) Clean(node);
  } else if (!changed && !node->dirty) {
    // The stored one says more.
    Delete(*node, generation);
  } else {
    // Neither does: a merged one will be written, and takes over from both.
    MarkDirty(node);
    if (node->stored == 0) {
      node->stored = generation;
    } else {
      Delete(*node, generation);
    }
  }
}

void QueueState::Load(const Loaded& loaded, const TimePoint& now) {
  const uint32_t hash = HashItem(loaded.item);
  const QueueRecord& record = loaded.record;
  QueueNode* node = nodes_.Find(loaded.item, hash);
  ++counters_.loaded;
  if (node == nullptr && record.dead && done_while_loading_ &&
      done_while_loading_->contains(loaded.item)) {
    // Added anew and done since the start: that came later.
    deletes_.emplace_back(loaded.item, loaded.generation);
    for (const uint64_t generation : loaded.older) deletes_.emplace_back(loaded.item, generation);
    return;
  }
  if (node != nullptr && (record.dead || node->phase == Phase::kDead)) {
    // Added anew, or died anew, since the start: that came later.
    Delete(*node, loaded.generation);
  } else if (record.dead) {
    node = FindOrInsert(loaded.item, hash);
    node->failures = record.failures;
    node->priority = record.priority;
    node->stored = loaded.generation;
    Bury(node, record.last_error, record.added_ms);
  } else {
    // Not longer than it was when it was written: the calendar may be wrong, then or now.
    const int64_t ahead_ms =
        std::min(record.not_before_ms - now.wall_ms, record.not_before_ms - record.added_ms);
    const bool calendar_was_ahead = ahead_ms > 0 && record.added_ms > now.wall_ms;
    const Nanos due = ahead_ms > 0 ? After(now.steady, NanosOf(ahead_ms)) : now.steady;
    Adopt(loaded.item, hash, now.steady, {due, record.priority, record.failures},
          loaded.generation);
    node = nodes_.Find(loaded.item, hash);
    if (!record.last_error.empty()) errors_.try_emplace(node, record.last_error);
    // Written by today's calendar, or the next start would begin the delay anew.
    if (calendar_was_ahead) MarkDirty(node);
  }
  if (loaded.older.empty()) return;
  for (const uint64_t generation : loaded.older) Delete(*node, generation);
  MarkDirty(node);
}

size_t QueueState::Collect(size_t limit, const TimePoint& now,
                           const std::function<uint64_t()>& generation, QueueWrites* writes) {
  while (!deletes_.empty() && writes->deletes.size() < limit) {
    writes->deletes.push_back(std::move(deletes_.back()));
    deletes_.pop_back();
    const std::string_view item = writes->deletes.back().first;
    QueueNode* node = nodes_.Find(item, HashItem(item));
    if (node == nullptr || !node->dirty) continue;
    dirty_.Remove(node);
    CollectPut(node, now, generation, writes);
  }
  size_t in_order = 0;
  for (; writes->puts.size() < limit; ++in_order) {
    QueueNode* node = dirty_.PopFront();
    if (node == nullptr) break;
    CollectPut(node, now, generation, writes);
  }
  return in_order;
}

void QueueState::Restore(QueueWrites writes) {
  for (const StoredQueueItem& put : writes.puts) {
    QueueNode* node = nodes_.Find(put.item, HashItem(put.item));
    if (node == nullptr) continue;
    if (node->stored == put.generation) {
      node->stored = 0;
      MarkDirty(node);
    } else if (node->taken == put.generation) {
      node->taken = 0;
      MarkDirty(node);
    }
  }
  for (auto& deleted : writes.deletes) deletes_.push_back(std::move(deleted));
}

void QueueState::MarkSynced(const std::vector<StoredQueueItem>& puts) {
  for (const StoredQueueItem& put : puts) {
    QueueNode* node = nodes_.Find(put.item, HashItem(put.item));
    if (node != nullptr && node->stored == put.generation) node->synced = true;
  }
}

std::vector<QueueState::Dead> QueueState::DeadItems() const {
  std::vector<Dead> dead;
  dead.reserve(graves_.size());
  for (const auto& [node, grave] : graves_) {
    dead.push_back({std::string(node->item()), node->failures, node->priority, grave.died_ms,
                    grave.last_error});
  }
  std::sort(dead.begin(), dead.end(), [](const Dead& a, const Dead& b) { return a.item < b.item; });
  return dead;
}

std::optional<int32_t> QueueState::DeadPriority(std::string_view item, uint32_t hash) const {
  const QueueNode* node = nodes_.Find(item, hash);
  if (node == nullptr || node->phase != Phase::kDead) return std::nullopt;
  return node->priority;
}

bool QueueState::DropDead(std::string_view item, uint32_t hash) {
  QueueNode* node = nodes_.Find(item, hash);
  if (node == nullptr || node->phase != Phase::kDead) return false;
  Unschedule(node);
  if (node->stored != 0) Delete(*node, node->stored);
  node->stored = 0;
  if (node->taken != 0) Clean(node);
  EraseIfUnused(node);
  return true;
}

std::vector<QueueItemInfo> QueueState::Items(const TimePoint& now) const {
  std::vector<QueueItemInfo> items;
  items.reserve(nodes_.size());
  nodes_.ForEach([&](const QueueNode& node) {
    QueueItemInfo info;
    info.item = node.item();
    info.in_process = node.processing;
    info.pending = node.phase;
    info.priority = node.priority;
    info.failures = node.failures;
    if (node.phase == Phase::kDelayed || node.phase == Phase::kParked) {
      info.not_before_ms = ToWallMs(node.when, now);
    }
    items.push_back(std::move(info));
  });
  std::sort(items.begin(), items.end(),
            [](const QueueItemInfo& a, const QueueItemInfo& b) { return a.item < b.item; });
  return items;
}

QueueCounters QueueState::SnapshotCounters() const {
  QueueCounters counters = counters_;
  counters.oldest_started_nanos = in_process_.empty() ? 0 : in_process_.front()->started;
  counters.items = nodes_.size();
  counters.delayed = delayed_.size();
  counters.dead = graves_.size();
  counters.unwritten = unwritten();
  return counters;
}

QueueNode* QueueState::FindOrInsert(std::string_view item, uint32_t hash) {
  QueueNode* node = nodes_.Find(item, hash);
  return node != nullptr ? node : nodes_.Insert(item, hash);
}

void QueueState::Schedule(QueueNode* node, Nanos now, Nanos due) {
  if (closed_) {
    node->phase = Phase::kParked;
    node->when = std::max(due, now);
  } else if (due > now) {
    node->phase = Phase::kDelayed;
    node->when = due;
    delayed_.Push(node);
  } else {
    node->phase = Phase::kReady;
    node->when = now;
    ++counters_.adds;
    ++counters_.depth;
    if (!node->processing) ready_.PushBack(node);
  }
}

void QueueState::Unschedule(QueueNode* node) {
  switch (node->phase) {
    case Phase::kReady:
      --counters_.depth;
      if (!node->processing) ready_.Remove(node);
      break;
    case Phase::kDelayed:
      delayed_.Remove(node);
      break;
    case Phase::kDead:
      graves_.erase(node);
      break;
    case Phase::kIdle:
    case Phase::kParked:
      break;
  }
  node->phase = Phase::kIdle;
}

// Joins `request` into work that is pending already. Returns whether that changed anything.
bool QueueState::Merge(QueueNode* node, Nanos now, const Request& request) {
  const bool more_failures = request.failures > node->failures;
  if (more_failures) node->failures = request.failures;
  const bool earlier = node->phase != Phase::kReady && request.due < node->when;
  const bool higher = request.priority > node->priority;
  if (!earlier && !higher) return more_failures;

  // A ready one goes to the end of its new list: first in, first out holds within a priority.
  const bool listed = node->phase == Phase::kReady && !node->processing;
  if (listed) ready_.Remove(node);
  if (higher) node->priority = request.priority;
  if (listed) ready_.PushBack(node);
  if (earlier) {
    Unschedule(node);
    Schedule(node, now, request.due);
  }
  return true;
}

void QueueState::Revive(QueueNode* node) {
  Unschedule(node);
  node->failures = 0;
}

void QueueState::Bury(QueueNode* node, std::string_view error, int64_t died_ms) {
  Unschedule(node);
  node->phase = Phase::kDead;
  errors_.erase(node);
  graves_[node] = {std::string(error), died_ms};
}

void QueueState::EraseIfUnused(QueueNode* node) {
  if (node->processing || node->phase != Phase::kIdle) return;
  Clean(node);
  if (!errors_.empty()) errors_.erase(node);
  if (done_while_loading_) done_while_loading_->emplace(node->item());
  nodes_.Erase(node);
}

// Does `record` on its own stand for all of the node's pending work?
bool QueueState::Describes(const QueueNode& node, Nanos now, const Request& record) const {
  if (record.priority != node.priority || record.failures != node.failures) return false;
  if (node.phase == Phase::kReady) return record.due <= now;
  return record.due == node.when;
}

// Will the pending work bring the item back at once? Then its run in process needs no record of its
// own.
bool QueueState::IsDueNow(const QueueNode& node, Nanos now) const {
  return node.phase == Phase::kReady || (node.phase == Phase::kParked && node.when <= now);
}

void QueueState::MarkDirty(QueueNode* node) {
  if (durable_ && !node->dirty) dirty_.PushBack(node);
}

void QueueState::Clean(QueueNode* node) {
  if (node->dirty) dirty_.Remove(node);
}

void QueueState::Delete(const QueueNode& node, uint64_t generation) {
  deletes_.emplace_back(node.item(), generation);
}

void QueueState::CollectPut(QueueNode* node, const TimePoint& now,
                            const std::function<uint64_t()>& generation, QueueWrites* writes) {
  const auto put = [&]() -> StoredQueueItem& {
    StoredQueueItem& stored = writes->puts.emplace_back();
    stored.item = node->item();
    stored.generation = generation();
    stored.record.priority = node->priority;
    stored.record.failures = node->failures;
    stored.record.added_ms = now.wall_ms;
    if (const auto error = errors_.find(node); error != errors_.end()) {
      stored.record.last_error = error->second;
    }
    return stored;
  };
  if (node->processing && node->taken == 0 && !IsDueNow(*node, now.steady)) {
    node->taken = put().generation;
  }
  if (node->phase == Phase::kIdle) return;

  if (node->stored != 0) writes->deletes.emplace_back(node->item(), node->stored);
  StoredQueueItem& pending = put();
  node->stored = pending.generation;
  node->synced = false;
  if (node->phase == Phase::kDead) {
    const Grave& grave = graves_.at(node);
    pending.record.dead = true;
    pending.record.added_ms = grave.died_ms;
    pending.record.last_error = grave.last_error;
  } else if (node->phase != Phase::kReady) {
    pending.record.not_before_ms = ToWallMs(node->when, now);
  } else if (node->when != 0) {
    pending.record.added_ms = ToWallMs(node->when, now);
  }
}

}  // namespace larder::internal
