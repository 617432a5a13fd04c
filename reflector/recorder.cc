#include "reflector/recorder.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <cstdlib>

namespace larder {
namespace {

constexpr std::array<std::string_view, kReflectorStates> kStateNames = {
    "Idle",     "Starting",   "Checking", "Listing", "StreamingList", "Relisting",
    "Watching", "BackingOff", "Paused",   "Stopped", "AnotherCluster"};

double UnixSeconds(Clock::Wall time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

std::string_view ToString(ReflectorState state) { return kStateNames[static_cast<size_t>(state)]; }

struct Recorder::Metrics {
  using CounterFamily = prometheus::Family<prometheus::Counter>;

  Metrics(const std::string& name, prometheus::Registry& registry)
      : labels{{"collection", name}},
        lists(Counters(registry, "lists_total", "Complete lists by reason")),
        restarts(
            Counters(registry, "restarts_total", "Streams ended or requests failed, by reason")),
        watches(Counters(registry, "watches_total", "Watch streams opened").Add(labels)),
        objects(Counters(registry, "objects_total", "Objects received from lists and events")
                    .Add(labels)),
        unchanged(Counters(registry, "unchanged_objects_total",
                           "Objects found equal by their metadata in a relist")
                      .Add(labels)),
        fetched(
            Counters(registry, "fetched_objects_total", "Objects fetched one by one in a relist")
                .Add(labels)),
        wire_bytes(Counters(registry, "wire_bytes_total", "Bytes received").Add(labels)),
        body_bytes(Counters(registry, "body_bytes_total", "Bytes received, after decompression")
                       .Add(labels)),
        decode_seconds(
            Counters(registry, "decode_seconds_total", "Time spent parsing objects").Add(labels)),
        state(Gauges(registry, "state", "Where the reflector stands, as a number; 6 is Watching")),
        synced(Gauges(registry, "synced", "1 once the collection was complete")),
        bookmark(
            Gauges(registry, "last_bookmark_timestamp_seconds", "When the last bookmark arrived")),
        version(Gauges(registry, "resource_version", "The newest version handed on")) {
    CounterFamily& family = Counters(registry, "events_total", "Watch events by type");
    for (size_t i = 0; i < events.size(); ++i) {
      prometheus::Labels typed = labels;
      typed["type"] = ToString(static_cast<WatchEvent::Type>(i));
      events[i] = &family.Add(typed);
    }
  }

  static CounterFamily& Counters(prometheus::Registry& registry, const std::string& name,
                                 const std::string& help) {
    return prometheus::BuildCounter()
        .Name("larder_reflector_" + name)
        .Help(help)
        .Register(registry);
  }
  prometheus::Gauge& Gauges(prometheus::Registry& registry, const std::string& name,
                            const std::string& help) {
    return prometheus::BuildGauge()
        .Name("larder_reflector_" + name)
        .Help(help)
        .Register(registry)
        .Add(labels);
  }
  void Count(CounterFamily& family, std::string_view reason) {
    prometheus::Labels with = labels;
    with["reason"] = reason;
    family.Add(with).Increment();
  }

  prometheus::Labels labels;
  CounterFamily& lists;
  CounterFamily& restarts;
  prometheus::Counter& watches;
  prometheus::Counter& objects;
  prometheus::Counter& unchanged;
  prometheus::Counter& fetched;
  prometheus::Counter& wire_bytes;
  prometheus::Counter& body_bytes;
  prometheus::Counter& decode_seconds;
  prometheus::Gauge& state;
  prometheus::Gauge& synced;
  prometheus::Gauge& bookmark;
  prometheus::Gauge& version;
  std::array<prometheus::Counter*, kWatchEventTypes> events{};
};

Recorder::Recorder(std::string name, Clock* clock, prometheus::Registry* registry)
    : clock_(clock), metrics_(registry ? std::make_unique<Metrics>(name, *registry) : nullptr) {
  status_.name = std::move(name);
  status_.since = clock_->WallNow();
}

Recorder::~Recorder() = default;

ReflectorStatus Recorder::Snapshot() const {
  MutexLock lock(mutex_);
  return status_;
}

void Recorder::State(ReflectorState state) {
  MutexLock lock(mutex_);
  if (state != status_.state) status_.since = clock_->WallNow();
  status_.state = state;
  if (metrics_) metrics_->state.Set(static_cast<double>(state));
}

void Recorder::Failed(const Error& error) {
  MutexLock lock(mutex_);
  status_.error = status_.last_error = error;
  status_.last_error_at = clock_->WallNow();
}

void Recorder::Healthy() {
  MutexLock lock(mutex_);
  status_.error.reset();
}

void Recorder::Synced() {
  MutexLock lock(mutex_);
  status_.synced = true;
  if (metrics_) metrics_->synced.Set(1);
}

void Recorder::Restart(std::string_view reason) {
  MutexLock lock(mutex_);
  ++status_.restarts[std::string(reason)];
  if (metrics_) metrics_->Count(metrics_->restarts, reason);
}

void Recorder::ListDone(std::string_view why, std::string_view resource_version) {
  {
    MutexLock lock(mutex_);
    ++status_.lists;
    if (why != "first") ++status_.relists;
    if (metrics_) metrics_->Count(metrics_->lists, why);
  }
  Version(resource_version);
}

void Recorder::WatchOpened() {
  MutexLock lock(mutex_);
  ++status_.watches;
  if (metrics_) metrics_->watches.Increment();
}

void Recorder::Event(WatchEvent::Type type) {
  MutexLock lock(mutex_);
  ++status_.events[static_cast<size_t>(type)];
  if (metrics_) metrics_->events[static_cast<size_t>(type)]->Increment();
}

void Recorder::Bookmark() {
  MutexLock lock(mutex_);
  status_.last_bookmark = clock_->WallNow();
  if (metrics_) metrics_->bookmark.Set(UnixSeconds(*status_.last_bookmark));
}

void Recorder::Version(std::string_view resource_version) {
  MutexLock lock(mutex_);
  status_.resource_version = resource_version;
  // A gauge is a double: enough to see it move, never used to resume.
  if (metrics_) metrics_->version.Set(std::strtod(status_.resource_version.c_str(), nullptr));
}

void Recorder::Object(Clock::Steady::duration decode_time) {
  MutexLock lock(mutex_);
  ++status_.objects;
  status_.decode_time += decode_time;
  if (metrics_) {
    metrics_->objects.Increment();
    metrics_->decode_seconds.Increment(std::chrono::duration<double>(decode_time).count());
  }
}

void Recorder::Unchanged() {
  MutexLock lock(mutex_);
  ++status_.unchanged;
  if (metrics_) metrics_->unchanged.Increment();
}

void Recorder::Fetched() {
  MutexLock lock(mutex_);
  ++status_.fetched;
  if (metrics_) metrics_->fetched.Increment();
}

void Recorder::Bytes(uint64_t wire, uint64_t body) {
  MutexLock lock(mutex_);
  status_.wire_bytes += wire;
  status_.body_bytes += body;
  if (metrics_) {
    metrics_->wire_bytes.Increment(static_cast<double>(wire));
    metrics_->body_bytes.Increment(static_cast<double>(body));
  }
}

void Recorder::ShardedByServer(bool yes) {
  MutexLock lock(mutex_);
  status_.sharded_by_server = yes;
}

}  // namespace larder
