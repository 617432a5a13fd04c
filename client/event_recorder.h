// Kubernetes Events about objects: what `kubectl describe` shows at its end.
//
// Event() never blocks and never fails: it puts the event into a bounded queue, where a repeat of a
// waiting one only raises its count, and one thread writes them to the server. A repeat of one that
// was already written patches its count. An object that causes more than 25 different events at
// once gets one in five minutes from then on, as in client-go. What does not fit, or the server
// refuses, is dropped, counted and logged; events are best effort.
//
// Thread-safe. The destructor gives up what is still waiting: call Flush first where that matters.
//
//   EventRecorder recorder(*transport, {.component = "web-controller"});
//   recorder.Event(*pod, EventLevel::kWarning, "FailedScheduling", "no node has enough memory");
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "client/api_client.h"
#include "client/qps_limiter.h"
#include "client/transport.h"
#include "schema/object.h"

namespace larder {

enum class EventLevel { kNormal, kWarning };

class EventRecorder {
 public:
  enum class Api { kCoreV1, kEventsV1 };
  struct Options {
    std::string component;  // who says it; required
    std::string instance;   // which of its replicas; empty: the host's name
    Api api = Api::kCoreV1;
    size_t max_pending = 1000;
    size_t max_remembered = 4096;  // series and objects that are told apart
    Clock* clock = RealClock();
  };

  // `transport` must outlive it.
  EventRecorder(HttpTransport& transport, Options options);
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  // `reason` is a word for machines (CamelCase), `message` a sentence for people. `action` is what
  // was being done; only events.k8s.io/v1 has it.
  void Event(const Object& about, EventLevel level, std::string_view reason,
             std::string_view message, std::string_view action = {});
  // Waits until nothing is waiting any more; false when the deadline or a stop came first.
  bool Flush(Clock::Steady deadline, const std::stop_token& stop = {});

  uint64_t written() const { return written_; }
  uint64_t dropped() const { return dropped_; }

 private:
  struct Series;  // equal events
  using SeriesPtr = std::shared_ptr<Series>;

  void Run(const std::stop_token& stop);
  void WriteWithRetry(const SeriesPtr& series, const std::stop_token& stop);
  Result<void> Write(Series& series, const std::stop_token& stop);
  Json NewEvent(const Series& series) const;
  Json CountPatch(const Series& series) const;
  bool MayWrite(const std::string& object);
  void Remember(const SeriesPtr& series);

  ApiClient client_;
  const Options options_;
  const Resource resource_;
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> dropped_{0};

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<SeriesPtr> queue_ LARDER_GUARDED_BY(mutex_);
  // What is in queue_.
  std::unordered_map<std::string, SeriesPtr> pending_ LARDER_GUARDED_BY(mutex_);
  bool writing_ LARDER_GUARDED_BY(mutex_) = false;

  // The writer's own: written series, the last used first, and the limiters of the objects.
  std::list<SeriesPtr> remembered_;
  std::unordered_map<std::string, std::list<SeriesPtr>::iterator> by_key_;
  std::unordered_map<std::string, std::unique_ptr<QpsLimiter>> limiters_;

  Clock::Wall::rep last_stamp_ = 0;

  std::jthread writer_;  // last: it uses everything above
};

}  // namespace larder
