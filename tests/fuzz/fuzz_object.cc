// A field path on the first line, a document behind it: parsing an object and reading fields from
// it neither crashes nor disagrees with itself. The document is read twice: as Object::Parse takes
// it, and past Object::Parse, because what it does not look at may be malformed.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "schema/field_path.h"
#include "schema/object.h"

namespace {

void Read(const larder::Object& object, const larder::FieldPath& path) {
  const std::vector<std::string> values = path.Values(object);
  const std::optional<std::string> first = path.Value(object);
  // Value stops early, so it may give one where Values met something malformed later on.
  if (!values.empty()) LARDER_CHECK(first == values.front());
  path.Raw(object);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string_view json = input.substr(std::min(line + 1, input.size()));
  const larder::Result<larder::FieldPath> path = larder::FieldPath::Parse(input.substr(0, line));

  const larder::Result<larder::ObjectPtr> object = larder::Object::Parse(json, {"v1", "Pod"});
  if (object) {
    LARDER_CHECK(!(*object)->name().empty());
    (*object)->Labels();
    (*object)->Owners();
    if (path) Read(**object, *path);
    const larder::Result<larder::ObjectPtr> again = larder::Object::Parse((*object)->json());
    LARDER_CHECK(again.has_value());
    LARDER_CHECK((*again)->key() == (*object)->key() && (*again)->kind() == (*object)->kind());
    LARDER_CHECK((*again)->Labels() == (*object)->Labels());
  }
  if (path) {
    static const std::string envelope(
        larder::Object::Parse(R"({"metadata":{"name":"a"}})").value()->envelope_bytes());
    Read(*larder::Object::FromParts(envelope, std::string(json)), *path);
  }
  return 0;
}
