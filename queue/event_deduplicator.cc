#include "queue/event_deduplicator.h"

#include <optional>

#include "schema/object.h"

namespace larder {

bool EventDeduplicator::ShouldProcess(std::string_view key, std::string_view resource_version) {
  const Clock::Steady now = options_.clock->Now();
  MutexLock lock(mutex_);
  DropExpired(now);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    Record& record = *found->second;
    const std::optional<int> order =
        CompareResourceVersions(resource_version, record.resource_version);
    if (order && *order <= 0) {
      ++dropped_;
      return false;
    }
    record.resource_version = resource_version;
    record.expires = now + options_.ttl;
    records_.splice(records_.end(), records_, found->second);
    return true;
  }
  if (options_.max_keys == 0) return true;
  if (records_.size() == options_.max_keys) EraseOldest();
  records_.push_back({std::string(key), std::string(resource_version), now + options_.ttl});
  by_key_.emplace(records_.back().key, std::prev(records_.end()));
  return true;
}

void EventDeduplicator::Forget(std::string_view key) {
  MutexLock lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const Records::iterator record = found->second;
  by_key_.erase(found);
  records_.erase(record);
}

size_t EventDeduplicator::size() const {
  MutexLock lock(mutex_);
  return records_.size();
}

uint64_t EventDeduplicator::dropped() const {
  MutexLock lock(mutex_);
  return dropped_;
}

void EventDeduplicator::DropExpired(Clock::Steady now) {
  while (!records_.empty() && records_.front().expires <= now) EraseOldest();
}

void EventDeduplicator::EraseOldest() {
  by_key_.erase(records_.front().key);
  records_.pop_front();
}

}  // namespace larder
