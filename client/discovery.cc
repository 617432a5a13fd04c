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

template <typename T>
void Append(std::vector<T> more, std::vector<T>& to) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// How well a name fits: 0 is the plural; nullopt: not at all.
std::optional<int> Fit(const ApiResource& api, const std::string& lower) {
  if (api.resource.resource == lower) return 0;
  if (LowerAscii(api.singular) == lower || LowerAscii(api.resource.kind) == lower) return 1;
  const auto& names = api.short_names;
  if (std::find(names.begin(), names.end(), lower) != names.end()) return 2;
  return std::nullopt;
}

// Where to look: in any group, or any version, where these are not given.
struct Place {
  std::optional<std::string_view> version;
  std::optional<std::string_view> group;

  bool Has(std::string_view its_group, std::string_view its_version) const {
    return (!group || *group == its_group) && (!version || *version == its_version);
  }
};

// The best fit there. Among equals the first one wins, that of the preferred version before the
// others of its group.
const ApiResource* BestFit(const std::vector<ApiResource>& all, std::string_view name,
                           const Place& place) {
  const std::string lower = LowerAscii(name);
  const ApiResource* best = nullptr;
  int best_fit = 0;
  for (const ApiResource& api : all) {
    if (!place.Has(api.resource.group, api.resource.version)) continue;
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
class ByName {
 public:
  explicit ByName(std::string_view text) : text_(text), name_(text.substr(0, text.find('.'))) {
    if (name_.size() == text.size()) {
      places_ = {{}};
      return;
    }
    const std::string_view rest = text.substr(name_.size() + 1);
    const size_t dot = rest.find('.');
    // "pods.v1": a version of the core group.
    const std::string_view group =
        dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    places_ = {{std::nullopt, rest}, {rest.substr(0, dot), group}};
  }
  const ApiResource* In(const std::vector<ApiResource>& all) const {
    for (const Place& place : places_) {
      if (const ApiResource* found = BestFit(all, name_, place)) return found;
    }
    return nullptr;
  }
  bool MayBeIn(const GroupVersion& of) const {
    return std::any_of(places_.begin(), places_.end(),
                       [&](const Place& place) { return place.Has(of.group, of.version); });
  }
  std::string ToString() const { return std::string(text_); }

 private:
  const std::string_view text_;
  const std::string_view name_;
  std::vector<Place> places_;  // that the rest of the text may mean, the likelier first
};

class ByKind {
 public:
  ByKind(std::string_view api_version, std::string_view kind)
      : api_version_(api_version), kind_(kind) {
    const size_t slash = api_version.find('/');
    const bool core = slash == std::string_view::npos;
    place_.group = core ? std::string_view() : api_version.substr(0, slash);
    const std::string_view version = core ? api_version : api_version.substr(slash + 1);
    if (!version.empty()) place_.version = version;
  }
  const ApiResource* In(const std::vector<ApiResource>& all) const {
    const ApiResource* best = nullptr;
    for (const ApiResource& api : all) {
      if (api.resource.kind != kind_) continue;
      if (!place_.Has(api.resource.group, api.resource.version)) continue;
      if (best == nullptr || (api.preferred && !best->preferred)) best = &api;
    }
    return best;
  }
  bool MayBeIn(const GroupVersion& of) const { return place_.Has(of.group, of.version); }
  std::string ToString() const { return fmt::format("{} of {}", kind_, api_version_); }

 private:
  const std::string_view api_version_;
  const std::string_view kind_;
  Place place_;
};

}  // namespace

Discovery::Discovery(HttpTransport& transport) : Discovery(transport, Options()) {}
Discovery::Discovery(HttpTransport& transport, Options options)
    : transport_(transport), options_(options) {}

template <typename Sought>
Result<Resource> Discovery::Find(const Sought& sought, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(Snapshot snapshot, Load(nullptr, stop));
  if (const ApiResource* found = sought.In(snapshot->resources)) return found->resource;
  LARDER_ASSIGN_OR_RETURN(Snapshot newer, RefreshForMiss(snapshot, stop));
  if (newer != nullptr) {
    snapshot = std::move(newer);
    if (const ApiResource* found = sought.In(snapshot->resources)) return found->resource;
  }
  for (const GroupVersion& each : snapshot->unanswered) {
    if (!sought.MayBeIn(each)) continue;
    return MakeError(ErrorCode::kUnavailable, "discovery of {} failed; '{}' may be there",
                     Printable(each.ToString(), Lines::kOne), sought.ToString());
  }
  return MakeError(ErrorCode::kNotFound, "the server has no resource '{}'", sought.ToString());
}

Result<Resource> Discovery::Resolve(std::string_view name, const std::stop_token& stop) {
  return Find(ByName(name), stop);
}

Result<Resource> Discovery::ForKind(std::string_view api_version, std::string_view kind,
                                    const std::stop_token& stop) {
  return Find(ByKind(api_version, kind), stop);
}

Result<std::vector<ApiResource>> Discovery::Resources(const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Snapshot snapshot, Load(nullptr, stop));
  return snapshot->resources;
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
  Result<Discovered> all = ReadAll(stop);
  lock.lock();
  loading_ = false;
  tried_at_ = options_.clock->Now();
  loaded_.notify_all();
  if (!all) return tl::unexpected(std::move(all).error());
  snapshot_ = std::make_shared<const Discovered>(*std::move(all));
  return snapshot_;
}

Result<Discovered> Discovery::ReadAll(const std::stop_token& stop) {
  Discovered all;
  for (const char* root : {"/api", "/apis"}) LARDER_RETURN_IF_ERROR(ReadRoot(root, all, stop));
  return all;
}

Result<void> Discovery::ReadRoot(const std::string& root, Discovered& all,
                                 const std::stop_token& stop) {
  Request request;
  request.path = root;
  request.accept = kAccept;
  request.max_response_bytes = kMaxAnswerBytes;
  Result<Response> answer = transport_.Do(request, stop);
  // Not every server has both roots.
  if (!answer && answer.error().code == ErrorCode::kNotFound) return {};
  if (!answer) return tl::unexpected(std::move(answer).error());
  if (DocumentKind(answer->body) == "APIGroupDiscoveryList") {
    LARDER_ASSIGN_OR_RETURN(Discovered these, ParseAggregatedDiscovery(answer->body));
    Append(std::move(these.resources), all.resources);
    Append(std::move(these.unanswered), all.unanswered);
    return {};
  }
  LARDER_ASSIGN_OR_RETURN(const std::vector<GroupVersion> versions,
                          ParseGroupVersions(answer->body));
  for (const GroupVersion& each : versions) {
    Request one;
    one.path = root + (each.group.empty() ? "" : "/" + each.group) + "/" + each.version;
    one.max_response_bytes = kMaxAnswerBytes;
    Result<Response> response = transport_.Do(one, stop);
    Result<std::vector<ApiResource>> resources =
        response ? ParseResourceList(response->body, each)
                 : Result<std::vector<ApiResource>>(tl::unexpected(response.error()));
    if (!resources) {
      if (resources.error().code == ErrorCode::kCancelled) {
        return tl::unexpected(std::move(resources).error());
      }
      spdlog::warn("discovery: {} is left out: {}", Printable(one.path, Lines::kOne),
                   resources.error().ToString());
      all.unanswered.push_back(each);
      continue;
    }
    Append(*std::move(resources), all.resources);
  }
  return {};
}

}  // namespace larder
