// One open watch: bytes in, events out.
//
// Memory is bounded by one piece of the body and one event of max_event_bytes. Errors of Next:
// kTimeout when no whole event arrived by the deadline, however many bytes trickled in;
// kUnavailable when the connection broke or the stream ended in mid-event (that event will come
// again); those of WatchDecoder::Next.
//
//   auto stream = WatchStream::Open(transport, request, options, clock, recorder, wire, stop);
//   auto event = (*stream)->Next(stop, deadline);
//   if (event && !*event) ...   // the server closed it properly
//
// Not thread-safe. An event is valid until the next call. Destroying it ends the transfer.
#pragma once

#include <memory>
#include <optional>

#include "client/transport.h"
#include "reflector/recorder.h"
#include "reflector/reflector_options.h"
#include "reflector/watch_decoder.h"
#include "reflector/watch_event.h"
#include "reflector/wire_choice.h"
#include "schema/wire_schema.h"

namespace larder {

class WatchStream {
 public:
  // `wire`: what objects in protobuf look like; null: it was not asked for.
  static Result<std::unique_ptr<WatchStream>> Open(HttpTransport& transport, const Request& request,
                                                   const ReflectorOptions& options, Clock* clock,
                                                   Recorder& recorder, const WireMessage* wire,
                                                   const std::stop_token& stop);

  Result<std::optional<WatchEvent>> Next(const std::stop_token& stop, Clock::Steady deadline);

  Clock::Steady opened_at() const { return opened_at_; }
  // Did any event arrive?
  bool heard() const { return heard_; }
  // Has a part of the next event arrived?
  bool InEvent() const { return decoder_->InEvent(); }
  // May what Next() could not read be read in another form?
  bool UnreadableProtobuf(const Error& error) const {
    return protobuf_ && !decoder_->TooLarge() && WireChoice::Unreadable(error);
  }

 private:
  WatchStream(std::unique_ptr<BodyStream> stream, std::unique_ptr<WatchDecoder> decoder,
              bool protobuf, Clock* clock, Recorder& recorder);

  const std::unique_ptr<BodyStream> stream_;
  const std::unique_ptr<WatchDecoder> decoder_;
  const bool protobuf_;
  Clock* const clock_;
  Recorder& recorder_;
  const Clock::Steady opened_at_;
  bool heard_ = false;
  uint64_t wire_bytes_ = 0;
};

}  // namespace larder
