// Any text as a label selector and as a field selector: no crash, and what parses prints a form
// that parses back to itself.
#include <cstdint>
#include <string_view>

#include "schema/selector.h"

namespace {

template <typename Selector>
void CheckRoundTrip(std::string_view text, const larder::Object& object) {
  const auto selector = Selector::Parse(text);
  if (!selector) {
    LARDER_CHECK(!selector.error().message.empty());
    return;
  }
  const auto again = Selector::Parse(selector->ToString());
  LARDER_CHECK(again.has_value());
  LARDER_CHECK(again->ToString() == selector->ToString());
  LARDER_CHECK(again->Matches(object) == selector->Matches(object));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const larder::ObjectPtr object =
      larder::Object::Parse(
          R"({"metadata":{"name":"a","namespace":"x","labels":{"a":"1","b":"","in":"x"}},
              "spec":{"nodeName":"n","list":[1,true,null,{"k":"v"}]}})")
          .value();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckRoundTrip<larder::LabelSelector>(text, *object);
  CheckRoundTrip<larder::FieldSelector>(text, *object);
  return 0;
}
