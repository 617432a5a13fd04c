// The watching half of State.
#include <algorithm>

#include "apiserver/state.h"

namespace larder::apiserver {

std::optional<WatchPosition> State::WatchFrom(const Table& table, uint64_t version,
                                              uint64_t* oldest) const {
  MutexLock lock(mutex_);
  if (version < table.dropped_through_) {
    if (oldest) *oldest = table.dropped_through_;
    return std::nullopt;
  }
  const auto first = std::upper_bound(
      table.window_.begin(), table.window_.end(), version,
      [](uint64_t v, const WindowEvent& event) { return v < event.object->version; });
  WatchPosition position;
  position.next_sequence =
      table.first_sequence_ + static_cast<uint64_t>(first - table.window_.begin());
  // A version from the future is no error: events up to it are dropped, in silence, as in the real
  // server.
  position.after_version = version;
  return position;
}

State::WatchStart State::WatchNow(const Table& table, std::string_view prefix) const {
  MutexLock lock(mutex_);
  WatchStart out;
  if (prefix.empty()) out.objects.reserve(table.objects_.size());
  for (auto it = table.objects_.lower_bound(prefix);
       it != table.objects_.end() && it->first.starts_with(prefix); ++it) {
    out.objects.push_back(it->second);
  }
  out.version = version_;
  out.position.next_sequence = table.first_sequence_ + table.window_.size();
  out.position.after_version = version_;
  return out;
}

State::Wake State::NextEvents(Table& table, WatchPosition& position, size_t max,
                              Clock::Steady deadline, const std::stop_token& stop,
                              const std::function<bool()>& interrupted,
                              std::vector<WindowEvent>& events, uint64_t* version) {
  MutexLock lock(mutex_);
  while (true) {
    if (stop.stop_requested() || interrupted()) return Wake::kEnded;
    if (position.next_sequence < table.first_sequence_) return Wake::kEnded;
    size_t index = static_cast<size_t>(position.next_sequence - table.first_sequence_);
    for (; index < table.window_.size() && events.size() < max; ++index) {
      ++position.next_sequence;
      if (table.window_[index].object->version > position.after_version) {
        events.push_back(table.window_[index]);
      }
    }
    *version = version_;
    if (!events.empty()) return Wake::kEvents;
    // Only now: the deletions that went before the table's end are delivered.
    if (table.removed_) return Wake::kEnded;
    if (options_.clock->Now() >= deadline) return Wake::kDeadline;
    options_.clock->WaitUntil(mutex_, table.changed_, deadline, stop);
  }
}

void State::WakeWatchers() {
  MutexLock lock(mutex_);
  for (const auto& [name, table] : tables_) table->changed_.notify_all();
  version_changed_.notify_all();
}

void State::DropWindow(Table& table, uint64_t version) {
  // Watchers that have seen everything go on; those that have not fell behind, and end.
  table.first_sequence_ += table.window_.size();
  table.window_.clear();
  table.dropped_through_ = version;
  table.changed_.notify_all();
}

void State::ExpireHistory(const Table* table) {
  MutexLock lock(mutex_);
  for (const auto& [name, candidate] : tables_) {
    if (!table || candidate.get() == table) DropWindow(*candidate, version_);
  }
}

}  // namespace larder::apiserver
