#include "tools/serve/read_api.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apiserver/api_handler.h"
#include "apiserver/base64.h"
#include "apiserver/discovery.h"
#include "apiserver/list_options.h"
#include "apiserver/media_type.h"
#include "tools/serve/openapi.h"

namespace larder::tools {
namespace {

using apiserver::AnswerJson;
using apiserver::AnswerStatus;
using apiserver::ApiResult;
using apiserver::ApiStatus;
using apiserver::Parameter;

// How many objects of a list are read at a time, and how much of them, whatever a client asks for.
constexpr size_t kPage = 500;
constexpr size_t kPageBytes = size_t{8} << 20;
// A book older than this is read again: custom kinds may look different by then.
constexpr std::chrono::seconds kBookAge{2};

ApiStatus ForbiddenStatus(const std::string& message) {
  ApiStatus status;
  status.code = 403;
  status.reason = "Forbidden";
  status.message = message;
  return status;
}

ApiStatus StatusOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return apiserver::BadRequestStatus(error.message);
    case ErrorCode::kGone:
      return apiserver::ExpiredStatus(error.message);
    case ErrorCode::kForbidden:  // encrypted, and there is no key here
      return ForbiddenStatus(error.message);
    default:
      return apiserver::InternalStatus(error.message);
  }
}

ApiStatus ReadOnlyStatus(const std::string& method) {
  ApiStatus status;
  status.code = 405;
  status.reason = "MethodNotAllowed";
  status.message = fmt::format(
      "{} is not allowed: this is a read-only view of a larder store; write to the cluster itself",
      method);
  return status;
}

std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (slash != 0) out.emplace_back(path.substr(0, slash));
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  }
  return out;
}

std::string VersionDocument() {
  const Json out = {{"major", "1"},
                    {"minor", "32"},
                    {"gitVersion", "v1.32.0+larder"},
                    {"gitTreeState", "clean"},
                    {"platform", "linux/amd64"}};
  return out.dump();
}

}  // namespace

Result<Standing> StandingOf(const Store& store, const StoredResource& resource) {
  Standing out;
  for (const CollectionInfo& info : resource.collections) {
    LARDER_ASSIGN_OR_RETURN(const Cursor cursor, store.GetCursor(info.id));
    out.lists += cursor.epoch;
    out.complete = out.complete && cursor.Complete();
    out.synced = out.synced && cursor.state == SyncState::kSynced;
    if (out.version.empty() ||
        CompareResourceVersions(cursor.resource_version, out.version).value_or(0) < 0) {
      out.version = cursor.resource_version;
    }
  }
  return out;
}

ApiStatus BeingListedStatus(const Resource& resource) {
  ApiStatus status;
  status.code = 429;
  status.reason = "TooManyRequests";
  status.message = fmt::format(
      "{} are being listed by the store's owner, and what is stored is not of one moment: try "
      "again when the list is complete",
      resource.ToString());
  status.retry_after_seconds = 1;
  return status;
}

ApiResult<void> CheckReached(const std::string& wanted, const std::string& reached) {
  const bool ahead = CompareResourceVersions(wanted, reached).value_or(0) > 0;
  if (!ahead) return {};
  const auto number = [](const std::string& text) {
    return std::strtoull(text.c_str(), nullptr, 10);
  };
  return tl::unexpected(apiserver::TooLargeVersionStatus(number(wanted), number(reached)));
}

std::string ReachedOf(const WatchHub& hub, const WatchHub::Collections& collections,
                      const Standing& standing, const std::string& wanted) {
  const bool told = collections.size() > 1 && hub.Find(collections, wanted);
  return told ? wanted : standing.version;
}

void Warn(const std::string& text, httplib::Response& response) {
  // A namespace in it is the client's word, and may hold what no header may.
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (!text.empty() && plain) response.set_header("Warning", "299 - \"" + text + "\"");
}

std::vector<CollectionId> IdsOf(const StoredResource& resource) {
  std::vector<CollectionId> out;
  for (const CollectionInfo& info : resource.collections) out.push_back(info.id);
  return out;
}

