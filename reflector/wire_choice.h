// Whether a reflector asks for protobuf: of built-in kinds, until something comes that this build
// cannot read. From then on it asks for JSON, whatever it asks for.
//
//   Request request = requests.Watch(version, Requests::FormFor(choice.message()));
//   if (!event && WireChoice::Unreadable(event.error())) choice.GiveUp(event.error());
//
// Thread-safe: objects are fetched on several threads.
#pragma once

#include <atomic>
#include <memory>

#include "base/error.h"
#include "reflector/reflector_options.h"
#include "schema/wire_projection.h"
#include "schema/wire_to_json.h"

namespace larder {

class WireChoice {
 public:
  explicit WireChoice(const ReflectorOptions& options);

  // What its objects look like, and are read as: without what the transform cuts out. Null: it asks
  // for JSON.
  const WireMessage* message() const { return message_.load(std::memory_order_relaxed); }

  // May this error of a protobuf answer be gone in JSON?
  static bool Unreadable(const Error& error) {
    return error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kProtocol;
  }
  // What an object may become as JSON: more than max_event_bytes, for small numbers and names that
  // are always written make it some seven times as large.
  static WireLimits Limits(const ReflectorOptions& options);
  // Says so in the log, the first time.
  void GiveUp(const Error& why);

 private:
  const ReflectorOptions& options_;
  std::unique_ptr<const WireProjection> projection_;
  std::atomic<const WireMessage*> message_;
};

}  // namespace larder
