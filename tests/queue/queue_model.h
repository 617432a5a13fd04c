// A work queue as simple as can be: what the real one is compared with, step by step and across
// crashes.
//
// It says what must be in the queue now, who may be handed out next, and what must come back after
// a crash, exactly: with the writer driven by hand, the disk is a function of the calls. Times are
// milliseconds on the wall clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace larder {

class QueueModel {
 public:
  struct Work {
    int64_t due = 0;  // 0: ready
    int32_t priority = 0;
    uint64_t rank = 0;  // the order of becoming ready; equal ranks in any order
  };

  // A record on disk.
  struct Record {
    int64_t due = 0;
    int32_t priority = 0;
    uint32_t failures = 0;
    bool dead = false;
    friend bool operator==(const Record&, const Record&) = default;
  };

  struct Item {
    std::optional<Work> pending;
    bool dead = false;
    bool in_process = false;
    int32_t run_priority = 0;
    uint32_t failures = 0;

    // On disk: for the pending work (or the grave), for the run, and what is over but not deleted
    // yet.
    std::optional<Record> stored;
    std::optional<Record> taken;
    std::vector<Record> leftovers;
    bool changed = false;  // `stored` no longer says what is pending

    bool Known() const { return pending || dead || in_process; }
  };

  explicit QueueModel(uint32_t max_retries) : max_retries_(max_retries) {}

  void SetTime(int64_t now) {
    now_ = now;
    // By due time, then by the order of adding, which their rank still is.
    std::vector<std::pair<std::pair<int64_t, uint64_t>, Work*>> due;
    for (auto& [name, item] : items) {
      if (item.pending && item.pending->due != 0 && item.pending->due <= now) {
        due.push_back({{item.pending->due, item.pending->rank}, &*item.pending});
      }
    }
    std::sort(due.begin(), due.end());
    for (size_t i = 0; i < due.size(); ++i) {
      if (i == 0 || due[i].first != due[i - 1].first) ++ranks_;
      due[i].second->due = 0;
      due[i].second->rank = ranks_;
    }
  }

  // `due` 0: now.
  void Add(const std::string& name, int64_t due, int32_t priority) {
    Item& item = items[name];
    if (item.dead) item.failures = 0;
    item.dead = false;
    Join(item, due, priority);
  }

  // Returns the delay's base count: the failures before this one.
  void Retry(const std::string& name, int64_t due) {
    Item& item = items[name];
    if (item.dead && item.in_process) return;
    if (item.dead) item.failures = 0;
    item.dead = false;
    ++item.failures;
    const bool added_anew = item.pending && item.pending->due == 0;
    if (item.failures > max_retries_ && !added_anew) {
      item.pending.reset();
      item.dead = true;
      item.changed = true;
      return;
    }
    Join(item, due, item.in_process ? Priority(item) : 0);
    item.changed = true;
  }

  void Forget(const std::string& name) {
    const auto found = items.find(name);
    if (found == items.end() || found->second.dead) return;
    Item& item = found->second;
    if (item.failures != 0 && item.pending) item.changed = true;
    item.failures = 0;
  }

  bool MayBeNext(const std::string& name) const {
    const auto candidate = items.find(name);
    if (candidate == items.end() || !IsReady(candidate->second)) return false;
    const Work& work = *candidate->second.pending;
    for (const auto& [other_name, other] : items) {
      if (!IsReady(other)) continue;
      if (other.pending->priority > work.priority) return false;
      if (other.pending->priority == work.priority && other.pending->rank < work.rank) return false;
    }
    return true;
  }
  bool AnyReady() const {
    return std::any_of(items.begin(), items.end(),
                       [](const auto& entry) { return IsReady(entry.second); });
  }

  void Get(const std::string& name) {
    Item& item = items[name];
    if (!item.changed) {
      item.taken = item.stored;
    } else if (item.stored) {
      item.leftovers.push_back(*item.stored);
    }
    item.stored.reset();
    item.in_process = true;
    item.run_priority = item.pending->priority;
    item.pending.reset();
  }

  void Done(const std::string& name) {
    Item& item = items[name];
    item.in_process = false;
    if (item.taken) item.leftovers.push_back(*item.taken);
    item.taken.reset();
    // It goes to the end of the line now.
    if (item.pending && item.pending->due == 0) item.pending->rank = ++ranks_;
    if (!item.Known()) item.failures = 0;
  }