ApiResult<Query> QueryOf(const httplib::Request& request, const std::string& ns,
                         const Resource& resource) {
  Query query;
  query.ns = resource.namespaced ? ns : "";
  auto labels = LabelSelector::Parse(Parameter(request.params, "labelSelector"));
  if (!labels) return tl::unexpected(StatusOf(labels.error()));
  query.labels = *std::move(labels);
  auto fields = FieldSelector::Parse(Parameter(request.params, "fieldSelector"));
  if (!fields) return tl::unexpected(StatusOf(fields.error()));
  query.fields = fields->For(resource);
  for (const char* number : {"limit", "resourceVersion", "timeoutSeconds"}) {
    const std::string text = Parameter(request.params, number);
    const bool version = number == std::string_view("resourceVersion");  // of any length
    if (text.find_first_not_of("0123456789") == std::string::npos &&
        (version || text.size() <= 18)) {
      continue;
    }
    return tl::unexpected(apiserver::BadRequestStatus(
        fmt::format("{}: \"{}\" is not a number from 0 on", number, text)));
  }
  query.limit = std::strtoull(Parameter(request.params, "limit").c_str(), nullptr, 10);
  query.max_bytes = kPageBytes;
  const std::string token = Parameter(request.params, "continue");
  if (!token.empty()) {
    const auto decoded = apiserver::Base64UrlDecode(token);
    if (!decoded) return tl::unexpected(apiserver::BadRequestStatus("continue token is malformed"));
    query.continue_token = *decoded;
  }
  return query;
}

Result<ReadApi::BookPtr> ReadApi::Book() {
  MutexLock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (book_ && now - read_at_ < kBookAge && hub_->SameCollectionsSince(read_position_)) {
    return book_;
  }
  read_position_ = hub_->Position();
  auto book = follower_->Read([](Store& store) { return ResourceBook::Read(store); });
  if (!book) return tl::unexpected(book.error());
  book_ = *std::move(book);
  read_at_ = now;
  return book_;
}

void ReadApi::Handle(const httplib::Request& request, httplib::Response& response,
                     apiserver::Connection& connection) {
  const std::string& path = request.path;
  if (path == "/healthz" || path == "/readyz" || path == "/livez") {
    const std::string problem = hub_->Problem();
    response.status = problem.empty() ? 200 : 503;
    response.set_content(problem.empty() ? "ok" : problem, "text/plain");
    return;
  }
  if (path == "/version") return AnswerJson(200, VersionDocument(), response);
  connection.LiftLimits();  // what is above needs no token
  if (request.method != "GET" && request.method != "HEAD") {
    return AnswerStatus(ReadOnlyStatus(request.method), response);
  }
  const uint64_t position = hub_->Position();
  auto book = Book();
  if (!book) return AnswerStatus(StatusOf(book.error()), response);
  if (AnswerDocument(request, **book, response)) return;
  auto target = Resolve(*std::move(book), path);
  if (!target) return AnswerStatus(target.error(), response);
  const auto shape = ShapeOf(request.get_header_value("Accept"));
  if (!shape) return AnswerStatus(shape.error(), response);
  Call call{request, response, connection, *std::move(target), *shape, position};
  const ApiResult<void> done = !call.target.name.empty()                           ? Get(call)
                               : apiserver::FlagParameter(request.params, "watch") ? Watch(call)
                                                                                   : List(call);
  if (!done) AnswerStatus(done.error(), response);
}

bool ReadApi::AnswerDocument(const httplib::Request& request, const ResourceBook& book,
                             httplib::Response& response) const {
  std::string path = request.path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const bool top = path == "/api" || path == "/apis";
  if (top && apiserver::WantsAggregatedDiscovery(request.get_header_value("Accept"))) {
    response.set_content(apiserver::AggregatedDiscoveryJson(book.registry(), path == "/api"),
                         apiserver::kAggregatedContentType);
    return true;
  }
  if (auto document = apiserver::DiscoveryJson(book.registry(), path)) {
    AnswerJson(200, *document, response);
    return true;
  }
  if (auto document = OpenApiDocument(book, path)) {
    AnswerJson(200, *document, response);
    return true;
  }
  return false;
}

