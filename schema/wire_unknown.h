// What Kubernetes puts around a message in protobuf, so that it says what it is: the magic `k8s\0`,
// then a runtime.Unknown whose field 1 is the type and field 2 the message.
//
//   auto unknown = ParseWireUnknown(body);    // {"v1", "PodList", …}
//
//   auto head = WireUnknownToJson(*WireSchema::BuiltIn().Find(pod), pod, body, {}, known, json);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/wire_to_json.h"

namespace larder {

inline constexpr std::string_view kWireMagic("k8s\0", 4);
// The fields of runtime.Unknown. What else it has, encoding and content type, is empty.
inline constexpr uint32_t kUnknownType = 1;
inline constexpr uint32_t kUnknownRaw = 2;

// Views into what was parsed.
struct WireTypeMeta {
  std::string_view api_version;
  std::string_view kind;

  bool Is(const TypeMeta& type) const {
    return kind == type.kind && api_version == type.api_version;
  }
};

struct WireUnknown {
  WireTypeMeta type;
  std::string_view message;
};

// A TypeMeta on its own. What is malformed is kProtocol, here and below.
Result<WireTypeMeta> ParseWireTypeMeta(std::string_view bytes);
Result<WireUnknown> ParseWireUnknown(std::string_view bytes);

// WireToJson of what is inside; kProtocol when that is not of `type`.
Result<WireHead> WireUnknownToJson(const WireMessage& message, const TypeMeta& type,
                                   std::string_view bytes, const WireLimits& limits,
                                   KnownJson& known, std::string& out, bool* too_large = nullptr);

}  // namespace larder
