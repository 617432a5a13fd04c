// Reads a JSON document into a value to change.
//
// In time that grows with the text: nlohmann's own parser looks through an object's members for
// each new one, which is half a minute for a ConfigMap of 100,000 keys. What it reads is the same:
// of a repeated name the last value, in the first one's place.
//
//   std::optional<Json> pod = ParseJson(R"({"kind":"Pod"})");
//
// nullopt: no JSON, a number that no double holds (1e400), or nested deeper than kMaxParsedDepth,
// because copying and printing such a value takes stack for each level. Safe on any thread.
#pragma once

#include <optional>
#include <string_view>

#include "schema/object.h"

namespace larder {

inline constexpr size_t kMaxParsedDepth = 1000;

std::optional<Json> ParseJson(std::string_view text);

}  // namespace larder