ApiResult<ReadApi::Target> ReadApi::Resolve(BookPtr book, const std::string& path) {
  const std::vector<std::string> parts = SplitPath(path);
  const bool core = !parts.empty() && parts[0] == "api";
  size_t at = core ? 2 : 3;
  if (parts.size() <= at || (!core && parts[0] != "apis")) {
    return tl::unexpected(apiserver::NoSuchPathStatus());
  }
  const std::string group = core ? "" : parts[1];
  const std::string& version = parts[at - 1];
  Target out;
  if (parts[at] == "namespaces" && parts.size() > at + 2) {
    out.ns = parts[at + 1];
    at += 2;
  }
  out.resource = book->Find(group, version, parts[at]);
  if (!out.resource || parts.size() > at + 2) {
    return tl::unexpected(apiserver::NoSuchPathStatus());
  }
  if (parts.size() > at + 1) out.name = parts[at + 1];
  out.book = std::move(book);
  return out;
}

ApiResult<void> ReadApi::Get(Call& call) {
  const Target& target = call.target;
  const ServedResource& resource = *target.resource;
  Standing standing;
  const auto object = follower_->Read([&](Store& store) -> Result<ObjectPtr> {
    LARDER_ASSIGN_OR_RETURN(standing, StandingOf(store, resource.stored.Within(target.ns)));
    return GetObject(store, resource.stored, {target.ns, target.name});
  });
  // One object is of one moment, also in the middle of a later list.
  if (!standing.complete) return tl::unexpected(BeingListedStatus(resource.info->resource));
  const std::string wanted = Parameter(call.request.params, "resourceVersion");
  if (auto reached = CheckReached(wanted, standing.version); !reached) return reached;
  if (!object && object.error().code == ErrorCode::kNotFound) {
    Query query;
    query.ns = target.ns;
    Warn(NotCovered(resource.stored, query), call.response);
    return tl::unexpected(apiserver::NotFoundStatus(*resource.info, target.name));
  }
  if (!object) return tl::unexpected(StatusOf(object.error()));
  const Representation shape(resource, call.shape, Parameter(call.request.params, "includeObject"));
  AnswerJson(200, shape.One(**object), call.response);
  return {};
}

namespace {

// The versions that a list may be of.
struct WantedVersion {
  std::string version;
  bool exact = false;
};

// As the real server reads them.
ApiResult<WantedVersion> WantedVersionOf(const httplib::Request& request,
                                         const apiserver::ResourceInfo& info) {
  apiserver::QueryParameters parameters;
  for (const char* name : {"resourceVersion", "resourceVersionMatch", "limit", "continue"}) {
    if (request.has_param(name)) parameters.emplace(name, Parameter(request.params, name));
  }
  const auto options = apiserver::ListOptions::Parse(parameters, info);
  if (!options) return tl::unexpected(options.error());
  if (options->version && !options->continue_token.empty()) {
    return tl::unexpected(apiserver::BadRequestStatus(
        "specifying resource version is not allowed when using continue"));
  }
  using apiserver::VersionMatch;
  const bool exact = options->match == VersionMatch::kExact ||
                     (options->match == VersionMatch::kUnset && options->limit > 0);
  return WantedVersion{options->resource_version, options->version && exact};
}

// `version` is that of the list.
ApiResult<void> CheckWanted(const WantedVersion& wanted, const std::string& reached,
                            const std::string& version) {
  if (auto checked = CheckReached(wanted.version, reached); !checked) return checked;
  if (!wanted.exact || wanted.version == version) return {};
  return tl::unexpected(
      apiserver::ExpiredStatus("The resourceVersion for the provided list is too old."));
}

}  // namespace

