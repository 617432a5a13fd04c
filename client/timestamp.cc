#include "client/timestamp.h"

#include <fmt/format.h>

#include <charconv>

namespace larder {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Reads numbers of a fixed width and single characters from the front of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  int Number(size_t width) {
    int value = 0;
    if (text_.size() < width) return Fail();
    const char* end = text_.data() + width;
    const auto [stopped_at, code] = std::from_chars(text_.data(), end, value);
    if (code != std::errc() || stopped_at != end || value < 0) return Fail();
    text_.remove_prefix(width);
    return value;
  }
  // The character consumed, when it is one of `allowed`.
  char OneOf(std::string_view allowed) {
    if (text_.empty() || allowed.find(text_.front()) == std::string_view::npos) {
      Fail();
      return '\0';
    }
    const char c = text_.front();
    text_.remove_prefix(1);
    return c;
  }
  microseconds Fraction() {
    if (text_.empty() || text_.front() != '.') return microseconds(0);
    text_.remove_prefix(1);
    int64_t micros = 0;
    size_t digits = 0;
    for (; !text_.empty() && text_.front() >= '0' && text_.front() <= '9'; ++digits) {
      if (digits < 6) micros = micros * 10 + (text_.front() - '0');
      text_.remove_prefix(1);
    }
    if (digits == 0) Fail();
    for (; digits < 6; ++digits) micros *= 10;
    return microseconds(micros);
  }
  bool Done() const { return ok_ && text_.empty(); }

 private:
  int Fail() {
    ok_ = false;
    return 0;
  }
  std::string_view text_;
  bool ok_ = true;
};

std::string Format(Clock::Wall time, bool with_micros) {
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<microseconds>(time - day));
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  if (with_micros) text += fmt::format(".{:06}", clock.subseconds().count());
  return text + "Z";
}

}  // namespace

std::optional<Clock::Wall> ParseTimestamp(std::string_view text) {
  Scanner scan(text);
  const int year = scan.Number(4);
  scan.OneOf("-");
  const auto month = static_cast<unsigned>(scan.Number(2));
  scan.OneOf("-");
  const auto day = static_cast<unsigned>(scan.Number(2));
  scan.OneOf("Tt ");
  const int hour = scan.Number(2);
  scan.OneOf(":");
  const int minute = scan.Number(2);
  scan.OneOf(":");
  const int second = scan.Number(2);
  const microseconds fraction = scan.Fraction();
  minutes offset(0);
  const char sign = scan.OneOf("Zz+-");
  if (sign == '+' || sign == '-') {
    offset = hours(scan.Number(2));
    scan.OneOf(":");
    offset += minutes(scan.Number(2));
    if (sign == '-') offset = -offset;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  // 60: a leap second. Years beyond these do not fit into the clock's nanoseconds.
  if (!scan.Done() || !date.ok() || hour > 23 || minute > 59 || second > 60 || year < 1700 ||
      year > 2200) {
    return std::nullopt;
  }
  return Clock::Wall(std::chrono::sys_days(date)) + hours(hour) + minutes(minute) +
         seconds(second) + fraction - offset;
}

std::string FormatTime(Clock::Wall time) { return Format(time, false); }
std::string FormatMicroTime(Clock::Wall time) { return Format(time, true); }

}  // namespace larder
