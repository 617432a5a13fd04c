#include "tests/simulation/journal.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder::simulation {

void Journal::Written() {
  for (auto& [item, later] : later_) later.written = true;
}

void Journal::Synced() {
  for (auto& [item, later] : later_) later.synced = later.written;
}

void Journal::Crash(bool power) {
  power_lost = power_lost || power;
  std::erase_if(later_, [&](const auto& entry) {
    return power ? !entry.second.synced : !entry.second.written;
  });
}

std::string Journal::HandedOut(const WorkItem& item, const std::vector<QueueItemInfo>& queued,
                               int64_t now_ms) {
  for (const QueueItemInfo& other : queued) {
    // One in process waits for its Done.
    if (other.pending == PendingPhase::kReady && !other.in_process &&
        other.priority > item.priority) {
      return fmt::format("{} with priority {} came before {} with {}", item.item, item.priority,
                         other.item, other.priority);
    }
  }
  const auto it = later_.find(item.item);
  if (it == later_.end()) return {};
  const Later later = it->second;
  later_.erase(it);
  if (later.dead) return fmt::format("{} was dead and came back", item.item);
  if (now_ms < later.not_before_ms) {
    return fmt::format("{} came {} ms early", item.item, later.not_before_ms - now_ms);
  }
  if (item.failures != later.failures) {
    return fmt::format("{} came with {} failures, not {}", item.item, item.failures,
                       later.failures);
  }
  if (item.priority < later.priority) {
    return fmt::format("{} came with priority {}, not {}", item.item, item.priority,
                       later.priority);
  }
  return {};
}

std::string Journal::Check(const std::vector<QueueItemInfo>& queued) const {
  for (const auto& [item, later] : later_) {
    const auto info = std::find_if(queued.begin(), queued.end(),
                                   [&](const QueueItemInfo& one) { return one.item == item; });
    if (info == queued.end() || info->pending == PendingPhase::kIdle) {
      return fmt::format("{} was to be tried again at {} and is lost", item, later.not_before_ms);
    }
    if ((info->pending == PendingPhase::kDead) != later.dead) {
      return fmt::format("{} is {}", item, later.dead ? "dead no more" : "dead before its time");
    }
    if (info->failures != later.failures) {
      return fmt::format("{} has {} failures, not {}", item, info->failures, later.failures);
    }
  }
  return {};
}

}  // namespace larder::simulation
