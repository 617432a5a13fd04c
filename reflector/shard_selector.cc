#include "reflector/shard_selector.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace larder {
namespace {

constexpr std::string_view kEndOfLine = "10000000000000000";

void SkipSpace(std::string_view& rest) {
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
}

bool Skip(std::string_view& rest, std::string_view token) {
  SkipSpace(rest);
  if (!rest.starts_with(token)) return false;
  rest.remove_prefix(token.size());
  return true;
}

// The digits of `'0x…'`.
std::optional<std::string_view> Hex(std::string_view& rest) {
  if (!Skip(rest, "'0x")) return std::nullopt;
  const size_t end = rest.find('\'');
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  const std::string_view digits = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return digits;
}

std::optional<uint64_t> Number(std::string_view digits) {
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value, 16);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

tl::unexpected<Error> Refuse(std::string_view text, std::string_view rest, std::string_view what) {
  return MakeError(ErrorCode::kInvalidArgument, "shard selector '{}': {} at column {}", text, what,
                   text.size() - rest.size() + 1);
}

}  // namespace

Result<ShardSelector> ShardSelector::Parse(std::string_view text) {
  ShardSelector selector;
  std::string_view rest = text;
  SkipSpace(rest);
  if (rest.empty()) return selector;
  do {
    Range range;
    if (!Skip(rest, "shardRange(")) return Refuse(text, rest, "shardRange( was expected");
    if (Skip(rest, "object.metadata.namespace")) {
      range.by_namespace = true;
    } else if (!Skip(rest, "object.metadata.uid")) {
      return Refuse(text, rest, "object.metadata.uid or object.metadata.namespace was expected");
    }
    if (!Skip(rest, ",")) return Refuse(text, rest, "a comma was expected");
    const auto from = Hex(rest);
    if (!from || !Skip(rest, ","))
      return Refuse(text, rest, "a number like '0x80' and a comma were expected");
    const auto to = Hex(rest);
    if (!to || !Skip(rest, ")"))
      return Refuse(text, rest, "a number like '0x80' and ')' were expected");
    const auto first = Number(*from);
    const auto end = *to == kEndOfLine ? std::optional<uint64_t>(0) : Number(*to);
    const uint64_t last = end.value_or(0) - 1;  // 2^64 is stored as 0 and wraps to the last number
    if (!first || !end || (*end == 0 && *to != kEndOfLine) || last < *first) {
      return Refuse(text, rest, "the range is empty or not in hexadecimal");
    }
    range.first = *first;
    range.last = last;
    selector.ranges_.push_back(range);
  } while (Skip(rest, "||"));
  SkipSpace(rest);
  if (!rest.empty()) return Refuse(text, rest, "|| was expected");
  return selector;
}

std::string ShardSelector::ForPart(uint32_t index, uint32_t count) {
  // Part i begins at ceil(i * 2^64 / count), computed without 128 bits.
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const uint64_t width = kMax / count;
  const uint64_t remainder = kMax % count + 1;  // 2^64 = width * count + remainder
  auto start = [&](uint64_t i) { return width * i + std::min(i, remainder); };
  const std::string end =
      index + 1 == count ? std::string(kEndOfLine) : fmt::format("{:016x}", start(index + 1));
  return fmt::format("shardRange(object.metadata.uid,'0x{:016x}','0x{}')", start(index), end);
}

bool ShardSelector::Matches(std::string_view ns, std::string_view uid) const {
  if (ranges_.empty()) return true;
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    const uint64_t hash = Fnv1a64(range.by_namespace ? ns : uid);
    return range.first <= hash && hash <= range.last;
  });
}

uint64_t Fnv1a64(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace larder
