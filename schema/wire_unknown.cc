#include "schema/wire_unknown.h"

#include "schema/wire_format.h"

namespace larder {
namespace {

constexpr uint32_t kTypeVersion = 1;
constexpr uint32_t kTypeKind = 2;
// How much of a name that was not expected goes into a message.
constexpr size_t kShownBytes = 60;

tl::unexpected<Error> Malformed(std::string_view what) {
  return MakeError(ErrorCode::kProtocol, "the protobuf is malformed: {}", what);
}

// Only printable ASCII: it is whatever a peer sent.
std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, kShownBytes));
  for (char& c : shown) {
    if (c < 0x20 || c >= 0x7f) c = '?';
  }
  return shown;
}

}  // namespace

Result<WireTypeMeta> ParseWireTypeMeta(std::string_view bytes) {
  WireTypeMeta type;
  WireFields fields(bytes);
  while (fields.Next()) {
    if (fields.number() == kTypeVersion) type.api_version = fields.bytes();
    if (fields.number() == kTypeKind) type.kind = fields.bytes();
  }
  if (fields.malformed() != nullptr) return Malformed(fields.malformed());
  return type;
}

Result<WireUnknown> ParseWireUnknown(std::string_view bytes) {
  if (!bytes.starts_with(kWireMagic)) return Malformed("wrong magic");
  WireUnknown unknown;
  WireFields fields(bytes.substr(kWireMagic.size()));
  while (fields.Next()) {
    if (fields.number() == kUnknownRaw) unknown.message = fields.bytes();
    if (fields.number() == kUnknownType) {
      LARDER_ASSIGN_OR_RETURN(unknown.type, ParseWireTypeMeta(fields.bytes()));
    }
  }
  if (fields.malformed() != nullptr) return Malformed(fields.malformed());
  return unknown;
}

Result<WireHead> WireUnknownToJson(const WireMessage& message, const TypeMeta& type,
                                   std::string_view bytes, const WireLimits& limits,
                                   KnownJson& known, std::string& out, bool* too_large) {
  if (too_large != nullptr) *too_large = false;
  LARDER_ASSIGN_OR_RETURN(const WireUnknown unknown, ParseWireUnknown(bytes));
  if (!unknown.type.Is(type)) {
    return MakeError(ErrorCode::kProtocol, "expected {} {}, the server sent {} {}",
                     type.api_version, type.kind, Shown(unknown.type.api_version),
                     Shown(unknown.type.kind));
  }
  return WireToJson(message, type, unknown.message, limits, known, out, too_large);
}

}  // namespace larder
