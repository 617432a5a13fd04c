// What a reflector watches and how. Every wait and every buffer has a limit here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "reflector/backoff.h"
#include "reflector/list_gate.h"
#include "schema/resource.h"
#include "schema/transform.h"

namespace prometheus {
class Registry;
}

namespace larder {

// How the whole collection is read when nothing is stored. Each falls back to the others when the
// server declines it or it fails twice.
enum class FirstSync {
  kAuto,       // What was cheapest on a real server: one gzipped LIST, then pages, then WatchList.
  kList,       // One LIST, read as it arrives. Then pages, then WatchList.
  kPagedList,  // LIST in pages of page_size. Then one LIST, then WatchList.
  kWatchList,  // The initial events of a watch (sendInitialEvents). Then one LIST, then pages.
};

struct ReflectorOptions {
  // For logs and metrics, unique in a process. Empty: made of the resource, the namespace and the
  // selectors.
  std::string name;

  Resource resource;
  std::string ns;  // empty: all namespaces. Several namespaces are several reflectors.
  std::string label_selector;
  std::string field_selector;
  std::string shard_selector;  // see reflector/shard_selector.h
  bool metadata_only =
      false;  // objects are PartialObjectMetadata: everything but metadata stays on the server

  FirstSync first_sync = FirstSync::kAuto;
  // Read the first list from the API server's cache (resourceVersion=0) instead of consistently.
  // Cheaper for the server, but it may show an older state than one that was seen before.
  bool first_list_from_cache = false;
  size_t page_size = 500;
  // Lists, watches and single objects of built-in kinds are asked for as protobuf: half the
  // server's work of JSON. What reaches the target is the same JSON. A server whose protobuf holds
  // a field that this build does not know is asked for JSON from then on.
  bool protobuf = true;
  // What the target cuts out of every object. The reflector leaves it out of what it reads as
  // protobuf where it can (Object::projected); the rest is the target's to cut.
  Transform transform{};
  // Shared by reflectors that should not all list at once; null: lists at once. Must outlive them.
  ListGate* list_gate = nullptr;

  // The longest watch event or list item, as it is sent. A larger one is an error, and the cursor
  // does not move past it. So is one of protobuf that as JSON would be larger than 16 times this,
  // or than the 64 MiB that a store takes.
  size_t max_event_bytes = size_t{16} << 20;
  // The deepest nesting of JSON. Kubernetes itself stops at 10,000; what reads objects here stops
  // at about a thousand.
  uint32_t max_json_depth = 1000;

  // A relist fetches objects one by one as long as they are few: up to `max_single_fetches`, or up
  // to this share of the collection; past that the full list is cheaper. The same when fetching
  // would take longer than `max_fetch_time`, for a slow server or the transport's rate limit.
  size_t max_single_fetches = 500;
  double max_fetched_share = 0.1;
  size_t parallel_fetches = 8;
  std::chrono::milliseconds max_fetch_time{20'000};

  // timeoutSeconds of a watch is drawn from this range.
  std::chrono::seconds watch_timeout_min{300};
  std::chrono::seconds watch_timeout_max{600};
  // No event and no bookmark for so long: the stream is distrusted, the version is checked and the
  // watch opened again. Servers send a bookmark about once a minute.
  std::chrono::milliseconds silent_timeout{180'000};
  // A server answers a watch from an expired version with headers and then, at once, an ERROR
  // event. A watch counts as accepted, and a resumed collection as synced, with its first event or
  // when it was quiet for this long.
  std::chrono::milliseconds accepted_after{50};
  // A watch that ends sooner without an event is a failure, not an end.
  std::chrono::milliseconds short_watch{1'000};
  // A list must bring an item or 16 KiB in this time.
  std::chrono::milliseconds list_stall_timeout{60'000};
  // Until the headers of an answer are there.
  std::chrono::milliseconds request_timeout{60'000};
  // A server's Retry-After is honoured up to here.
  std::chrono::milliseconds max_retry_after{60'000};
  BackoffOptions backoff;

  // Called with every failure of a list or a watch, a version that expired included, on the
  // reflector's thread, before it waits or goes on. Must not throw. May be empty.
  std::function<void(const Error&)> on_error;

  uint64_t random_seed = 0;                  // 0: from the system
  Clock* clock = nullptr;                    // null: RealClock()
  prometheus::Registry* registry = nullptr;  // null: no metrics. Must outlive the reflector.
};

}  // namespace larder
