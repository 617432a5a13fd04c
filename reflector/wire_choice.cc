#include "reflector/wire_choice.h"

#include <spdlog/spdlog.h>

namespace larder {

WireChoice::WireChoice(const ReflectorOptions& options)
    : options_(options),
      message_(
          options.protobuf && !options.metadata_only
              ? WireSchema::BuiltIn().Find({options.resource.ApiVersion(), options.resource.kind})
              : nullptr) {}

void WireChoice::GiveUp(const Error& why) {
  if (message_.exchange(nullptr) == nullptr) return;
  spdlog::warn("{}: the server's protobuf cannot be read ({}), asking for JSON from now on",
               options_.name, why.ToString());
}

}  // namespace larder
