// Gathers events and hands them over in batches: when enough are there, or when the first one has
// waited long enough.
//
// What it guarantees: order is kept; a batch whose handler fails is handed over again, after a
// growing pause and before everything newer, until it succeeds; nothing is lost while it lives.
// What it holds is in memory only: who has to answer for its events (a durable handler) calls
// Flush() first. Close() hands over the rest and returns what could not be delivered. Bounded: Add
// waits while max_pending events are there.
//
// Thread-safe. The handler runs on the batcher's own thread, or on that of a caller of Flush() or
// Close(), one batch at a time, with no lock held. What it throws is a failure.
//
//   EventBatcher<std::string> batcher({.max_items = 100, .max_delay = 50ms}, [&](const auto& batch)
//   { return Send(batch); }); batcher.Add("default/a", stop); std::vector<std::string> undelivered
//   = batcher.Close();
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "queue/growing_pause.h"

namespace larder {

struct EventBatcherOptions {
  size_t max_items = 100;
  std::chrono::nanoseconds max_delay = std::chrono::milliseconds(100);
  // Add waits when so many are there.
  size_t max_pending = 10'000;
  // The pause after a failed batch: the first one, doubling up to the second.
  std::chrono::nanoseconds base_backoff = std::chrono::milliseconds(10);
  std::chrono::nanoseconds max_backoff = std::chrono::seconds(10);
  // How many times Close() tries a batch that fails.
  uint32_t attempts_at_close = 3;
  Clock* clock = RealClock();
};

template <typename T>
class EventBatcher {
 public:
  using Handler = std::function<Result<void>(const std::vector<T>&)>;

  EventBatcher(EventBatcherOptions options, Handler handler)
      : options_(options),
        handler_(std::move(handler)),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}
  ~EventBatcher() { Close(); }
  EventBatcher(const EventBatcher&) = delete;
  EventBatcher& operator=(const EventBatcher&) = delete;

  // kCancelled: a stop was requested while it was full, or the batcher is closed.
  Result<void> Add(T event, const std::stop_token& stop = {}) {
    MutexLock lock(mutex_);
    while (pending_.size() >= options_.max_pending && !closed_ && !stop.stop_requested()) {
      options_.clock->WaitUntil(mutex_, left_, Clock::Steady::max(), stop);
    }
    if (closed_) return MakeError(ErrorCode::kCancelled, "the batcher is closed");
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped");
    pending_.push_back({std::move(event), options_.clock->Now()});
    ++added_;
    if (pending_.size() == 1 || pending_.size() >= options_.max_items) filled_.notify_one();
    return {};
  }

  // Hands over what was added before, without waiting for more. The handler's error: it fails, and
  // what was not taken will be handed over again as always. kCancelled: Close() has given it back.
  Result<void> Flush() {
    uint64_t last = 0;
    {
      MutexLock lock(mutex_);
      last = added_;
    }
    for (;;) {
      {
        MutexLock lock(mutex_);
        if (taken_ >= last) return {};
        if (gave_back_) return MakeError(ErrorCode::kCancelled, "the batcher is closed");
      }
      LARDER_RETURN_IF_ERROR(HandOver());
    }
  }

  // Hands over what is left and ends. Returns the events whose handler went on failing.
  std::vector<T> Close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
      left_.notify_all();
    }
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
    uint32_t attempts = 0;
    while (size() > 0 && attempts < options_.attempts_at_close) {
      attempts = HandOver() ? 0 : attempts + 1;
    }
    std::vector<T> undelivered;
    MutexLock lock(mutex_);
    AwaitIdle();  // a Flush may have a batch with the handler
    gave_back_ = gave_back_ || !pending_.empty();
    for (Pending& pending : pending_) undelivered.push_back(std::move(pending.event));
    pending_.clear();
    return undelivered;
  }

  size_t size() const {
    MutexLock lock(mutex_);
    return pending_.size();
  }
  // Batches whose handler failed, so far.
  uint64_t failures() const {
    MutexLock lock(mutex_);
    return failures_;
  }

 private:
  struct Pending {
    T event;
    Clock::Steady added;
  };

  void Run(const std::stop_token& stop) {
    std::chrono::nanoseconds backoff{0};
    while (WaitForBatch(stop)) {
      if (HandOver()) {
        backoff = {};
        continue;
      }
      backoff = internal::NextPause(backoff, options_.base_backoff, options_.max_backoff);
      if (!options_.clock->SleepFor(backoff, stop)) return;
    }
  }

  // False: a stop was requested.
  bool WaitForBatch(const std::stop_token& stop) {
    MutexLock lock(mutex_);
    while (!stop.stop_requested()) {
      Clock::Steady due = Clock::Steady::max();
      if (!pending_.empty()) due = pending_.front().added + options_.max_delay;
      if (pending_.size() >= options_.max_items || options_.clock->Now() >= due) return true;
      options_.clock->WaitUntil(mutex_, filled_, due, stop);
    }
    return false;
  }

  // One at a time. Events leave the buffer when the handler has taken them, so that a failure needs
  // no putting back.
  Result<void> HandOver() {
    std::vector<T> batch;
    {
      MutexLock lock(mutex_);
      AwaitIdle();
      const size_t count = std::min(pending_.size(), options_.max_items);
      if (count == 0) return {};
      busy_ = true;
      batch.reserve(count);
      for (size_t i = 0; i < count; ++i) batch.push_back(pending_[i].event);
    }
    Result<void> handled = Call(batch);
    MutexLock lock(mutex_);
    busy_ = false;
    left_.notify_all();
    if (!handled) {
      ++failures_;
      return handled;
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(batch.size()));
    taken_ += batch.size();
    return {};
  }

  Result<void> Call(const std::vector<T>& batch) const {
    try {
      return handler_(batch);
    } catch (const std::exception& error) {
      return MakeError(ErrorCode::kInternal, "the batch's handler threw: {}", error.what());
    } catch (...) {
      return MakeError(ErrorCode::kInternal, "the batch's handler threw");
    }
  }

  void AwaitIdle() LARDER_REQUIRES(mutex_) {
    while (busy_) options_.clock->WaitUntil(mutex_, left_, Clock::Steady::max(), {});
  }

  const EventBatcherOptions options_;
  const Handler handler_;
  mutable Mutex mutex_;
  std::condition_variable_any filled_;
  std::condition_variable_any left_;  // a batch was taken, or has failed
  std::deque<Pending> pending_ LARDER_GUARDED_BY(mutex_);
  uint64_t added_ LARDER_GUARDED_BY(mutex_) = 0;
  uint64_t taken_ LARDER_GUARDED_BY(mutex_) = 0;
  bool busy_ LARDER_GUARDED_BY(mutex_) = false;  // a batch is with the handler
  uint64_t failures_ LARDER_GUARDED_BY(mutex_) = 0;
  bool closed_ LARDER_GUARDED_BY(mutex_) = false;
  bool gave_back_ LARDER_GUARDED_BY(mutex_) = false;  // Close() returned what was not taken
  std::jthread thread_;                               // last: it uses everything above
};

}  // namespace larder
