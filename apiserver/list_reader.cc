#include "apiserver/list_reader.h"

#include <limits>
#include <optional>
#include <utility>

namespace larder::apiserver {
namespace {

// How many objects are looked at under one lock when a filter decides how many are needed.
constexpr size_t kScanBatch = 4096;

constexpr const char* kContinueExpired =
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list.";

struct Start {
  uint64_t version = 0;
  std::string from;
  std::optional<int64_t> remaining;  // objects from here to the end, where the token knows
  bool paged = false;
};

ApiResult<Start> StartOfPage(State& state, const ListOptions& options,
                             std::chrono::milliseconds patience, const std::stop_token& stop) {
  Start out;
  if (!options.continue_token.empty()) {
    if (options.version) {
      return tl::unexpected(
          BadRequestStatus("specifying resource version is not allowed when using continue"));
    }
    ApiResult<ContinueToken> token = ContinueToken::Decode(options.continue_token);
    if (!token) return tl::unexpected(std::move(token).error());
    out.version = token->version > 0 ? static_cast<uint64_t>(token->version) : state.Version();
    out.from = token->start;
    out.remaining = token->remaining;
    out.paged = true;
    return out;
  }
  if (!options.version) {
    out.version = state.Version();
    return out;
  }
  const uint64_t now = state.WaitForVersion(*options.version, patience, stop);
  if (now < *options.version) return tl::unexpected(TooLargeVersionStatus(*options.version, now));
  // A limit with a version and no match means exactly that version: how it was before there was a
  // match.
  const bool exact = options.match == VersionMatch::kExact ||
                     (options.match == VersionMatch::kUnset && options.limit > 0);
  out.version = exact ? *options.version : now;
  return out;
}

ApiStatus Expired(const Start& start) {
  if (!start.paged) {
    return ExpiredStatus("The resourceVersion for the provided list is too old.");
  }
  ApiStatus status = ExpiredStatus(kContinueExpired);
  status.continue_token = ContinueToken{-1, start.from, {}}.Encode();
  return status;
}

}  // namespace

ApiResult<ListPage> ReadPage(State& state, const Table& table, const std::string& ns,
                             const ListOptions& options, std::chrono::milliseconds patience,
                             const std::stop_token& stop) {
  ApiResult<Start> start = StartOfPage(state, options, patience, stop);
  if (!start) return tl::unexpected(std::move(start).error());
  const std::string prefix = ns.empty() ? "" : ns + "/";
  // With version 0 the real server answers from its cache and ignores the limit.
  size_t limit = options.limit;
  if (limit == 0 || (options.resource_version == "0" && !start->paged)) {
    limit = std::numeric_limits<size_t>::max();
  }
  const bool filtered = !options.filter.Empty();

  ListPage page;
  std::string from = start->from;
  bool more = true;
  std::optional<std::string> last;
  while (more && page.objects.size() < limit) {
    const size_t batch = filtered ? kScanBatch : limit;
    State::ScanResult scan = state.Scan(table, start->version, prefix, from, batch);
    if (scan.expired) return tl::unexpected(Expired(*start));
    more = scan.more;
    for (size_t i = 0; i < scan.objects.size(); ++i) {
      StoredPtr& object = scan.objects[i];
      last = object->identity->key;
      if (filtered && !options.filter.Matches(*object)) continue;
      page.objects.push_back(std::move(object));
      if (page.objects.size() == limit) {
        more = more || i + 1 < scan.objects.size();
        break;
      }
    }
    if (last) from = *last + '\0';
  }
  page.meta.resource_version = std::to_string(start->version);
  if (more && last) {
    ContinueToken token{static_cast<int64_t>(start->version), *last + '\0', {}};
    if (!filtered) {
      const auto total =
          start->remaining.value_or(static_cast<int64_t>(state.CountPrefix(table, prefix)));
      page.meta.remaining = std::max<int64_t>(1, total - static_cast<int64_t>(page.objects.size()));
      token.remaining = page.meta.remaining;
    }
    page.meta.continue_token = token.Encode();
  }
  return page;
}

}  // namespace larder::apiserver
