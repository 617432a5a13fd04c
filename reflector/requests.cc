#include "reflector/requests.h"

#include "schema/selector.h"

namespace larder {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";
// Of a watch a server takes it without "stream=watch", too; with it the answer says the same.
constexpr std::string_view kProtobufWatch = "application/vnd.kubernetes.protobuf;stream=watch";
constexpr std::string_view kPartial =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
constexpr std::string_view kPartialList =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
constexpr std::string_view kProtobufPartialList =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

// Of a list, around its items.
constexpr size_t kListHeadBytes = size_t{64} << 10;

void SetVersion(std::string_view version, Request& request) {
  if (!version.empty()) request.query.emplace_back("resourceVersion", version);
}

}  // namespace

Request Requests::Base() const {
  Request request;
  request.path = options_.resource.Path(options_.ns);
  request.timeout = options_.request_timeout;
  // Answers that are read as a whole are of one object; whatever is longer is read as a stream.
  request.max_response_bytes = options_.max_event_bytes + kListHeadBytes;
  return request;
}

void Requests::AddSelectors(Request& request) const {
  auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) request.query.emplace_back(name, text);
  };
  add("labelSelector", options_.label_selector);
  add("fieldSelector", options_.field_selector);
  add("shardSelector", options_.shard_selector);
}

std::string Requests::ObjectAccept(Form form) const {
  if (form == Form::kProtobuf) return fmt::format("{},{}", kProtobuf, kJson);
  return std::string(options_.metadata_only ? kPartial : kJson);
}

std::string Requests::WatchAccept(Form form) const {
  if (form == Form::kProtobuf) return fmt::format("{},{}", kProtobufWatch, kJson);
  return ObjectAccept(form);
}

std::string Requests::ListAccept(Form form) const {
  if (form == Form::kProtobuf) return fmt::format("{},{}", kProtobuf, kJson);
  return std::string(options_.metadata_only ? kPartialList : kJson);
}

Request Requests::List(std::string_view version, Form form) const {
  Request request = Base();
  request.accept = ListAccept(form);
  AddSelectors(request);
  SetVersion(version, request);
  return request;
}

Request Requests::Page(std::string_view version, std::string_view continue_token, Form form) const {
  Request request = Base();
  request.accept = ListAccept(form);
  AddSelectors(request);
  request.query.emplace_back("limit", std::to_string(options_.page_size));
  if (!continue_token.empty()) {
    request.query.emplace_back("continue", continue_token);
  } else if (version == "0") {
    // With any other version a limit would go to etcd and might not find it.
    request.query.emplace_back("resourceVersion", version);
  }
  return request;
}

Request Requests::ListMetadata(std::string_view version) const {
  Request request = List(version);
  request.accept = fmt::format("{},{},{}", kProtobufPartialList, kPartialList, kJson);
  return request;
}

Request Requests::CurrentVersion(const std::optional<ObjectKey>& witness) const {
  Request request = witness ? ListOf(*witness) : Base();
  request.accept = fmt::format("{},{}", kPartialList, kJson);
  if (witness) return request;
  // A label selector could make the server search the whole collection for one match. A field
  // selector stays: it may be what the caller's rights depend on.
  if (!options_.field_selector.empty()) {
    request.query.emplace_back("fieldSelector", options_.field_selector);
  }
  request.query.emplace_back("limit", "1");
  return request;
}

std::chrono::seconds Requests::DrawWatchTime() {
  std::uniform_int_distribution<int64_t> draw(options_.watch_timeout_min.count(),
                                              options_.watch_timeout_max.count());
  return std::chrono::seconds(draw(random_));
}

Request Requests::Watch(std::string_view version, std::chrono::seconds time, Form form) const {
  Request request = Base();
  request.accept = WatchAccept(form);
  request.accept_gzip = false;
  request.query = {{"watch", "true"},
                   {"allowWatchBookmarks", "true"},
                   {"timeoutSeconds", std::to_string(time.count())}};
  AddSelectors(request);
  SetVersion(version, request);
  return request;
}

Request Requests::WatchList(std::string_view version, std::chrono::seconds time, Form form) const {
  Request request = Watch(version, time, form);
  request.query.emplace_back("sendInitialEvents", "true");
  request.query.emplace_back("resourceVersionMatch", "NotOlderThan");
  return request;
}

bool Requests::HasSelector() const {
  return !options_.label_selector.empty() || !options_.field_selector.empty();
}

Request Requests::ForObject(const ObjectKey& key, std::string_view version, Form form) const {
  Request request = Base();
  request.path = options_.resource.Path(key.ns, key.name);
  request.accept = ObjectAccept(form);
  SetVersion(version, request);
  return request;
}

Request Requests::ListOfOne(const ObjectKey& key, std::string_view version, bool exact,
                            Form form) const {
  Request request = ListOf(key);
  request.accept = ListAccept(form);
  SetVersion(version, request);
  if (exact) request.query.emplace_back("resourceVersionMatch", "Exact");
  return request;
}

Request Requests::ListOf(const ObjectKey& key) const {
  Request request = Base();
  request.path = options_.resource.Path(key.ns);
  std::string fields = "metadata.name=" + FieldSelector::Escape(key.name);
  if (!options_.field_selector.empty()) fields += "," + options_.field_selector;
  if (!options_.label_selector.empty()) {
    request.query.emplace_back("labelSelector", options_.label_selector);
  }
  request.query.emplace_back("fieldSelector", fields);
  return request;
}

Request Requests::ClusterNamespace() const {
  Request request = Base();
  request.path = fmt::format("/api/v1/namespaces/{}", kClusterNamespace);
  request.accept = fmt::format("{},{}", kPartial, kJson);
  return request;
}

}  // namespace larder
