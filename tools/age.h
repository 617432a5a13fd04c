// Durations and times as kubectl shows them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace larder::tools {

// "45s", "3m10s", "26m", "5h12m", "30h", "3d4h", "45d", "2y10d": two units while the first is
// small.
std::string HumanDuration(std::chrono::seconds duration);

// How long ago; "<unknown>" for 0.
std::string AgeOf(int64_t created_seconds, int64_t now_seconds);
// The same for "2024-05-01T10:00:00Z", with or without fractions.
std::string AgeOf(std::string_view timestamp, int64_t now_seconds);

// Seconds since 1970; 0 where it is no timestamp.
int64_t ParseTimestamp(std::string_view text);
// "2024-05-01T10:00:00Z".
std::string FormatTimestamp(int64_t seconds);
int64_t NowSeconds();

}  // namespace larder::tools
