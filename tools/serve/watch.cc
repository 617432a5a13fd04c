// WATCH.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apiserver/list_options.h"
#include "tools/serve/read_api.h"

namespace larder::tools {
namespace {

using apiserver::ApiResult;
using apiserver::FlagParameter;
using apiserver::Parameter;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongest{1800};
constexpr std::chrono::seconds kBookmarks{30};
constexpr size_t kFlushBytes = size_t{128} << 10;
constexpr const char* kListedAnew =
    "the store's owner lists the resource anew, or the store keeps more or less of it now: list it "
    "again";

// Can an object be in both?
bool Overlap(const CollectionSpec& a, const CollectionSpec& b) {
  const bool one_shard = a.shard.empty() || b.shard.empty() || a.shard == b.shard;
  return one_shard && (a.ns.empty() || b.ns.empty() || a.ns == b.ns);
}

// Does the collection hold everything that the query selects, in full?
bool Covers(const CollectionSpec& spec, const Query& query) {
  return (spec.ns.empty() || spec.ns == query.ns) && spec.projection.empty() &&
         spec.shard.empty() &&
         (spec.label_selector.empty() || spec.label_selector == query.labels.ToString()) &&
         (spec.field_selector.empty() || spec.field_selector == query.fields.ToString());
}

}  // namespace

// Collections that overlap cannot be one stream: an object that leaves
// one of them may still be in the other. Then one that has it all will do.
ApiResult<StoredResource> Followed(const StoredResource& resource, const Query& query) {
  StoredResource out = resource.Within(query.ns);
  if (out.collections.empty()) return resource;  // there is nothing in it, then
  const auto& all = out.collections;
  std::string conflict;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) {
      const bool clusters = all[i].spec.cluster_uid != all[j].spec.cluster_uid;
      if (!clusters && !Overlap(all[i].spec, all[j].spec)) continue;
      conflict = fmt::format("\"{}\" and \"{}\" {}", all[i].spec.ToString(), all[j].spec.ToString(),
                             clusters ? "are of two clusters" : "may have objects in common");
    }
  }
  if (conflict.empty()) return out;
  const auto one = std::find_if(
      all.begin(), all.end(), [&](const CollectionInfo& info) { return Covers(info.spec, query); });
  if (one != all.end()) {
    out.collections = {CollectionInfo(*one)};
    return out;
  }
  return tl::unexpected(apiserver::BadRequestStatus(fmt::format(
      "{} are stored as several collections that cannot be watched as one: {}; watch a namespace "
      "or a selector that one of them holds, or list",
      resource.resource.ToString(), conflict)));
}

namespace {

// One open watch, on its connection's thread.
class StoreWatch {
 public:
  StoreWatch(StoreFollower* follower, WatchHub* hub, StoredResource resource, Query query,
             Representation shape, const httplib::Request& request, uint64_t since)
      : follower_(follower),
        hub_(hub),
        resource_(std::move(resource)),
        collections_(IdsOf(resource_)),
        query_(std::move(query)),
        shape_(std::move(shape)),
        since_(since),
        version_(Parameter(request.params, "resourceVersion")),
        bookmarks_(FlagParameter(request.params, "allowWatchBookmarks")),
        initial_events_(FlagParameter(request.params, "sendInitialEvents")) {
    const std::string timeout = Parameter(request.params, "timeoutSeconds");
    const std::chrono::seconds wanted(std::strtol(timeout.c_str(), nullptr, 10));
    deadline_ = SteadyClock::now() + (wanted.count() > 0 ? std::min(wanted, kLongest) : kLongest);
  }

  // Before anything is sent: what can be refused with a status of its own.
  ApiResult<void> Check() const {
    const auto standing = follower_->Read([&](Store& s) { return StandingOf(s, resource_); });
    if (!standing || FromVersion()) return {};
    if (!standing->synced) return tl::unexpected(BeingListedStatus(resource_.resource));
    return CheckReached(version_, ReachedOf(*hub_, collections_, *standing, version_));
  }

  // False: the connection is broken.
  bool Run(httplib::DataSink& sink, const std::function<bool()>& closed) {
    sink_ = &sink;
    if (!Begin()) return false;
    if (gone_) return End();
    if (!hub_->SameCollectionsSince(since_)) return Gone(kListedAnew) && End();
    auto bookmark_at = SteadyClock::now() + kBookmarks;
    for (;;) {
      std::vector<FollowedChange> changes;
      const auto wake =
          hub_->Next(collections_, place_, std::min(deadline_, bookmark_at), closed, changes);
      if (wake == WatchHub::Wake::kEnded) return !closed() && End();
      if (wake == WatchHub::Wake::kTooSlow) return Gone("the watch was too slow") && End();
      if (wake == WatchHub::Wake::kListed) return Gone(kListedAnew) && End();
      for (const FollowedChange& change : changes) {
        if (!Send(change)) return false;
      }
      if (!Flush()) return false;
      if (SteadyClock::now() >= deadline_) return End();
      if (SteadyClock::now() >= bookmark_at) {
        bookmark_at = SteadyClock::now() + kBookmarks;
        if (bookmarks_ && !SendBookmark(false)) return false;
      }
    }
  }

 private:
  bool FromVersion() const { return !version_.empty() && version_ != "0" && !initial_events_; }

  bool Begin() {
    if (!FromVersion()) return SendInitial();
    const auto standing = follower_->Read([&](Store& s) { return StandingOf(s, resource_); });
    if (!standing) return Gone(standing.error().message);
    if (!standing->synced) return Gone(kListedAnew);
    // Of one collection, a version that it has not reached is from before a list of a server that
    // lost its newest state: what comes up to it would be taken for known.
    const bool ahead = CompareResourceVersions(version_, standing->version).value_or(0) > 0;
    if (collections_.size() == 1 && ahead) {
      return Gone(
          fmt::format("the store is at version {}, before {}", standing->version, version_));
    }
    const auto start = hub_->Find(collections_, version_);
    if (!start) return Gone(start.error().message);
    place_.position = start->position;
    newest_sent_ = version_;
    if (start->exact) version_.clear();
    return Flush();
  }

