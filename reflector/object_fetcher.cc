#include "reflector/object_fetcher.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <thread>

#include "base/mutex.h"

namespace larder {
namespace {

// Results that wait for the caller: bounded, so that a slow target costs no memory.
constexpr size_t kMaxWaiting = 16;

class Fetcher {
 public:
  Fetcher(const std::vector<ObjectKey>& keys, const FetchFunction& fetch)
      : keys_(keys), fetch_(fetch) {}

  // What each thread does until nothing is left or a stop is requested.
  void Work(const std::stop_token& stop) {
    MutexLock lock(mutex_);
    while (next_ < keys_.size() && !stop.stop_requested()) {
      const ObjectKey& key = keys_[next_++];
      lock.unlock();
      Result<ObjectPtr> object = fetch_(key, stop);
      lock.lock();
      if (!changed_.wait(mutex_, stop,
                         [&]() LARDER_REQUIRES(mutex_) { return results_.size() < kMaxWaiting; }))
        return;
      results_.push_back(std::move(object));
      changed_.notify_all();
    }
  }

  // The next result, in the order of arrival. kCancelled on stop.
  Result<ObjectPtr> Take(const std::stop_token& stop) {
    MutexLock lock(mutex_);
    if (!changed_.wait(mutex_, stop, [&]() LARDER_REQUIRES(mutex_) { return !results_.empty(); })) {
      return MakeError(ErrorCode::kCancelled, "stopped while fetching objects");
    }
    Result<ObjectPtr> result = std::move(results_.front());
    results_.pop_front();
    changed_.notify_all();
    return result;
  }

 private:
  const std::vector<ObjectKey>& keys_;
  const FetchFunction& fetch_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  size_t next_ LARDER_GUARDED_BY(mutex_) = 0;
  std::deque<Result<ObjectPtr>> results_ LARDER_GUARDED_BY(mutex_);
};

// One at a time, on the caller's thread.
Result<void> FetchInTurn(const std::vector<ObjectKey>& keys, const FetchFunction& fetch,
                         const DeliverFunction& deliver, const std::stop_token& stop) {
  for (const ObjectKey& key : keys) {
    if (stop.stop_requested()) {
      return MakeError(ErrorCode::kCancelled, "stopped while fetching objects");
    }
    LARDER_ASSIGN_OR_RETURN(ObjectPtr object, fetch(key, stop));
    if (object) LARDER_RETURN_IF_ERROR(deliver(std::move(object)));
  }
  return {};
}

}  // namespace

Result<void> FetchObjects(const std::vector<ObjectKey>& keys, size_t parallel,
                          const FetchFunction& fetch, const DeliverFunction& deliver,
                          const std::stop_token& stop) {
  if (std::min(parallel, keys.size()) <= 1) return FetchInTurn(keys, fetch, deliver, stop);
  Fetcher fetcher(keys, fetch);
  // Ends the workers when this function returns, for whatever reason, and when the caller's stop is
  // requested.
  std::stop_source ending;
  std::stop_callback forward(stop, [&] { ending.request_stop(); });
  std::vector<std::jthread> workers;
  const size_t count = std::min(parallel, keys.size());
  for (size_t i = 0; i < count; ++i) {
    workers.emplace_back([&fetcher, token = ending.get_token()] { fetcher.Work(token); });
  }
  Result<void> outcome;
  for (size_t i = 0; i < keys.size() && outcome; ++i) {
    Result<ObjectPtr> object = fetcher.Take(stop);
    if (!object) {
      outcome = tl::unexpected(std::move(object).error());
    } else if (*object) {
      outcome = deliver(*std::move(object));
    }
  }
  ending.request_stop();
  return outcome;
}

}  // namespace larder