  void CommitStaged(const std::string& name, int32_t priority) {
    items[name].leftovers.push_back({0, priority, 0, false});
  }
  // The new record stands for the pending work if it says all of it, or if there is no other.
  void Committed(const std::string& name, int32_t priority) {
    Item& item = items[name];
    const bool was_dead = item.dead;
    Add(name, 0, priority);
    const bool says_all = item.pending->priority == priority && item.failures == 0;
    if (item.stored && !says_all && !was_dead) return;
    const Record record{0, priority, 0, false};
    item.leftovers.erase(std::find(item.leftovers.begin(), item.leftovers.end(), record));
    if (item.stored) item.leftovers.push_back(*item.stored);
    item.stored = record;
    item.changed = !says_all;
  }

  // Everything that is known is on disk now, and nothing else; but for what is committed and not
  // known yet.
  void Flush(const std::vector<std::pair<std::string, int32_t>>& staged) {
    for (auto& [name, item] : items) {
      item.leftovers.clear();
      item.changed = false;
      if (item.pending || item.dead) {
        item.stored =
            Record{item.dead ? 0 : item.pending->due, Priority(item), item.failures, item.dead};
      } else {
        item.stored.reset();
      }
      const bool due_now = item.pending && item.pending->due == 0;
      if (item.in_process && !item.taken && !due_now) {
        item.taken = Record{0, Priority(item), item.failures, false};
      }
    }
    for (const auto& [name, priority] : staged) CommitStaged(name, priority);
  }

  // Nothing was written. What was to be replaced is still there, and will be deleted by the flush
  // that succeeds.
  void FailFlush() {
    for (auto& [name, item] : items) {
      if (!item.changed || !item.stored || !(item.pending || item.dead)) continue;
      item.leftovers.push_back(*item.stored);
      item.stored.reset();
    }
  }

  // What is on disk is all there is.
  void Crash() {
    std::map<std::string, Item> survivors;
    ++ranks_;
    for (auto& [name, item] : items) {
      std::vector<Record> records = item.leftovers;
      if (item.stored) records.push_back(*item.stored);
      if (item.taken) records.push_back(*item.taken);
      if (records.empty()) continue;
      const bool live = std::any_of(records.begin(), records.end(),
                                    [](const Record& record) { return !record.dead; });
      Record merged{INT64_MAX, INT32_MIN, 0, !live};
      for (const Record& record : records) {
        if (record.dead == live) continue;
        merged.due = std::min(merged.due, record.due);
        merged.priority = std::max(merged.priority, record.priority);
        merged.failures = std::max(merged.failures, record.failures);
      }
      Item& survivor = survivors[name];
      survivor.failures = merged.failures;
      survivor.dead = merged.dead;
      if (records.size() == 1) {
        survivor.stored = records[0];
      } else {
        survivor.leftovers = records;
        survivor.changed = true;
      }
      if (merged.dead) {
        survivor.run_priority = merged.priority;
      } else {
        survivor.pending = Work{merged.due <= now_ ? 0 : merged.due, merged.priority, ranks_};
      }
    }
    items = std::move(survivors);
  }

  // Forgets items that are neither in the queue nor on disk.
  void Sweep() {
    std::erase_if(items, [](const auto& entry) {
      return !entry.second.Known() && entry.second.leftovers.empty();
    });
  }

  // What the real queue calls an item's priority: of its pending work, else of its run.
  static int32_t Priority(const Item& item) {
    return item.pending ? item.pending->priority : item.run_priority;
  }

  std::map<std::string, Item> items;

 private:
  static bool IsReady(const Item& item) {
    return item.pending && item.pending->due == 0 && !item.in_process;
  }

  void Join(Item& item, int64_t due, int32_t priority) {
    if (due != 0 && due <= now_) due = 0;
    if (!item.pending) {
      item.pending = Work{due, priority, ++ranks_};
      item.run_priority = priority;
      item.changed = true;
      return;
    }
    Work& work = *item.pending;
    const bool earlier = work.due != 0 && due < work.due;
    const bool higher = priority > work.priority;
    if (earlier) work.due = due;
    if (higher) work.priority = priority;
    if (earlier || higher) item.changed = true;
    item.run_priority = work.priority;
    if (earlier || (higher && work.due == 0)) work.rank = ++ranks_;
  }

  const uint32_t max_retries_;
  int64_t now_ = 0;
  uint64_t ranks_ = 0;
};

}  // namespace larder
