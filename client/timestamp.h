// RFC 3339, as Kubernetes writes times.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace larder {

// "2026-01-02T03:04:05Z", with a fraction of a second or an offset where there is one. nullopt on
// anything else.
std::optional<Clock::Wall> ParseTimestamp(std::string_view text);

// "2026-01-02T03:04:05Z".
std::string FormatTime(Clock::Wall time);
// "2026-01-02T03:04:05.000006Z", the form of MicroTime.
std::string FormatMicroTime(Clock::Wall time);

}  // namespace larder
