#include "tools/age.h"

#include <fmt/format.h>

#include <ctime>

#include "client/timestamp.h"

namespace larder::tools {
namespace {

std::string TwoUnits(int64_t big, char big_unit, int64_t small, char small_unit) {
  return small == 0 ? fmt::format("{}{}", big, big_unit)
                    : fmt::format("{}{}{}{}", big, big_unit, small, small_unit);
}

}  // namespace

std::string HumanDuration(std::chrono::seconds duration) {
  const int64_t seconds = duration.count();
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  if (seconds < 120) return fmt::format("{}s", seconds);
  const int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
  if (minutes < 10) return TwoUnits(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return fmt::format("{}m", minutes);
  if (hours < 8) return TwoUnits(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return fmt::format("{}h", hours);
  if (days < 8) return TwoUnits(days, 'd', hours % 24, 'h');
  if (days < 2 * 365) return fmt::format("{}d", days);
  if (days < 8 * 365) return TwoUnits(days / 365, 'y', days % 365, 'd');
  return fmt::format("{}y", days / 365);
}

std::string AgeOf(int64_t created_seconds, int64_t now_seconds) {
  if (created_seconds == 0) return "<unknown>";
  return HumanDuration(std::chrono::seconds(now_seconds - created_seconds));
}

std::string AgeOf(std::string_view timestamp, int64_t now_seconds) {
  return AgeOf(ParseTimestamp(timestamp), now_seconds);
}

int64_t ParseTimestamp(std::string_view text) {
  const auto time = larder::ParseTimestamp(text);
  if (!time) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(time->time_since_epoch()).count();
}

std::string FormatTimestamp(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

int64_t NowSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace larder::tools