// A list on its way out, page by page, so that a slow client holds neither the store nor memory.
// What changes meanwhile comes again in a watch from the first page's version.
class ReadApi::ListTransfer {
 public:
  ListTransfer(const ReadApi& api, const Call& call, Query query, WantedVersion wanted)
      : follower_(api.follower_),
        hub_(api.hub_),
        target_(call.target),
        shape_(*call.target.resource, call.shape, Parameter(call.request.params, "includeObject")),
        query_(std::move(query)),
        wanted_(std::move(wanted)),
        limited_(query_.limit != 0),
        position_(call.position) {
    const StoredResource& stored = target_.resource->stored;
    within_ = stored.Within(query_.ns);
    // The version is for a watch: it is that of what the watch will follow.
    auto followed = Followed(stored, query_);
    watchable_ = followed.has_value();
    followed_ = followed ? *std::move(followed) : stored;
    // With a limit the token stands in the head, so such a list is one page.
    if (!limited_) query_.limit = kPage;
  }

  // Adds the next page. False: that was the last one.
  ApiResult<bool> Next(std::string& out) {
    Standing standing, all;
    const WatchHub::Collections ids = IdsOf(followed_);
    // Before the read: what changes until then comes again in a watch from there.
    const auto place = hub_->Now(ids);
    const auto page = follower_->Read([&](Store& store) -> Result<QueryPage> {
      LARDER_ASSIGN_OR_RETURN(standing, StandingOf(store, followed_));
      LARDER_ASSIGN_OR_RETURN(all, StandingOf(store, within_));
      return ListObjects(store, within_, query_);
    });
    if (!page) return tl::unexpected(StatusOf(page.error()));
    const bool others = !began_ && !hub_->SameCollectionsSince(position_);
    const bool several = watchable_ && followed_.collections.size() > 1;
    const bool known = began_ || !several || place;
    if (!standing.synced || !all.synced || others || !known || (began_ && all.lists != lists_)) {
      return tl::unexpected(BeingListedStatus(target_.resource->info->resource));
    }
    const bool more = !page->continue_token.empty() && !limited_;
    if (!began_) {
      const std::string& version = several ? place->version : standing.version;
      const std::string reached = ReachedOf(*hub_, ids, standing, wanted_.version);
      if (auto right = CheckWanted(wanted_, reached, version); !right) {
        return tl::unexpected(right.error());
      }
      if (several) hub_->Keep(ids, *place);
      out += shape_.ListHead(version,
                             limited_ ? apiserver::Base64UrlEncode(page->continue_token) : "");
    }
    for (size_t i = 0; i < page->objects.size(); ++i) {
      if (began_ || i != 0) out += ',';
      shape_.AppendItem(*page->objects[i], out);
    }
    began_ = true;
    lists_ = all.lists;
    query_.continue_token = page->continue_token;
    if (!more) out += shape_.ListTail();
    return more;
  }

 private:
  StoreFollower* const follower_;
  WatchHub* const hub_;
  const Target target_;
  const Representation shape_;
  Query query_;
  const WantedVersion wanted_;
  const bool limited_;
  const uint64_t position_;
  StoredResource within_;
  StoredResource followed_;
  bool watchable_ = false;
  bool began_ = false;
  uint64_t lists_ = 0;
};

ApiResult<void> ReadApi::List(Call& call) {
  const ServedResource& resource = *call.target.resource;
  auto query = QueryOf(call.request, call.target.ns, resource.info->resource);
  if (!query) return tl::unexpected(query.error());
  auto wanted = WantedVersionOf(call.request, *resource.info);
  if (!wanted) return tl::unexpected(wanted.error());
  Warn(NotCovered(resource.stored, *query), call.response);
  auto transfer =
      std::make_shared<ListTransfer>(*this, call, *std::move(query), *std::move(wanted));
  std::string first;
  const ApiResult<bool> more = transfer->Next(first);
  if (!more) return tl::unexpected(more.error());
  if (!*more) {
    AnswerJson(200, first, call.response);
    return {};
  }
  call.response.set_chunked_content_provider(
      "application/json",
      [transfer, first = std::move(first)](size_t, httplib::DataSink& sink) mutable {
        for (bool go_on = true; go_on;) {
          if (!first.empty() && !sink.write(first.data(), first.size())) return false;
          first.clear();
          const ApiResult<bool> page = transfer->Next(first);
          if (!page) return false;
          go_on = *page;
        }
        if (!sink.write(first.data(), first.size())) return false;
        sink.done();
        return true;
      });
  return {};
}

}  // namespace larder::tools
