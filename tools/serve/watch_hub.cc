#include "tools/serve/watch_hub.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "tools/catalog.h"

namespace larder::tools {
namespace {

bool IsNewer(std::string_view a, std::string_view b) {
  return CompareResourceVersions(a, b).value_or(0) > 0;
}

bool Includes(const WatchHub::Collections& collections, CollectionId wanted) {
  return std::find(collections.begin(), collections.end(), wanted) != collections.end();
}

}  // namespace

WatchHub::WatchHub(StoreFollower* follower, Options options)
    : follower_(follower), options_(options) {
  const auto collections = follower_->Read([](Store& store) { return store.Collections(); });
  if (collections) {
    MutexLock lock(mutex_);
    for (const CollectionInfo& info : *collections) {
      Line& line = lines_[info.id];
      line.Take(info);
      line.oldest = line.version;
    }
    for (const auto& [collection, line] : lines_) (void)Overtakes(line);
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

WatchHub::~WatchHub() { Stop(); }

void WatchHub::Stop() {
  thread_.request_stop();
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void WatchHub::WakeAll() {
  MutexLock lock(mutex_);
  changed_.notify_all();
}

// A turn reads the heads of every collection that moved; the pause grows with what that costs, so
// that following a large, busy store takes a fifth of a core at most.
void WatchHub::Run(const std::stop_token& stop) {
  std::chrono::milliseconds pause = options_.interval;
  while (RealClock()->SleepFor(pause, stop)) {
    const auto begin = std::chrono::steady_clock::now();
    const auto moved = follower_->Advance({options_.max_changes, options_.max_bytes},
                                          [&](FollowedTurn turn) { Append(std::move(turn)); });
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    pause = std::max(options_.interval, took * 4);
    MutexLock lock(mutex_);
    const std::string problem = moved ? "" : moved.error().message;
    if (!problem.empty() && problem != problem_) spdlog::warn("following the store: {}", problem);
    problem_ = problem;
  }
}

void WatchHub::Append(FollowedTurn turn) {
  MutexLock lock(mutex_);
  const CollectionId collection = turn.collection.id;
  const auto [at, added] = lines_.try_emplace(collection);
  Line& line = at->second;
  if (turn.collection.cursor.resource_version != line.version) line.reached_at = last_;
  line.Take(turn.collection);
  line.overtaken = false;
  if (turn.problem && !std::exchange(line.warned, true)) {
    spdlog::warn("following {}: {}; its watches are told to list it again",
                 turn.collection.spec.ToString(), turn.problem->message);
  }
  const bool overtakes = Overtakes(line);
  if (added || turn.gone || overtakes) {
    BreakAll(line.resource);
  } else if (turn.broken) {
    Break(collection, line);
  }
  if (turn.gone) lines_.erase(at);
  for (FollowedChange& change : turn.changes) {
    window_bytes_ += change.ByteSize();
    window_.push_back({collection, ++last_, std::move(change)});
  }
  while (window_.size() > options_.max_changes || window_bytes_ > options_.max_bytes) DropOldest();
  changed_.notify_all();
}

void WatchHub::Line::Take(const CollectionInfo& info) {
  resource = info.spec.resource.ToString();
  version = info.cursor.resource_version;
  synced = info.cursor.state == SyncState::kSynced;
  whole = IsWhole(info.spec);
  updated_ms = info.cursor.updated_ms;
}

bool WatchHub::Overtakes(const Line& line) {
  if (!line.whole) return false;
  bool any = false;
  for (auto& [collection, other] : lines_) {
    const bool same = other.whole && other.resource == line.resource;
    if (!same || !IsLeftBehind(other.updated_ms, line.updated_ms)) continue;
    any = !std::exchange(other.overtaken, true) || any;
  }
  return any;
}

void WatchHub::BreakAll(const std::string& resource) {
  for (auto& [collection, line] : lines_) {
    if (line.resource == resource) Break(collection, line);
  }
  collections_changed_at_ = last_;
}

void WatchHub::Break(CollectionId collection, Line& line) {
  std::deque<Entry> others;
  for (Entry& entry : window_) {
    if (entry.collection == collection) {
      window_bytes_ -= entry.change.ByteSize();
    } else {
      others.push_back(std::move(entry));
    }
  }
  window_.swap(others);
  line.oldest = line.version;
  line.listed_at = line.reached_at = ++last_;
}

void WatchHub::DropOldest() {
  const Entry& entry = window_.front();
  Line& line = lines_[entry.collection];
  line.dropped_at = entry.position;
  // A late one may be older than what went before it.
  if (line.oldest.empty() || IsNewer(entry.change.version, line.oldest)) {
    line.oldest = entry.change.version;
  }
  window_bytes_ -= entry.change.ByteSize();
  window_.pop_front();
}

uint64_t WatchHub::Position() const {
  MutexLock lock(mutex_);
  return last_;
}

std::optional<WatchHub::Place> WatchHub::Now(const Collections& collections) const {
  MutexLock lock(mutex_);
  for (const CollectionId collection : collections) {
    if (!SyncedLine(collection)) return std::nullopt;
  }
  return PlaceNow(collections);
}

bool WatchHub::SameCollectionsSince(uint64_t position) const {
  MutexLock lock(mutex_);
  return collections_changed_at_ <= position;
}

std::string WatchHub::Problem() const {
  MutexLock lock(mutex_);
  return problem_;
}

const WatchHub::Line* WatchHub::SyncedLine(CollectionId collection) const {
  const auto found = lines_.find(collection);
  return found == lines_.end() || !found->second.synced ? nullptr : &found->second;
}

bool WatchHub::Reaches(const Collections& collections, uint64_t position) const {
  for (const CollectionId collection : collections) {
    const Line* const line = SyncedLine(collection);
    if (!line || line->dropped_at > position || line->listed_at > position) return false;
  }
  return true;
}

WatchHub::Place WatchHub::PlaceNow(const Collections& collections) const {
  std::vector<const Line*> lines;
  for (const CollectionId collection : collections) {
    if (const Line* const line = SyncedLine(collection)) lines.push_back(line);
  }
  if (lines.empty()) return {last_, "", last_};
  const Line& newest =
      **std::max_element(lines.begin(), lines.end(), [](const Line* a, const Line* b) {
        return a->reached_at != b->reached_at ? a->reached_at < b->reached_at
                                              : IsNewer(b->version, a->version);
      });
  Place place{last_, newest.version, newest.reached_at};
  // An event of another one may have told it before.
  for (const Line* const line : lines) {
    if (line->version == place.version)
      place.version_at = std::min(place.version_at, line->reached_at);
  }
  // But from before a list no watch begins.
  for (const Line* const line : lines)
    place.version_at = std::max(place.version_at, line->listed_at);
  return place;
}

std::deque<WatchHub::Entry>::const_iterator WatchHub::Behind(uint64_t position) const {
  return std::upper_bound(window_.begin(), window_.end(), position,
                          [](uint64_t at, const Entry& entry) { return at < entry.position; });
}

void WatchHub::Keep(const Collections& collections, const Place& place) {
  MutexLock lock(mutex_);
  std::deque<Kept> usable;
  bool known = false;
  for (Kept& kept : kept_) {
    // From a position that left the window no watch can begin.
    if (!Reaches(kept.collections, kept.position)) continue;
    known = known || (kept.version == place.version && kept.collections == collections);
    usable.push_back(std::move(kept));
  }
  kept_.swap(usable);
  if (known) return;
  kept_.push_back({collections, place.version, place.version_at});
  if (kept_.size() > options_.max_kept) kept_.pop_front();
}

std::optional<WatchHub::Start> WatchHub::FindKept(const Collections& collections,
                                                  std::string_view version) const {
  std::optional<uint64_t> position;
  for (const Kept& kept : kept_) {
    if (kept.version == version && kept.collections == collections) position = kept.position;
  }
  // Who got `version` in an event knows what came in front of it, whatever its version.
  for (const Entry& entry : window_) {
    if (Includes(collections, entry.collection) && entry.change.version == version) {
      position = std::min(position.value_or(entry.position), entry.position);
      break;
    }
  }
  if (!position || !Reaches(collections, *position)) return std::nullopt;
  return Start{*position, true};
}

Result<WatchHub::Start> WatchHub::Find(const Collections& collections,
                                       std::string_view version) const {
  // One look at all: what left the window in between would be missed without a word.
  MutexLock lock(mutex_);
  for (const CollectionId collection : collections) {
    const Line* const line = SyncedLine(collection);
    if (!line) return MakeError(ErrorCode::kGone, "the resource is being listed anew");
    if (collections.size() > 1) continue;
    if (!line->oldest.empty() && IsNewer(line->oldest, version)) {
      return MakeError(ErrorCode::kGone, "too old resource version: {} ({})", version,
                       line->oldest);
    }
  }
  if (collections.size() > 1) {
    // Of several, one may be past a version that another has not reached: by itself it says
    // nothing.
    if (const auto start = FindKept(collections, version)) return *start;
    return MakeError(ErrorCode::kGone, "too old resource version: {}", version);
  }
  for (const Entry& entry : window_) {
    if (Includes(collections, entry.collection) && IsNewer(entry.change.version, version)) {
      return Start{entry.position - 1, false};
    }
  }
  return Start{last_, false};
}

WatchHub::Wake WatchHub::Next(const Collections& collections, Place& place,
                              std::chrono::steady_clock::time_point deadline,
                              const std::function<bool()>& closed,
                              std::vector<FollowedChange>& out) {
  MutexLock lock(mutex_);
  for (;;) {
    if (stopped_ || closed()) return Wake::kEnded;
    for (const CollectionId collection : collections) {
      const Line* const line = SyncedLine(collection);
      if (!line || line->listed_at > place.position) return Wake::kListed;
      if (line->dropped_at > place.position) return Wake::kTooSlow;
    }
    for (auto entry = Behind(place.position); entry != window_.end(); ++entry) {
      if (Includes(collections, entry->collection)) out.push_back(entry->change);
    }
    place = PlaceNow(collections);
    if (!out.empty()) return Wake::kChanges;
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) return Wake::kTime;
  }
}

}  // namespace larder::tools
