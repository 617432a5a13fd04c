// An object in protobuf, of the kind that the first byte picks. What comes out must be JSON; and
// made without what a transform cuts out it must be what the transform makes of the whole.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "schema/object.h"
#include "schema/wire_projection.h"
#include "schema/wire_to_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::vector<larder::TypeMeta> kinds = larder::WireSchema::BuiltIn().Kinds();
  const larder::TypeMeta& type = kinds[data[0] % kinds.size()];
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  std::string json, again;
  larder::KnownJson known;
  const larder::WireMessage& message = *larder::WireSchema::BuiltIn().Find(type);
  const auto head = larder::WireToJson(message, type, bytes, 100, known, json);
  const auto second = larder::WireToJson(message, type, bytes, 100, known, again);
  if (head.has_value() != second.has_value()) std::abort();
  if (!head) return 0;
  if (head->body_at != second->body_at || json != again) std::abort();
  if (json.front() != '{' || json.back() != '}') std::abort();
  // What JSON inside the messages makes of the whole may be refused, but what the metadata says
  // holds.
  const auto whole = larder::Object::Parse(json);
  const auto read = larder::Object::FromWire(json, type, *head);
  if (whole && (!read || (*whole)->envelope_bytes() != (*read)->envelope_bytes())) std::abort();
  if (whole && (*whole)->Body() != (*read)->Body()) std::abort();

  static const larder::Transform cut =
      larder::DropPaths({"metadata.managedFields", "spec.containers.env", "status.conditions"})
          .value();
  const auto projection = larder::WireProjection::Of(message, cut);
  if (!whole || !projection) return 0;
  larder::KnownJson known_cut;
  if (!larder::WireToJson(projection->message(), type, bytes, 100, known_cut, again)) std::abort();
  const auto applied = cut.apply(*whole);
  if (applied && (*applied)->json() != again) std::abort();
  return 0;
}
