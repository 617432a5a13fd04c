// Makes events of the bytes of a watch, in the form that the server chose: lines of JSON, or frames
// of protobuf whose objects become the JSON that the server would have sent.
//
// Memory is bounded by one event of ReflectorOptions::max_event_bytes. Errors of Next: kProtocol
// for what is not an event, kUnsupported for a protobuf field that this build does not know. After
// one the stream must be dropped.
//
//   decoder->Feed(piece);
//   while (auto event = decoder->Next(); event && *event) Use(**event);
//
// Not thread-safe. An event is valid until the next call.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "reflector/reflector_options.h"
#include "reflector/watch_event.h"
#include "schema/wire_schema.h"

namespace larder {

class WatchDecoder {
 public:
  virtual ~WatchDecoder() = default;

  // Takes the next piece. It must stay valid until Next() returned nullopt, which must happen
  // before the next Feed.
  virtual void Feed(std::string_view piece) = 0;
  // The next whole event; nullopt when more bytes are needed.
  virtual Result<std::optional<WatchEvent>> Next() = 0;
  // Has a part of the next event arrived?
  virtual bool InEvent() const = 0;
  // Did Next() refuse an event for its size, which no other form makes better?
  virtual bool TooLarge() const = 0;
};

std::unique_ptr<WatchDecoder> MakeJsonDecoder(const ReflectorOptions& options);
// `wire`: what the objects of options.resource look like.
std::unique_ptr<WatchDecoder> MakeProtobufDecoder(const ReflectorOptions& options,
                                                  const WireMessage& wire);

}  // namespace larder
