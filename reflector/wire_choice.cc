#include "reflector/wire_choice.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace larder {

WireChoice::WireChoice(const ReflectorOptions& options) : options_(options), message_(nullptr) {
  if (!options.protobuf || options.metadata_only) return;
  const WireMessage* const whole =
      WireSchema::BuiltIn().Find({options.resource.ApiVersion(), options.resource.kind});
  if (whole == nullptr) return;
  projection_ = WireProjection::Of(*whole, options.transform);
  message_ = projection_ ? &projection_->message() : whole;
}

WireLimits WireChoice::Limits(const ReflectorOptions& options) {
  constexpr size_t kMostTimes = 16;
  WireLimits limits{options.max_json_depth};
  limits.max_json_bytes =
      kMostTimes * std::min(options.max_event_bytes, limits.max_json_bytes / kMostTimes);
  return limits;
}

void WireChoice::GiveUp(const Error& why) {
  if (message_.exchange(nullptr) == nullptr) return;
  spdlog::warn("{}: the server's protobuf cannot be read ({}), asking for JSON from now on",
               options_.name, why.ToString());
}

}  // namespace larder
