// Keys as they may stand in a damaged store: each parser gives an error or what the key was made
// of. The first byte chooses the kind of key.
#include <cstdint>
#include <string>
#include <string_view>

#include "storage/keys.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace keys = larder::keys;
  if (size == 0) return 0;
  const std::string_view key(reinterpret_cast<const char*>(data + 1), size - 1);
  (void)keys::CollectionOf(key);
  switch (data[0] % 5) {
    case 0:
      if (const auto parsed = keys::ParseObject(key)) {
        const auto again = keys::ParseObject(keys::Object(1, *parsed));
        LARDER_CHECK(again.has_value() && *again == *parsed);
      }
      break;
    case 1:
      (void)keys::ParseIndex(key);
      break;
    case 2:
      (void)keys::ParseDelta(key);
      break;
    case 3:
      (void)keys::ParseQueueItem(key);
      break;
    default: {
      const auto back = keys::UnescapePart(keys::EscapePart(key));
      LARDER_CHECK(back.has_value() && *back == key);
      (void)keys::UnescapePart(key);
    }
  }
  return 0;
}
