#include "reflector/watch_stream.h"

#include <utility>

#include "reflector/answer.h"

namespace larder {

Result<std::unique_ptr<WatchStream>> WatchStream::Open(HttpTransport& transport,
                                                       const Request& request,
                                                       const ReflectorOptions& options,
                                                       Clock* clock, Recorder& recorder,
                                                       const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(std::unique_ptr<BodyStream> stream, transport.Open(request, stop));
  LARDER_ASSIGN_OR_RETURN(const BodyForm form, CheckAnswer(*stream));
  if (form != BodyForm::kJson) {
    return MakeError(ErrorCode::kProtocol,
                     "the server answered a watch with protobuf, JSON was asked for");
  }
  return std::unique_ptr<WatchStream>(new WatchStream(std::move(stream), options, clock, recorder));
}

WatchStream::WatchStream(std::unique_ptr<BodyStream> stream, const ReflectorOptions& options,
                         Clock* clock, Recorder& recorder)
    : stream_(std::move(stream)),
      clock_(clock),
      recorder_(recorder),
      opened_at_(clock->Now()),
      lines_(options.max_event_bytes),
      parser_(options.max_json_depth) {}

Result<std::optional<WatchEvent>> WatchStream::Next(const std::stop_token& stop,
                                                    Clock::Steady deadline) {
  for (;;) {
    LARDER_ASSIGN_OR_RETURN(const std::optional<std::string_view> line, lines_.Next());
    if (line) {
      LARDER_ASSIGN_OR_RETURN(const WatchEvent event, parser_.Parse(*line));
      heard_ = true;
      return event;
    }
    // Bytes that never make an event must not keep the stream alive.
    if (clock_->Now() >= deadline) {
      return MakeError(ErrorCode::kTimeout, "no whole event arrived in time");
    }
    LARDER_ASSIGN_OR_RETURN(const std::string_view piece, stream_->Read(stop, deadline));
    const uint64_t wire = stream_->wire_bytes();
    recorder_.Bytes(wire - std::exchange(wire_bytes_, wire), piece.size());
    if (piece.empty()) {
      if (!lines_.InLine()) return std::nullopt;
      return MakeError(ErrorCode::kUnavailable, "the watch ended in the middle of an event");
    }
    lines_.Feed(piece);
  }
}

}  // namespace larder
