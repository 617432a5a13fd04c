#include "tools/serve/watch_hub.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"

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
      const std::string& version = info.cursor.resource_version;
      lines_[info.id] = {info.spec.resource.ToString(), version,
                         info.cursor.state == SyncState::kSynced, version};
    }
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
  line.resource = turn.collection.spec.resource.ToString();
  line.version = turn.collection.cursor.resource_version;
  line.synced = turn.collection.cursor.state == SyncState::kSynced;
  if (turn.problem && !std::exchange(line.warned, true)) {
    spdlog::warn("following {}: {}; its watches are told to list it again",
                 turn.collection.spec.ToString(), turn.problem->message);
  }
  if (added || turn.gone) {
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
  line.listed_at = ++last_;
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

std::string WatchHub::LeastVersion(const Collections& collections) const {
  std::string least;
  for (const CollectionId collection : collections) {
    const Line* const line = SyncedLine(collection);
    if (line && (least.empty() || IsNewer(least, line->version))) least = line->version;
  }
  return least;
}

std::deque<WatchHub::Entry>::const_iterator WatchHub::Behind(uint64_t position) const {
  return std::upper_bound(window_.begin(), window_.end(), position,
                          [](uint64_t at, const Entry& entry) { return at < entry.position; });
}

void WatchHub::Keep(const Collections& collections, const std::string& version, uint64_t position) {
  MutexLock lock(mutex_);
  std::deque<Kept> usable;
  bool known = false;
  for (Kept& kept : kept_) {
    // From a position that left the window no watch can begin.
    if (!Reaches(kept.collections, kept.position)) continue;
    // The earlier one serves both: what comes twice does no harm.
    known = known || (kept.version == version && kept.collections == collections);
    usable.push_back(std::move(kept));
  }
  kept_.swap(usable);
  if (known) return;
  kept_.push_back({collections, version, position});
  if (kept_.size() > options_.max_kept) kept_.pop_front();
}

std::optional<WatchHub::Start> WatchHub::FindKept(const Collections& collections,
                                                  std::string_view version) const {
  for (const Kept& kept : kept_) {
    if (kept.version == version && kept.collections == collections &&
        Reaches(collections, kept.position)) {
      return Start{kept.position, true};
    }
  }
  // Who got `version` in an event knows what came in front of it, whatever its version.
  for (const Entry& entry : window_) {
    if (Includes(collections, entry.collection) && entry.change.version == version &&
        Reaches(collections, entry.position)) {
      return Start{entry.position, true};
    }
  }
  return std::nullopt;
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
    place = {last_, LeastVersion(collections)};
    if (!out.empty()) return Wake::kChanges;
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) return Wake::kTime;
  }
}

}  // namespace larder::tools
