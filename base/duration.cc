#include "base/duration.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace larder {
namespace {

using std::chrono::nanoseconds;

struct DurationUnit {
  std::string_view name;
  int64_t nanos;
};
// Longer names first where one begins with another.
constexpr std::array<DurationUnit, 8> kDurationUnits = {{{"ns", 1},
                                                         {"us", 1'000},
                                                         {"µs", 1'000},
                                                         {"μs", 1'000},
                                                         {"ms", 1'000'000},
                                                         {"s", 1'000'000'000},
                                                         {"m", 60'000'000'000},
                                                         {"h", 3'600'000'000'000}}};

// Takes the digits, with a fraction, off the front of `text`.
bool TakeNumber(std::string_view& text, double& number) {
  size_t length = 0;
  while (length < text.size() &&
         ((text[length] >= '0' && text[length] <= '9') || text[length] == '.')) {
    ++length;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + length, number);
  if (length == 0 || error != std::errc() || end != text.data() + length) return false;
  text.remove_prefix(length);
  return true;
}

const DurationUnit* TakeUnit(std::string_view& text) {
  for (const DurationUnit& unit : kDurationUnits) {
    if (!text.starts_with(unit.name)) continue;
    text.remove_prefix(unit.name.size());
    return &unit;
  }
  return nullptr;
}

tl::unexpected<Error> NoDuration(std::string_view text) {
  return MakeError(ErrorCode::kInvalidArgument, "\"{}\" is not a duration like 500ms, 10m or 1h30m",
                   text);
}

// 1500 in units of 1000: "1.5". `unit` is a power of ten.
std::string InUnits(uint64_t number, uint64_t unit) {
  std::string text = std::to_string(number / unit);
  if (number % unit == 0) return text;
  std::string fraction = std::to_string(unit + number % unit);  // keeps the zeros in front
  fraction[0] = '.';
  while (fraction.back() == '0') fraction.pop_back();
  return text + fraction;
}

}  // namespace

Result<nanoseconds> ParseDuration(std::string_view text) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest == "0") return nanoseconds(0);
  if (rest.empty()) return NoDuration(text);
  double total = 0;
  while (!rest.empty()) {
    double number = 0;
    if (!TakeNumber(rest, number)) return NoDuration(text);
    const DurationUnit* unit = TakeUnit(rest);
    if (!unit) return NoDuration(text);
    total += number * static_cast<double>(unit->nanos);
  }
  if (total >= static_cast<double>(std::numeric_limits<int64_t>::max())) return NoDuration(text);
  const auto nanos = static_cast<int64_t>(std::llround(total));
  return nanoseconds(negative ? -nanos : nanos);
}

std::string FormatDuration(nanoseconds duration) {
  const bool negative = duration.count() < 0;
  const uint64_t total = negative ? uint64_t{0} - static_cast<uint64_t>(duration.count())
                                  : static_cast<uint64_t>(duration.count());
  const std::string sign = negative ? "-" : "";
  if (total == 0) return "0s";
  if (total < 1'000) return fmt::format("{}{}ns", sign, total);
  if (total < 1'000'000) return fmt::format("{}{}µs", sign, InUnits(total, 1'000));
  if (total < 1'000'000'000) return fmt::format("{}{}ms", sign, InUnits(total, 1'000'000));
  const uint64_t minutes = total / 60'000'000'000U;
  const std::string seconds = InUnits(total % 60'000'000'000U, 1'000'000'000);
  if (minutes == 0) return fmt::format("{}{}s", sign, seconds);
  if (minutes < 60) return fmt::format("{}{}m{}s", sign, minutes, seconds);
  return fmt::format("{}{}h{}m{}s", sign, minutes / 60, minutes % 60, seconds);
}

Result<Size> ParseSize(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, uint64_t>, 9> kUnits = {
      {{"Ki", uint64_t{1} << 10},
       {"Mi", uint64_t{1} << 20},
       {"Gi", uint64_t{1} << 30},
       {"Ti", uint64_t{1} << 40},
       {"k", 1'000},
       {"M", 1'000'000},
       {"G", 1'000'000'000},
       {"T", 1'000'000'000'000},
       {"", 1}}};
  Size size;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size.value);
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error == std::errc()) {
    for (const auto& [name, factor] : kUnits) {
      if (suffix != name || size.value > std::numeric_limits<uint64_t>::max() / factor) continue;
      size.value *= factor;
      size.has_unit = !name.empty();
      return size;
    }
  }
  return MakeError(ErrorCode::kInvalidArgument, "\"{}\" is not a size like 10000, 64Mi or 1Gi",
                   text);
}

}  // namespace larder
