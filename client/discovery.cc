#include "client/discovery.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/text.h"

namespace larder {
namespace {

constexpr char kAccept[] =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json";
// Of a large cluster with many custom resources the aggregated document has 1 to 2 MiB.
constexpr size_t kMaxAnswerBytes = size_t{8} << 20;

// How well a name fits: 0 is the plural; nullopt: not at all.
std::optional<int> Fit(const ApiResource& api, const std::string& lower) {
  if (api.resource.resource == lower) return 0;
  if (LowerAscii(api.singular) == lower || LowerAscii(api.resource.kind) == lower) return 1;
  const auto& names = api.short_names;
  if (std::find(names.begin(), names.end(), lower) != names.end()) return 2;
  return std::nullopt;
}

// The best fit among those with the group and version, where these are given. Among equals the
// first one wins, that of the preferred version before the others of its group.
const ApiResource* BestFit(const std::vector<ApiResource>& all, std::string_view name,
                           std::optional<std::string_view> version,
                           std::optional<std::string_view> group) {
  const std::string lower = LowerAscii(name);
  const ApiResource* best = nullptr;
  int best_fit = 0;
  for (const ApiResource& api : all) {
    if (group && api.resource.group != *group) continue;
    if (version && api.resource.version != *version) continue;
    const std::optional<int> fit = Fit(api, lower);
    if (!fit) continue;
    const bool better = best == nullptr || *fit < best_fit ||
                        (*fit == best_fit && api.resource.group == best->resource.group &&
                         api.preferred && !best->preferred);
    if (better) {
      best = &api;
      best_fit = *fit;
    }
  }
  return best;
}

// "name", "name.group", "name.version.group".
const ApiResource* FindByName(const std::vector<ApiResource>& all, std::string_view text) {
  const size_t dot = text.find('.');
  const std::string_view name = text.substr(0, dot);
  if (dot == std::string_view::npos) return BestFit(all, name, std::nullopt, std::nullopt);
  const std::string_view rest = text.substr(dot + 1);
  if (const ApiResource* found = BestFit(all, name, std::nullopt, rest)) return found;
  const size_t second = rest.find('.');
  // "pods.v1": a version of the core group.
  if (second == std::string_view::npos) return BestFit(all, name, rest, "");
  return BestFit(all, name, rest.substr(0, second), rest.substr(second + 1));
}

const ApiResource* FindByKind(const std::vector<ApiResource>& all, std::string_view api_version,
                              std::string_view kind) {
  const size_t slash = api_version.find('/');
  const bool core = slash == std::string_view::npos;
  const std::string_view group = core ? std::string_view() : api_version.substr(0, slash);
  const std::string_view version = core ? api_version : api_version.substr(slash + 1);
  const ApiResource* best = nullptr;
  for (const ApiResource& api : all) {
    if (api.resource.kind != kind || api.resource.group != group) continue;
    if (!version.empty() && api.resource.version != version) continue;
    if (best == nullptr || (api.preferred && !best->preferred)) best = &api;
  }
  return best;
}

}  // namespace

Discovery::Discovery(HttpTransport& transport) : Discovery(transport, Options()) {}
Discovery::Discovery(HttpTransport& transport, Options options)
    : transport_(transport), options_(options) {}

template <typename Lookup>
Result<Resource> Discovery::Find(const Lookup& lookup, std::string_view what,
                                 const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Snapshot snapshot, Load(nullptr, stop));
  if (const ApiResource* found = lookup(*snapshot)) return found->resource;
  LARDER_ASSIGN_OR_RETURN(const Snapshot newer, RefreshForMiss(snapshot, stop));
  if (newer != nullptr) {
    if (const ApiResource* found = lookup(*newer)) return found->resource;
  }
  return MakeError(ErrorCode::kNotFound, "the server has no resource '{}'", what);
}

Result<Resource> Discovery::Resolve(std::string_view name, const std::stop_token& stop) {
  const auto lookup = [name](const std::vector<ApiResource>& all) { return FindByName(all, name); };
  return Find(lookup, name, stop);
}

