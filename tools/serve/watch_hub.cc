#include "tools/serve/watch_hub.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.h"

namespace larder::tools {
namespace {

bool IsNewer(std::string_view a, std::string_view b) {
  return CompareResourceVersions(a, b).value_or(0) > 0;
}

bool Includes(const std::vector<CollectionId>& collections, CollectionId wanted) {
  return std::find(collections.begin(), collections.end(), wanted) != collections.end();
}

}  // namespace

WatchHub::WatchHub(StoreFollower* follower, Options options)
    : follower_(follower), options_(options) {
  const auto collections = follower_->Read([](Store& store) { return store.Collections(); });
  if (collections) {
    for (const CollectionInfo& info : *collections) {
      first_[info.id] = info.cursor.resource_version;
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
    const auto moved =
        follower_->Advance([&](const CollectionInfo& info, std::vector<FollowedChange> changes) {
          Append(info, std::move(changes));
        });
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    pause = std::max(options_.interval, took * 4);
    MutexLock lock(mutex_);
    const std::string problem = moved ? "" : moved.error().message;
    if (!problem.empty() && problem != problem_) spdlog::warn("following the store: {}", problem);
    problem_ = problem;
  }
}

void WatchHub::Append(const CollectionInfo& info, std::vector<FollowedChange> changes) {
  MutexLock lock(mutex_);
  for (FollowedChange& change : changes) {
    window_.push_back({info.id, ++last_, std::move(change)});
    if (window_.size() <= options_.window) continue;
    dropped_[window_.front().collection] = window_.front().change.version;
    window_.pop_front();
  }
  changed_.notify_all();
}

uint64_t WatchHub::Position() const {
  MutexLock lock(mutex_);
  return last_;
}

std::string WatchHub::Problem() const {
  MutexLock lock(mutex_);
  return problem_;
}

std::string WatchHub::OldestOf(CollectionId collection) const {
  if (const auto found = dropped_.find(collection); found != dropped_.end()) return found->second;
  const auto found = first_.find(collection);
  return found == first_.end() ? std::string() : found->second;
}

uint64_t WatchHub::OldestPosition() const {
  return window_.empty() ? last_ + 1 : window_.front().position;
}

void WatchHub::Keep(const std::string& version, uint64_t position) {
  MutexLock lock(mutex_);
  // From a position that left the window no watch can begin.
  std::erase_if(kept_, [&](const auto& kept) { return kept.second + 1 < OldestPosition(); });
  // The earlier one serves both: what comes twice does no harm.
  kept_.try_emplace(version, position);
}

std::optional<WatchHub::Start> WatchHub::FindExactly(const std::vector<CollectionId>& collections,
                                                     std::string_view version) const {
  const auto kept = kept_.find(version);
  if (kept != kept_.end() && kept->second + 1 >= OldestPosition()) {
    return Start{kept->second, true};
  }
  if (collections.size() < 2) return std::nullopt;
  // Who got `version` in an event knows what came in front of it, whatever its version.
  for (const Entry& entry : window_) {
    if (Includes(collections, entry.collection) && entry.change.version == version) {
      return Start{entry.position, true};
    }
  }
  return std::nullopt;
}

Result<WatchHub::Start> WatchHub::Find(const std::vector<CollectionId>& collections,
                                       std::string_view version) const {
  // One look at both: what left the window in between would be missed without a word.
  MutexLock lock(mutex_);
  if (const auto start = FindExactly(collections, version)) return *start;
  for (const CollectionId collection : collections) {
    const std::string oldest = OldestOf(collection);
    if (!oldest.empty() && IsNewer(oldest, version)) {
      return MakeError(ErrorCode::kGone, "too old resource version: {} ({})", version, oldest);
    }
  }
  for (const Entry& entry : window_) {
    if (Includes(collections, entry.collection) && IsNewer(entry.change.version, version)) {
      return Start{entry.position - 1, false};
    }
  }
  return Start{last_, false};
}

WatchHub::Wake WatchHub::Next(const std::vector<CollectionId>& collections, uint64_t& position,
                              std::chrono::steady_clock::time_point deadline,
                              const std::function<bool()>& closed,
                              std::vector<FollowedChange>& out) {
  MutexLock lock(mutex_);
  for (;;) {
    if (stopped_ || closed()) return Wake::kEnded;
    if (position + 1 < OldestPosition() && position < last_) return Wake::kTooSlow;
    for (const Entry& entry : window_) {
      if (entry.position > position && Includes(collections, entry.collection)) {
        out.push_back(entry.change);
      }
    }
    position = last_;
    if (!out.empty()) return Wake::kChanges;
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) return Wake::kTime;
  }
}

}  // namespace larder::tools
