// Field paths, one a line, an empty line, and a document: parsing an object and reading fields from
// it neither crashes nor disagrees with itself. One path needs no empty line. The document is read
// twice: as Object::Parse takes it, and past Object::Parse, because what it does not look at may be
// malformed. Where it is not, a field is the same however the object is held; and what is stored is
// read again.
#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "schema/field_path.h"
#include "schema/object.h"
#include "schema/parse_json.h"
#include "storage/value_codec.h"

namespace {

using larder::FieldPath;
using larder::Object;

void Read(const Object& object, const std::vector<FieldPath>& paths) {
  for (const FieldPath& path : paths) {
    const std::vector<std::string> values = path.Values(object);
    const std::optional<std::string> first = path.Value(object);
    // Value stops early, so it may give one where Values met something malformed later on.
    if (!values.empty()) LARDER_CHECK(first == values.front());
    path.Raw(object);
  }
  (void)FieldPath::ValuesOf(paths, object);
}

bool IsJson(std::string_view text) {
  simdjson::dom::parser parser;
  return parser.parse(simdjson::padded_string(text)).error() == simdjson::SUCCESS;
}

// `fresh` knows where its body is and `stored` does not.
void Compare(const Object& fresh, const Object& stored, const std::vector<FieldPath>& paths) {
  std::vector<std::vector<std::string>> each;
  for (const FieldPath& path : paths) {
    each.push_back(path.Values(fresh));
    LARDER_CHECK(path.Values(stored) == each.back());
  }
  LARDER_CHECK(FieldPath::ValuesOf(paths, fresh) == each);
  LARDER_CHECK(FieldPath::ValuesOf(paths, stored) == each);
}

// The copy to change is what nlohmann's parser reads, and nothing where that refuses.
void CheckCopy(const Object& object) {
  const larder::Json copy = object.ToMutable();
  const auto brackets = std::count_if(object.json().begin(), object.json().end(),
                                      [](char c) { return c == '[' || c == '{'; });
  if (static_cast<size_t>(brackets) > larder::kMaxParsedDepth) return;
  const larder::Json read = larder::Json::parse(object.json(), nullptr, false);
  LARDER_CHECK(copy == (read.is_discarded() ? larder::Json::object() : read));
}

void Store(const Object& object) {
  constexpr std::string_view kKey = "1/ns/name";
  larder::ObjectParts parts;
  larder::TakeApart(object, parts);
  const auto value = larder::EncodeValue(kKey, parts, {false, nullptr, nullptr});
  LARDER_CHECK(value.has_value());
  const auto read = larder::DecodeValue(kKey, value->value, {});
  LARDER_CHECK(read.has_value() && (*read)->json() == object.json());
  LARDER_CHECK((*read)->envelope_bytes() == object.envelope_bytes());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMaxPaths = 8;
  std::string_view json(reinterpret_cast<const char*>(data), size);
  const size_t blank = json.find("\n\n");
  std::string_view lines = json.substr(0, std::min({blank, json.find('\n'), json.size()}));
  if (blank != std::string_view::npos) lines = json.substr(0, blank + 1);
  json.remove_prefix(std::min(lines.size() + 1, json.size()));
  std::vector<FieldPath> paths;
  while (!lines.empty() && paths.size() < kMaxPaths) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    if (auto path = FieldPath::Parse(lines.substr(0, end))) paths.push_back(*std::move(path));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }

  const larder::Result<larder::ObjectPtr> object = Object::Parse(json, {"v1", "Pod"});
  if (object) {
    LARDER_CHECK(!(*object)->name().empty());
    (*object)->Labels();
    (*object)->Owners();
    CheckCopy(**object);
    Read(**object, paths);
    Store(**object);
    const larder::Result<larder::ObjectPtr> again = Object::Parse((*object)->json());
    LARDER_CHECK(again.has_value());
    LARDER_CHECK((*again)->key() == (*object)->key() && (*again)->kind() == (*object)->kind());
    LARDER_CHECK((*again)->Labels() == (*object)->Labels());
    if (IsJson((*object)->json())) {
      Compare(**object,
              *Object::FromParts((*object)->envelope_bytes(), std::string((*object)->json())),
              paths);
    }
  }
  static const std::string envelope(
      Object::Parse(R"({"metadata":{"name":"a"}})").value()->envelope_bytes());
  Read(*Object::FromParts(envelope, std::string(json)), paths);
  return 0;
}
