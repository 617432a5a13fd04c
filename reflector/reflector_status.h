// What a reflector is doing and what it has done: for /readyz, tools and tests.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "reflector/watch_event.h"

namespace larder {

// Where the reflector's machine stands. Each arrow is one step of Reflector::Run.
enum class ReflectorState {
  kIdle,      // Made, Run() not called yet.
  kStarting,  // Asks the target how far it is (Target::Start). → kChecking, or a list when nothing
              // was ever synced.
  kChecking,  // The two checks before a cursor is trusted: same cluster, no rewound version. →
              // kWatching, kRelisting, kListing (rewound), kAnotherCluster.
  kListing,   // Reads the whole collection by LIST, in one answer or in pages. → kWatching.
  kStreamingList,  // Reads the whole collection as the initial events of a watch (WatchList). →
                   // kWatching on the same stream.
  kRelisting,   // The cursor expired: reads all metadata, fetches what differs. → kWatching, or
                // kListing when much differs.
  kWatching,    // Reads events from the cursor on. → kWatching (closed), kRelisting (expired),
                // kChecking (silent).
  kBackingOff,  // Something failed; waits, then goes back to where it failed.
  kPaused,      // Pause() was called; no connection is open. → kStarting on Resume().
  kStopped,     // Run() returned because a stop was requested.
  kAnotherCluster,  // Run() returned: this server is not the one the target was filled from.
};
inline constexpr size_t kReflectorStates = 11;
// "Watching".
std::string_view ToString(ReflectorState state);

struct ReflectorStatus {
  std::string name;
  ReflectorState state = ReflectorState::kIdle;
  Clock::Wall since;  // when it entered the state

  // True from the first complete list, or from the first watch that the server accepted from a
  // stored cursor (ReflectorOptions::accepted_after).
  bool synced = false;
  // What keeps it from working right now; empty as soon as a list is complete or a watch is
  // accepted again. This is what /readyz reports for the collection: 401 and 403 stand here as
  // kUnauthorized and kForbidden.
  std::optional<Error> error;
  // The last one, kept for the curious, and when.
  std::optional<Error> last_error;
  Clock::Wall last_error_at;

  std::string resource_version;  // the newest version handed to the target
  std::optional<Clock::Wall> last_bookmark;
  std::optional<bool> sharded_by_server;  // with a shard selector: did the last list echo it?

  uint64_t lists = 0;      // complete lists, whatever the reason
  uint64_t relists = 0;    // of these: not the first one
  uint64_t watches = 0;    // watch streams opened
  uint64_t objects = 0;    // parsed and handed to the target, from lists and events
  uint64_t unchanged = 0;  // found equal by metadata alone, never fetched
  uint64_t fetched = 0;    // fetched one by one in a relist
  std::array<uint64_t, kWatchEventTypes> events{};  // by WatchEvent::Type
  uint64_t wire_bytes = 0;                          // as received
  uint64_t body_bytes = 0;                          // after decompression
  Clock::Steady::duration decode_time{};            // parsing objects
  std::map<std::string, uint64_t>
      restarts;  // by reason: "closed", "gone", "silent", "Unavailable", "target"…
};

}  // namespace larder
