// Durations and sizes as people write them in Kubernetes.
//
// Durations are Go's: "300ms", "1.5h", "1h30m", "-1m", "0"; units ns, us (or µs), ms, s, m, h.
// Sizes are quantities: "10000", "64Mi", "1Gi", "500k", "2G".
//
//   Result<std::chrono::nanoseconds> period = ParseDuration("1h30m");
//   FormatDuration(*period);   // "1h30m0s"
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace larder {

// kInvalidArgument says what is wrong with the text.
Result<std::chrono::nanoseconds> ParseDuration(std::string_view text);
// As Go prints it: "1m0s", "500ms", "0s".
std::string FormatDuration(std::chrono::nanoseconds duration);

// A whole number with an optional suffix: k, M, G, T (powers of 1000), Ki, Mi, Gi, Ti (of 1024).
struct Size {
  uint64_t value = 0;
  bool has_unit = false;  // "64Mi" is bytes where a bare number may be a count
};
Result<Size> ParseSize(std::string_view text);

}  // namespace larder
