// One open watch: bytes in, events out.
//
// Memory is bounded by one piece of the body and one line of max_event_bytes. Errors of Next:
// kTimeout when no whole event arrived by the deadline, however many bytes trickled in;
// kUnavailable when the connection broke or the stream ended in mid-line (that event will come
// again); kProtocol for a line that is not an event.
//
//   auto stream = WatchStream::Open(transport, request, options, clock, recorder, stop);
//   auto event = (*stream)->Next(stop, deadline);
//   if (event && !*event) ...   // the server closed it properly
//
// Not thread-safe. An event is valid until the next call. Destroying it ends the transfer.
#pragma once

#include <memory>
#include <optional>

#include "client/transport.h"
#include "reflector/line_splitter.h"
#include "reflector/recorder.h"
#include "reflector/reflector_options.h"
#include "reflector/watch_event.h"

namespace larder {

class WatchStream {
 public:
  static Result<std::unique_ptr<WatchStream>> Open(HttpTransport& transport, const Request& request,
                                                   const ReflectorOptions& options, Clock* clock,
                                                   Recorder& recorder, const std::stop_token& stop);

  Result<std::optional<WatchEvent>> Next(const std::stop_token& stop, Clock::Steady deadline);

  Clock::Steady opened_at() const { return opened_at_; }
  // Did any event arrive?
  bool heard() const { return heard_; }
  // Has a part of the next event arrived?
  bool InEvent() const { return lines_.InLine(); }

 private:
  WatchStream(std::unique_ptr<BodyStream> stream, const ReflectorOptions& options, Clock* clock,
              Recorder& recorder);

  const std::unique_ptr<BodyStream> stream_;
  Clock* const clock_;
  Recorder& recorder_;
  const Clock::Steady opened_at_;
  LineSplitter lines_;
  WatchLineParser parser_;
  bool heard_ = false;
  uint64_t wire_bytes_ = 0;
};

}  // namespace larder