  // Everything there is, and from there on. What the hub reports twice is told by its version.
  bool SendInitial() {
    std::string after;
    uint64_t lists = 0;
    const auto place = hub_->Now(collections_);
    if (!place) return Gone(kListedAnew);
    place_ = *place;
    for (bool first = true; first || !after.empty(); first = false) {
      Query page_query = query_;
      page_query.limit = 500;
      page_query.continue_token = after;
      Standing standing;
      const auto page = follower_->Read([&](Store& store) -> Result<QueryPage> {
        LARDER_ASSIGN_OR_RETURN(standing, StandingOf(store, resource_));
        return ListObjects(store, resource_, page_query);
      });
      if (!page) return Gone(page.error().message);
      if (!standing.synced || (!first && standing.lists != lists)) return Gone(kListedAnew);
      if (first) {
        lists = standing.lists;
        version_ = standing.version;
      }
      for (const ObjectPtr& object : page->objects) {
        if (!Put("ADDED", *object, object->resource_version())) return false;
      }
      after = page->continue_token;
    }
    if (collections_.size() == 1) {
      place_.version = version_;
    } else {
      hub_->Keep(collections_, place_);
    }
    // Behind a differential list an object may be newer than its collection.
    newest_sent_ = place_.version;
    if (initial_events_ && bookmarks_) return SendBookmark(true);
    return Flush();
  }

  bool Matches(const ObjectPtr& object) const {
    return object && (query_.ns.empty() || object->ns() == query_.ns) &&
           query_.labels.Matches(*object) && query_.fields.Matches(*object);
  }

  // Entering the selection is ADDED, leaving it is DELETED with the state before.
  bool Send(const FollowedChange& change) {
    if (CompareResourceVersions(change.version, version_).value_or(1) <= 0) return true;
    const bool before = Matches(change.before), now = Matches(change.now);
    if (now) return Put(before ? "MODIFIED" : "ADDED", *change.now, change.version);
    if (!before) return true;
    // A client goes on from the version of the last event. Nobody knows a deletion's own, and the
    // collection's is also that of others that are still to be sent.
    return Put("DELETED", *change.before, change.now ? change.version : newest_sent_);
  }

  bool Put(std::string_view type, const Object& object, std::string_view version) {
    buffer_ += shape_.Event(type, object, version, first_);
    first_ = false;
    Sent(version);
    return buffer_.size() < kFlushBytes || Flush();
  }

  // Of several collections each version says how much was sent, whatever its number.
  void Sent(std::string_view version) {
    const bool newer = CompareResourceVersions(version, newest_sent_).value_or(0) > 0;
    if (newer || collections_.size() > 1) newest_sent_ = version;
  }

  bool SendBookmark(bool initial_events_end) {
    if (collections_.size() > 1) hub_->Keep(collections_, place_);
    Sent(place_.version);
    buffer_ += shape_.Bookmark(place_.version, initial_events_end);
    return Flush();
  }

  bool Gone(const std::string& message) {
    buffer_ += R"({"type":"ERROR","object":)" + apiserver::ExpiredStatus(message).ToJson() + "}\n";
    gone_ = true;
    return Flush();
  }

  bool Flush() {
    const bool sent = buffer_.empty() || sink_->write(buffer_.data(), buffer_.size());
    buffer_.clear();
    return sent;
  }

  bool End() {
    (void)Flush();
    sink_->done();
    return true;
  }

  StoreFollower* const follower_;
  WatchHub* const hub_;
  const StoredResource resource_;
  const WatchHub::Collections collections_;
  const Query query_;
  const Representation shape_;
  const uint64_t since_;  // the hub's position when its collections were looked up
  std::string version_;   // everything up to it is known to the client; empty: up to place_
  std::string newest_sent_;
  const bool bookmarks_;
  const bool initial_events_;
  SteadyClock::time_point deadline_;
  WatchHub::Place place_;
  bool first_ = true;
  bool gone_ = false;
  std::string buffer_;
  httplib::DataSink* sink_ = nullptr;
};

}  // namespace

ApiResult<void> ReadApi::Watch(Call& call) {
  auto query = QueryOf(call.request, call.target.ns, call.target.resource->info->resource);
  if (!query) return tl::unexpected(query.error());
  query->limit = 0;
  auto followed = Followed(call.target.resource->stored, *query);
  if (!followed) return tl::unexpected(followed.error());
  const std::string not_covered = NotCovered(call.target.resource->stored, *query);
  auto watch =
      std::make_shared<StoreWatch>(follower_, hub_, *std::move(followed), *std::move(query),
                                   Representation(*call.target.resource, call.shape,
                                                  Parameter(call.request.params, "includeObject")),
                                   call.request, call.position);
  if (auto checked = watch->Check(); !checked) return checked;
  Warn(not_covered, call.response);
  apiserver::Connection& connection = call.connection;
  call.response.set_header("Cache-Control", "no-cache, private");
  call.response.set_chunked_content_provider(
      "application/json",
      [this, watch, book = call.target.book, &connection](size_t, httplib::DataSink& sink) {
        connection.SetWaker([this] { hub_->WakeAll(); });
        monitor_->Watch(connection);
        const bool clean = watch->Run(sink, [&] { return connection.closed(); });
        monitor_->Forget(connection);
        connection.SetWaker(nullptr);
        return clean;
      });
  return {};
}

}  // namespace larder::tools