Result<Resource> Discovery::ForKind(std::string_view api_version, std::string_view kind,
                                    const std::stop_token& stop) {
  const auto lookup = [&](const std::vector<ApiResource>& all) {
    return FindByKind(all, api_version, kind);
  };
  return Find(lookup, fmt::format("{} of {}", kind, api_version), stop);
}

Result<std::vector<ApiResource>> Discovery::Resources(const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Snapshot snapshot, Load(nullptr, stop));
  return *snapshot;
}

Result<void> Discovery::Refresh(const std::stop_token& stop) {
  Snapshot before;
  {
    MutexLock lock(mutex_);
    before = snapshot_;
  }
  LARDER_RETURN_IF_ERROR(Load(before, stop));
  return {};
}

Result<Discovery::Snapshot> Discovery::RefreshForMiss(const Snapshot& seen,
                                                      const std::stop_token& stop) {
  {
    MutexLock lock(mutex_);
    const bool lately =
        tried_at_ && options_.clock->Now() - *tried_at_ < options_.min_refresh_interval;
    if (snapshot_ == seen && lately) return Snapshot();
  }
  return Load(seen, stop);
}

// One caller reads; those who come meanwhile wait for it and take its result, or read themselves
// when it failed.
Result<Discovery::Snapshot> Discovery::Load(const Snapshot& before, const std::stop_token& stop) {
  MutexLock lock(mutex_);
  for (;;) {
    if (snapshot_ != before) return snapshot_;
    if (!loading_) break;
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped by the caller");
    options_.clock->WaitUntil(mutex_, loaded_, Clock::Steady::max(), stop);
  }
  loading_ = true;
  lock.unlock();
  Result<std::vector<ApiResource>> all = ReadAll(stop);
  lock.lock();
  loading_ = false;
  tried_at_ = options_.clock->Now();
  loaded_.notify_all();
  if (!all) return tl::unexpected(std::move(all).error());
  snapshot_ = std::make_shared<const std::vector<ApiResource>>(*std::move(all));
  return snapshot_;
}

Result<std::vector<ApiResource>> Discovery::ReadAll(const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(std::vector<ApiResource> all, ReadRoot("/api", stop));
  LARDER_ASSIGN_OR_RETURN(std::vector<ApiResource> groups, ReadRoot("/apis", stop));
  all.insert(all.end(), std::make_move_iterator(groups.begin()),
             std::make_move_iterator(groups.end()));
  return all;
}

Result<std::vector<ApiResource>> Discovery::ReadRoot(const std::string& root,
                                                     const std::stop_token& stop) {
  Request request;
  request.path = root;
  request.accept = kAccept;
  request.max_response_bytes = kMaxAnswerBytes;
  Result<Response> answer = transport_.Do(request, stop);
  // Not every server has both roots.
  if (!answer && answer.error().code == ErrorCode::kNotFound) return std::vector<ApiResource>();
  if (!answer) return tl::unexpected(std::move(answer).error());
  if (DocumentKind(answer->body) == "APIGroupDiscoveryList") {
    return ParseAggregatedDiscovery(answer->body);
  }
  LARDER_ASSIGN_OR_RETURN(const std::vector<GroupVersion> versions,
                          ParseGroupVersions(answer->body));
  std::vector<ApiResource> all;
  for (const GroupVersion& each : versions) {
    Request one;
    one.path = root + (each.group.empty() ? "" : "/" + each.group) + "/" + each.version;
    one.max_response_bytes = kMaxAnswerBytes;
    Result<Response> response = transport_.Do(one, stop);
    Result<std::vector<ApiResource>> resources =
        response ? ParseResourceList(response->body, each)
                 : Result<std::vector<ApiResource>>(tl::unexpected(response.error()));
    if (!resources) {
      if (resources.error().code == ErrorCode::kCancelled) return resources;
      spdlog::warn("discovery: {} is left out: {}", Printable(one.path, Lines::kOne),
                   resources.error().ToString());
      continue;
    }
    all.insert(all.end(), resources->begin(), resources->end());
  }
  return all;
}

}  // namespace larder
