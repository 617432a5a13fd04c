#include "reflector/watch_stream.h"

#include <utility>

#include "reflector/answer.h"

namespace larder {

Result<std::unique_ptr<WatchStream>> WatchStream::Open(
    HttpTransport& transport, const Request& request, const ReflectorOptions& options, Clock* clock,
    Recorder& recorder, const WireMessage* wire, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(std::unique_ptr<BodyStream> stream, transport.Open(request, stop));
  LARDER_ASSIGN_OR_RETURN(const BodyForm form, CheckAnswer(stream->status(), stream->headers()));
  const bool protobuf = form == BodyForm::kProtobuf;
  if (protobuf && wire == nullptr) {
    return MakeError(ErrorCode::kProtocol,
                     "the server answered a watch with protobuf, JSON was asked for");
  }
  auto decoder = protobuf ? MakeProtobufDecoder(options, *wire) : MakeJsonDecoder(options);
  return std::unique_ptr<WatchStream>(
      new WatchStream(std::move(stream), std::move(decoder), protobuf, clock, recorder));
}

WatchStream::WatchStream(std::unique_ptr<BodyStream> stream, std::unique_ptr<WatchDecoder> decoder,
                         bool protobuf, Clock* clock, Recorder& recorder)
    : stream_(std::move(stream)),
      decoder_(std::move(decoder)),
      protobuf_(protobuf),
      clock_(clock),
      recorder_(recorder),
      opened_at_(clock->Now()) {}

Result<std::optional<WatchEvent>> WatchStream::Next(const std::stop_token& stop,
                                                    Clock::Steady deadline) {
  for (;;) {
    LARDER_ASSIGN_OR_RETURN(const std::optional<WatchEvent> event, decoder_->Next());
    if (event) {
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
      if (!decoder_->InEvent()) return std::nullopt;
      return MakeError(ErrorCode::kUnavailable, "the watch ended in the middle of an event");
    }
    decoder_->Feed(piece);
  }
}

}  // namespace larder
