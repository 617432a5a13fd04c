// Looks for one scalar in JSON as an API server writes it, without parsing what stands around it.
//
// For paths of names only, in text without white space. It answers where it is certain, as the
// parser would (FieldPath); for anything else, a list on the way, an escape, text that is not what
// it expects, it says kAskParser. Containers that the path does not lead into are passed over by
// their brackets (JsonSpan).
//
//   const Result<FieldPath> path = FieldPath::Parse("spec.nodeName");
//   ScannedField found = ScanField(R"("spec":{"nodeName":"n1"}})", path->steps());  // kValue, "n1"
//
// No state, for any number of threads.
#pragma once

#include <span>
#include <string_view>

#include "schema/field_path.h"

namespace larder {

struct ScannedField {
  enum class Outcome { kValue, kNothing, kAskParser };

  Outcome outcome = Outcome::kAskParser;
  std::string_view value{};  // a view into the text; a string without its quotes
};

// `members`: the members of an object, from its first key on, up to its closing bracket or further.
ScannedField ScanField(std::string_view members, std::span<const FieldPath::Step> steps);

}  // namespace larder
