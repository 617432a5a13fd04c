// An object in protobuf, of the kind that the first byte picks. What comes out must be JSON, and no
// larger than it may be; and made without what a transform cuts out it must be what the transform
// makes of the whole. Behind four bytes of 0xff, which no message has in front of a field, a second
// one may follow, in the same form: what is kept of one object must not show in another.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schema/object.h"
#include "schema/wire_projection.h"
#include "schema/wire_to_json.h"

namespace {

struct Input {
  larder::TypeMeta type;
  const larder::WireMessage* message = nullptr;
  std::string_view bytes;

  // As the reflector's. What prints many empty messages comes to it.
  larder::WireLimits Limits() const { return {100, 1024 + 16 * bytes.size()}; }
};

larder::Result<larder::WireHead> ToJson(const Input& input, const larder::WireMessage& message,
                                        larder::KnownJson& known, std::string& json) {
  bool too_large = false;
  const larder::WireLimits limits = input.Limits();
  auto head = larder::WireToJson(message, input.type, input.bytes, limits, known, json, &too_large);
  if (head) LARDER_CHECK(json.size() <= limits.max_json_bytes);
  // Not its text alone, but the room that was made for it.
  constexpr size_t kFirstRoom = size_t{16} << 10;
  LARDER_CHECK(json.size() <= kFirstRoom + 2 * limits.max_json_bytes);
  LARDER_CHECK(!head || !too_large);
  return head;
}

Input Read(std::string_view input) {
  static const std::vector<larder::TypeMeta> kinds = larder::WireSchema::BuiltIn().Kinds();
  const uint8_t pick = input.empty() ? 0 : static_cast<uint8_t>(input[0]);
  const larder::TypeMeta& type = kinds[pick % kinds.size()];
  return {type, larder::WireSchema::BuiltIn().Find(type), input.substr(input.empty() ? 0 : 1)};
}

// What became of it, with what is known.
std::string Convert(const Input& input, larder::KnownJson& known) {
  std::string json;
  const auto head = ToJson(input, *input.message, known, json);
  return head ? std::to_string(head->body_at) + json : head.error().message;
}

std::string ConvertAlone(const Input& input) {
  larder::KnownJson known;
  return Convert(input, known);
}

void CheckTwo(const Input& a, const Input& b) {
  for (const size_t pieces : {larder::KnownJson::kForWatch, larder::KnownJson::kForList}) {
    larder::KnownJson known(pieces);
    const std::string first = ConvertAlone(a), second = ConvertAlone(b);
    for (int twice = 0; twice < 2; ++twice) {
      LARDER_CHECK(Convert(a, known) == first);
      LARDER_CHECK(Convert(b, known) == second);
    }
  }
}

// Made without what `cut` cuts out, it is what `cut` makes of the whole.
void CheckCut(const Input& input, const larder::ObjectPtr& whole, const larder::Transform& cut) {
  const auto projection = larder::WireProjection::Of(*input.message, cut);
  if (!projection) return;
  std::string json;
  larder::KnownJson known;
  const auto head = ToJson(input, projection->message(), known, json);
  LARDER_CHECK(head.has_value());
  const auto applied = cut.apply(whole);
  if (applied) LARDER_CHECK((*applied)->json() == json);
}

void CheckOne(const Input& input) {
  static const std::vector<larder::Transform> cuts = {
      larder::StripManagedFields(),
      *larder::DropPaths({"metadata.managedFields", "spec.containers.env", "status.conditions"}),
      *larder::KeepPaths({"spec.containers.image", "spec.template.spec", "status.phase", "data"}),
  };
  const larder::TypeMeta& type = input.type;
  std::string json;
  larder::KnownJson known;
  const auto head = ToJson(input, *input.message, known, json);
  if (!head) return;
  LARDER_CHECK(json.front() == '{' && json.back() == '}');
  // What JSON inside the messages makes of the whole may be refused, but what the metadata says
  // holds.
  const auto whole = larder::Object::Parse(json);
  const auto read = larder::Object::FromWire(json, type, *head);
  if (!whole) return;
  LARDER_CHECK(read.has_value());
  LARDER_CHECK((*whole)->envelope_bytes() == (*read)->envelope_bytes());
  LARDER_CHECK((*whole)->Body() == (*read)->Body());
  for (const larder::Transform& cut : cuts) CheckCut(input, *whole, cut);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kBetween = "\xff\xff\xff\xff";
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t between = input.find(kBetween, 1);
  const Input first = Read(input.substr(0, between));
  CheckOne(first);
  const bool two = between != std::string_view::npos;
  CheckTwo(first, two ? Read(input.substr(between + kBetween.size())) : first);
  return 0;
}
