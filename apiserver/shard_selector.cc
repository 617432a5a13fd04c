#include "apiserver/shard_selector.h"

#include <charconv>

namespace larder::apiserver {
namespace {

std::string_view TrimSpace(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// '0x…' with exactly 16 digits, or 2^64, which only an end may be: it comes back as 0.
Result<uint64_t> ParseHex(std::string_view text, std::string_view what) {
  text = TrimSpace(text);
  if (text.size() < 2 || (text.front() != '\'' && text.front() != '"') ||
      text.back() != text.front()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be a string literal (e.g. '0xff'), got {}", what, text);
  }
  text = text.substr(1, text.size() - 2);
  if (!text.starts_with("0x")) {
    return MakeError(ErrorCode::kInvalidArgument, "{} must have '0x' prefix, got \"{}\"", what,
                     text);
  }
  if (text == "0x10000000000000000") return 0;
  const std::string_view digits = text.substr(2);
  if (digits.size() != 16 ||
      digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be a 0x-prefixed 16-digit hex value, got \"{}\"", what, text);
  }
  uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

}  // namespace

uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash;
}

Result<void> ShardSelector::ParseCall(std::string_view call) {
  constexpr std::string_view kName = "shardRange";
  call = TrimSpace(call);
  if (!call.starts_with(kName)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "unsupported expression \"{}\"; only shardRange() and || are allowed", call);
  }
  std::string_view arguments = TrimSpace(call.substr(kName.size()));
  if (arguments.size() < 2 || arguments.front() != '(' || arguments.back() != ')') {
    return MakeError(ErrorCode::kInvalidArgument,
                     "shardRange needs its arguments in parentheses: {}", call);
  }
  arguments = arguments.substr(1, arguments.size() - 2);
  const size_t first = arguments.find(',');
  const size_t second = first == std::string_view::npos ? first : arguments.find(',', first + 1);
  if (second == std::string_view::npos ||
      arguments.find(',', second + 1) != std::string_view::npos) {
    return MakeError(ErrorCode::kInvalidArgument, "shardRange() requires exactly 3 arguments: {}",
                     call);
  }
  const std::string_view field = TrimSpace(arguments.substr(0, first));
  if (field != "object.metadata.uid" && field != "object.metadata.namespace") {
    return MakeError(ErrorCode::kInvalidArgument,
                     "unsupported field path \"{}\"; supported: object.metadata.uid, "
                     "object.metadata.namespace",
                     field);
  }
  const bool by_namespace = field == "object.metadata.namespace";
  if (!ranges_.empty() && by_namespace != by_namespace_) {
    return MakeError(ErrorCode::kInvalidArgument, "all shard ranges must use the same field");
  }
  by_namespace_ = by_namespace;
  LARDER_ASSIGN_OR_RETURN(const uint64_t start,
                          ParseHex(arguments.substr(first + 1, second - first - 1), "hexStart"));
  LARDER_ASSIGN_OR_RETURN(const uint64_t end, ParseHex(arguments.substr(second + 1), "hexEnd"));
  if (end != 0 && start >= end) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "shard range start {:#018x} must be less than end {:#018x}", start, end);
  }
  if (!text_.empty()) text_ += " || ";
  text_ += fmt::format("shardRange({}, '{:#018x}', '{}')", field, start,
                       end == 0 ? "0x10000000000000000" : fmt::format("{:#018x}", end));
  ranges_.push_back({start, end - 1});
  return {};
}

Result<ShardSelector> ShardSelector::Parse(std::string_view text) {
  ShardSelector out;
  std::string_view rest = text;
  while (true) {
    const size_t bars = rest.find("||");
    LARDER_RETURN_IF_ERROR(out.ParseCall(rest.substr(0, bars)));
    if (bars == std::string_view::npos) return out;
    rest.remove_prefix(bars + 2);
  }
}

bool ShardSelector::Matches(std::string_view ns, std::string_view uid) const {
  const uint64_t hash = Fnv1a(by_namespace_ ? ns : uid);
  for (const Range& range : ranges_) {
    if (hash >= range.first && hash <= range.last) return true;
  }
  return false;
}

}  // namespace larder::apiserver
