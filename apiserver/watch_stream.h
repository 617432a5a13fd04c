// One open watch: from its first byte to its end.
//
// Runs on the connection's thread and sleeps on the table's condition between events. Events are
// taken from the window in batches; their text was encoded once, for all watches. Writing blocks
// while the client does not read: then events pile up in the window, and a watcher that falls out
// of it is ended, as by the real server.
#pragma once

#include <httplib.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "apiserver/connection.h"
#include "apiserver/faults.h"
#include "apiserver/list_options.h"
#include "apiserver/object_encoder.h"
#include "apiserver/state.h"
#include "apiserver/stats.h"

namespace larder::apiserver {

class WatchStream {
 public:
  struct Settings {
    Clock* clock = nullptr;
    std::chrono::milliseconds bookmark_interval{60'000};
    std::chrono::milliseconds version_patience{250};
    std::chrono::seconds timeout{1800};
    std::stop_token stop;
  };

  WatchStream(State& state, Faults& faults, Stats::Counters& stats, TablePtr table,
              ResourceInfoPtr info, MediaType media, const std::string& ns, ListOptions options,
              FaultPlan plan, Connection& connection, Settings settings);

  // Finds the place to start at. An error here is answered with HTTP (410 by a fault, 504 never); a
  // version that is too old or too large is an ERROR event, sent by Run.
  ApiResult<void> Prepare();
  // Sends until the end. False: the connection must be closed (a fault, a broken peer).
  bool Run(httplib::DataSink& sink);

 private:
  enum class Step { kGoOn, kEnd, kBreak };

  Step SendInitial();
  Step SendEvents(const std::vector<WindowEvent>& events);
  Step SendEvent(std::string_view type, const StoredObject& object, uint64_t version,
                 const StoredBody::Rendered* rendered);
  Step SendBookmark(uint64_t version, bool initial_events_end);
  Step Filtered(const WindowEvent& event);
  // What the request's faults do around the next event.
  Step FaultsBefore();
  Step HalfEvent(std::string_view type, const StoredBody::Rendered& rendered, bool stall, int id);
  Step Flush();
  bool Matches(const StoredPtr& object, const StoredBody::Rendered* rendered) const;
  std::string VersionText(uint64_t version) const;
  Clock::Steady NextBookmark(Clock::Steady now) const;

  State& state_;
  Faults& faults_;
  Stats::Counters& stats_;
  const TablePtr table_;
  const ResourceInfoPtr info_;
  const ObjectEncoder encoder_;
  const std::string prefix_;  // "ns/" or empty
  const ListOptions options_;
  const FaultPlan plan_;
  Connection& connection_;
  const Settings settings_;

  std::optional<ApiStatus> error_;
  std::vector<StoredPtr> initial_;
  bool send_initial_ = false;
  uint64_t start_version_ = 0;
  WatchPosition position_;
  Clock::Steady deadline_;
  int sent_events_ = 0;
  bool fault_done_ = false;
  std::string buffer_;
  httplib::DataSink* sink_ = nullptr;
};

}  // namespace larder::apiserver
