// WATCH.
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

// One open watch, on its connection's thread.
class StoreWatch {
 public:
  StoreWatch(StoreFollower* follower, WatchHub* hub, const ServedResource& resource, Query query,
             Representation shape, const httplib::Request& request)
      : follower_(follower),
        hub_(hub),
        resource_(resource),
        collection_(resource.stored.collections.front().id),
        query_(std::move(query)),
        shape_(std::move(shape)),
        version_(Parameter(request.params, "resourceVersion")),
        bookmarks_(FlagParameter(request.params, "allowWatchBookmarks")),
        initial_events_(FlagParameter(request.params, "sendInitialEvents")) {
    const std::string timeout = Parameter(request.params, "timeoutSeconds");
    const long seconds = timeout.empty() ? 0 : std::strtol(timeout.c_str(), nullptr, 10);
    deadline_ = SteadyClock::now() + (seconds > 0 ? std::chrono::seconds(seconds) : kLongest);
  }

  // False: the connection is broken.
  bool Run(httplib::DataSink& sink, const std::function<bool()>& closed) {
    sink_ = &sink;
    if (!Begin()) return false;
    if (gone_) return End();
    auto bookmark_at = SteadyClock::now() + kBookmarks;
    for (;;) {
      std::vector<FollowedChange> changes;
      const auto wake =
          hub_->Next(collection_, position_, std::min(deadline_, bookmark_at), closed, changes);
      if (wake == WatchHub::Wake::kEnded) return !closed() && End();
      if (wake == WatchHub::Wake::kTooSlow) return Gone("the watch was too slow") && End();
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
  bool Begin() {
    const bool from_version = !version_.empty() && version_ != "0" && !initial_events_;
    if (!from_version) return SendInitial();
    const auto position = hub_->Find(collection_, version_);
    if (!position) return Gone(position.error().message);
    position_ = *position;
    return Flush();
  }

  // Everything there is, and from there on. What the hub reports twice is told by its version.
  bool SendInitial() {
    std::string after;
    position_ = hub_->Position();
    for (;;) {
      Query page_query = query_;
      page_query.limit = 500;
      page_query.continue_token = after;
      const auto page = follower_->Read([&](Store& store) -> Result<QueryPage> {
        if (after.empty()) {
          LARDER_ASSIGN_OR_RETURN(const Cursor cursor, store.GetCursor(collection_));
          version_ = cursor.resource_version;
        }
        LARDER_ASSIGN_OR_RETURN(const auto indexer,
                                Indexer::Attach(&store, resource_.stored.collections.front()));
        return Lister(indexer.get()).List(page_query);
      });
      if (!page) return Gone(page.error().message);
      for (const ObjectPtr& object : page->objects) {
        if (!Put("ADDED", *object, object->resource_version())) return false;
      }
      after = page->continue_token;
      if (after.empty()) break;
    }
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
    return !before || Put("DELETED", *change.before, change.version);
  }

  bool Put(std::string_view type, const Object& object, std::string_view version) {
    buffer_ += shape_.Event(type, object, version, first_);
    first_ = false;
    return buffer_.size() < kFlushBytes || Flush();
  }

  bool SendBookmark(bool initial_events_end) {
    std::string version = version_;
    follower_->Read([&](Store& store) {
      if (const auto cursor = store.GetCursor(collection_)) version = cursor->resource_version;
    });
    buffer_ += shape_.Bookmark(initial_events_end ? version_ : version, initial_events_end);
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
  const ServedResource& resource_;
  const CollectionId collection_;
  const Query query_;
  const Representation shape_;
  std::string version_;  // everything up to it is known to the client
  const bool bookmarks_;
  const bool initial_events_;
  SteadyClock::time_point deadline_;
  uint64_t position_ = 0;
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
  auto watch =
      std::make_shared<StoreWatch>(follower_, hub_, *call.target.resource, *std::move(query),
                                   Representation(*call.target.resource, call.shape,
                                                  Parameter(call.request.params, "includeObject")),
                                   call.request);
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
