// How deep a document is nested, of which simdjson has the whole in hand.
#pragma once

#include <simdjson.h>

#include <algorithm>
#include <cstdint>

namespace larder::fuzz {

inline uint32_t Depth(simdjson::dom::element value) {
  uint32_t inside = 0;
  if (value.is_object()) {
    for (const auto field : simdjson::dom::object(value)) {
      inside = std::max(inside, Depth(field.value));
    }
  } else if (value.is_array()) {
    for (const auto element : simdjson::dom::array(value)) {
      inside = std::max(inside, Depth(element));
    }
  } else {
    return 0;
  }
  return inside + 1;
}

}  // namespace larder::fuzz
