#include "client/api_client.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "schema/json_text.h"
#include "schema/parse_json.h"

namespace larder {
namespace {

using Query = std::vector<std::pair<std::string, std::string>>;

constexpr int64_t kPageSize = 500;

std::string Dump(const Json& json) {
  // Replacing what is not UTF-8 rather than throwing: the server will say what it thinks of it.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What the server takes as one segment of a path.
Result<void> CheckSegment(std::string_view what, std::string_view text) {
  if (text == "." || text == ".." || text.find_first_of("/%") != std::string_view::npos) {
    return MakeError(ErrorCode::kInvalidArgument, "'{}' cannot be a {}", text, what);
  }
  return {};
}

Result<std::string> PathOf(const Resource& resource, const ObjectKey& key,
                           const std::string& subresource = {}) {
  if (key.name.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "an object of {} needs a name",
                     resource.ToString());
  }
  if (resource.namespaced && key.ns.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "{} '{}' needs a namespace", resource.ToString(),
                     key.name);
  }
  LARDER_RETURN_IF_ERROR(CheckSegment("namespace", key.ns));
  LARDER_RETURN_IF_ERROR(CheckSegment("name", key.name));
  std::string path = resource.Path(resource.namespaced ? key.ns : std::string(), key.name);
  if (!subresource.empty()) path += "/" + subresource;
  return path;
}

Result<ObjectKey> KeyOf(const Resource& resource, const Json& object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) {
    return MakeError(ErrorCode::kInvalidArgument, "the object for {} has no metadata",
                     resource.ToString());
  }
  return ObjectKey{TextAt(*metadata, "namespace"), TextAt(*metadata, "name")};
}

void Add(Query& query, const char* name, const std::string& value) {
  if (!value.empty()) query.emplace_back(name, value);
}

Query ListQuery(const ListOptions& options) {
  Query query;
  Add(query, "labelSelector", options.label_selector);
  Add(query, "fieldSelector", options.field_selector);
  if (options.limit > 0) query.emplace_back("limit", std::to_string(options.limit));
  Add(query, "continue", options.continue_token);
  // A continue token carries its own version; the server refuses both together.
  if (options.continue_token.empty()) {
    Add(query, "resourceVersion", options.resource_version);
    Add(query, "resourceVersionMatch", options.resource_version_match);
  }
  return query;
}

Query WriteQuery(const std::string& field_manager, bool dry_run) {
  Query query;
  Add(query, "fieldManager", field_manager);
  if (dry_run) query.emplace_back("dryRun", "All");
  return query;
}

const char* ContentType(PatchType type) {
  switch (type) {
    case PatchType::kJsonMerge:
      return "application/merge-patch+json";
    case PatchType::kStrategic:
      return "application/strategic-merge-patch+json";
    case PatchType::kJsonPatch:
      return "application/json-patch+json";
    case PatchType::kApply:
      return "application/apply-patch+yaml";
  }
  return "";
}

// A server takes an object without kind and apiVersion nowhere but in a create or update of a
// built-in kind.
std::string DumpWithType(const Resource& resource, const Json& object) {
  // What is no object the server refuses.
  const bool complete_already = object.contains("kind") && object.contains("apiVersion");
  if (complete_already || !object.is_object()) return Dump(object);
  Json complete = object;
  if (!object.contains("apiVersion")) complete["apiVersion"] = resource.ApiVersion();
  if (!object.contains("kind")) complete["kind"] = resource.kind;
  return Dump(complete);
}

std::string DeleteBody(const DeleteOptions& options) {
  Json body = {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}};
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) {
    body["preconditions"]["resourceVersion"] = options.resource_version;
  }
  switch (options.propagation) {
    case Propagation::kServerDefault:
      break;
    case Propagation::kBackground:
      body["propagationPolicy"] = "Background";
      break;
    case Propagation::kForeground:
      body["propagationPolicy"] = "Foreground";
      break;
    case Propagation::kOrphan:
      body["propagationPolicy"] = "Orphan";
      break;
  }
  if (options.grace_period_seconds) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  if (options.dry_run) body["dryRun"] = Json::array({"All"});
  return Dump(body);
}

// What is asked rather than stored has no name in the answer: an eviction or a binding is answered
// with a Status, a SubjectAccessReview with itself. It gets the name that was sent, or its kind's.
std::optional<std::string> NamedAnswer(const Request& request, const Resource& resource,
                                       const std::string& body) {
  std::optional<Json> answer = ParseJson(body);
  const Json sent = ParseJson(request.body).value_or(Json::object());
  if (!answer || !answer->is_object() || answer->value("kind", Json()).is_null()) {
    return std::nullopt;
  }
  Json& metadata = (*answer)["metadata"];
  if (metadata.is_null()) metadata = Json::object();
  if (!metadata.is_object() || !TextAt(metadata, "name").empty()) return std::nullopt;
  std::string name = TextAt(sent.value("metadata", Json::object()), "name");
  if (name.empty()) name = resource.resource;
  metadata["name"] = std::move(name);
  return Dump(*answer);
}

}  // namespace

Result<ObjectPtr> ApiClient::Send(const Resource& resource, const Request& request,
                                  const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const Response response, transport_.Do(request, stop));
  const TypeMeta type_meta{resource.ApiVersion(), resource.kind};
  Result<ObjectPtr> object = Object::Parse(response.body, type_meta);
  if (object) return object;
  if (request.method == "POST") {
    if (const auto named = NamedAnswer(request, resource, response.body)) {
      return Object::Parse(*named, type_meta);
    }
  }
  const auto found = response.headers.find("content-type");
  const std::string type =
      found != response.headers.end() ? Excerpt(found->second) : "no content type";
  return MakeError(ErrorCode::kProtocol, "{} {}: the answer (HTTP {}, {}) is not an object: {}",
                   request.method, request.path, response.status, type, object.error().message);
}

Result<ObjectPtr> ApiClient::Get(const Resource& resource, const ObjectKey& key,
                                 const GetOptions& options, const std::stop_token& stop) {
  Request request;
  LARDER_ASSIGN_OR_RETURN(request.path, PathOf(resource, key, options.subresource));
  Add(request.query, "resourceVersion", options.resource_version);
  return Send(resource, request, stop);
}

Result<ListPage> ApiClient::List(const Resource& resource, const ListOptions& options,
                                 const std::stop_token& stop) {
  LARDER_RETURN_IF_ERROR(CheckSegment("namespace", options.ns));
  Request request;
  request.path = resource.Path(resource.namespaced ? options.ns : std::string());
  request.query = ListQuery(options);
  request.max_response_bytes = options.max_response_bytes;
  request.timeout = std::chrono::minutes(2);
  LARDER_ASSIGN_OR_RETURN(Response response, transport_.Do(request, stop));
  return ParseListPage(std::move(response.body), resource);
}

Result<void> ApiClient::ListPages(const Resource& resource, ListOptions options,
                                  const std::function<Result<void>(ListPage)>& each,
                                  const std::stop_token& stop) {
  for (;;) {
    LARDER_ASSIGN_OR_RETURN(ListPage page, List(resource, options, stop));
    std::string next = page.continue_token;
    if (!next.empty() && next == options.continue_token) {
      return MakeError(ErrorCode::kProtocol,
                       "the list of {}: the server sent the same page token twice",
                       resource.ToString());
    }
    LARDER_RETURN_IF_ERROR(each(std::move(page)));
    if (next.empty()) return {};
    options.continue_token = std::move(next);
  }
}

Result<ListPage> ApiClient::ListAll(const Resource& resource, ListOptions options,
                                    const std::stop_token& stop) {
  // A limit with a version would make the server read from etcd.
  const bool may_page = options.resource_version.empty() || options.resource_version == "0";
  if (options.limit == 0 && may_page) options.limit = kPageSize;
  ListPage all;
  bool has_token = !options.continue_token.empty();
  const auto add = [&](ListPage page) -> Result<void> {
    all.items.insert(all.items.end(), std::make_move_iterator(page.items.begin()),
                     std::make_move_iterator(page.items.end()));
    all.resource_version = std::move(page.resource_version);
    has_token = true;
    return {};
  };
  Result<void> read = ListPages(resource, options, add, stop);
  if (!read && read.error().code == ErrorCode::kGone && has_token) {
    options.continue_token.clear();
    options.limit = 0;
    all = ListPage();
    read = ListPages(resource, options, add, stop);
  }
  if (!read) return tl::unexpected(std::move(read).error());
  return all;
}

Result<ObjectPtr> ApiClient::Write(const char* method, const Resource& resource, const Json& object,
                                   const WriteOptions& options, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const ObjectKey key, KeyOf(resource, object));
  const bool create = std::string_view(method) == "POST";
  Request request;
  request.method = method;
  if (create && options.subresource.empty()) {
    if (resource.namespaced && key.ns.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "the object for {} has no metadata.namespace",
                       resource.ToString());
    }
    LARDER_RETURN_IF_ERROR(CheckSegment("namespace", key.ns));
    request.path = resource.Path(resource.namespaced ? key.ns : std::string());
  } else {
    LARDER_ASSIGN_OR_RETURN(request.path, PathOf(resource, key, options.subresource));
  }
  request.query = WriteQuery(options.field_manager, options.dry_run);
  Add(request.query, "fieldValidation", options.field_validation);
  request.content_type = "application/json";
  request.body = DumpWithType(resource, object);
  return Send(resource, request, stop);
}

Result<ObjectPtr> ApiClient::Create(const Resource& resource, const Json& object,
                                    const WriteOptions& options, const std::stop_token& stop) {
  return Write("POST", resource, object, options, stop);
}

Result<ObjectPtr> ApiClient::Update(const Resource& resource, const Json& object,
                                    const WriteOptions& options, const std::stop_token& stop) {
  return Write("PUT", resource, object, options, stop);
}

Result<ObjectPtr> ApiClient::UpdateStatus(const Resource& resource, const Json& object,
                                          WriteOptions options, const std::stop_token& stop) {
  options.subresource = "status";
  return Write("PUT", resource, object, options, stop);
}

Result<ObjectPtr> ApiClient::Patch(const Resource& resource, const ObjectKey& key, PatchType type,
                                   const Json& patch, const PatchOptions& options,
                                   const std::stop_token& stop) {
  if (type == PatchType::kApply && options.field_manager.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "server-side apply needs a field manager");
  }
  Request request;
  request.method = "PATCH";
  LARDER_ASSIGN_OR_RETURN(request.path, PathOf(resource, key, options.subresource));
  request.query = WriteQuery(options.field_manager, options.dry_run);
  if (type == PatchType::kApply && options.force) request.query.emplace_back("force", "true");
  request.content_type = ContentType(type);
  request.body = type == PatchType::kApply ? DumpWithType(resource, patch) : Dump(patch);
  return Send(resource, request, stop);
}

Result<ObjectPtr> ApiClient::Apply(const Resource& resource, const Json& object,
                                   const std::string& field_manager, bool force,
                                   const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const ObjectKey key, KeyOf(resource, object));
  PatchOptions options;
  options.field_manager = field_manager;
  options.force = force;
  return Patch(resource, key, PatchType::kApply, object, options, stop);
}

Result<ObjectPtr> ApiClient::GetScale(const Resource& resource, const ObjectKey& key,
                                      const std::stop_token& stop) {
  GetOptions options;
  options.subresource = "scale";
  return Get(resource, key, options, stop);
}

Result<ObjectPtr> ApiClient::SetScale(const Resource& resource, const ObjectKey& key,
                                      int64_t replicas, const std::stop_token& stop) {
  PatchOptions options;
  options.subresource = "scale";
  const Json patch = {{"spec", {{"replicas", replicas}}}};
  return Patch(resource, key, PatchType::kJsonMerge, patch, options, stop);
}

Result<void> ApiClient::Delete(const Resource& resource, const ObjectKey& key,
                               const DeleteOptions& options, const std::stop_token& stop) {
  Request request;
  request.method = "DELETE";
  LARDER_ASSIGN_OR_RETURN(request.path, PathOf(resource, key));
  request.content_type = "application/json";
  request.body = DeleteBody(options);
  LARDER_RETURN_IF_ERROR(transport_.Do(request, stop));
  return {};
}

Result<void> ApiClient::DeleteCollection(const Resource& resource, const ListOptions& which,
                                         const DeleteOptions& options,
                                         const std::stop_token& stop) {
  LARDER_RETURN_IF_ERROR(CheckSegment("namespace", which.ns));
  Request request;
  request.method = "DELETE";
  request.path = resource.Path(resource.namespaced ? which.ns : std::string());
  request.query = ListQuery(which);
  request.content_type = "application/json";
  request.body = DeleteBody(options);
  request.timeout = std::chrono::minutes(2);
  LARDER_RETURN_IF_ERROR(transport_.Do(request, stop));
  return {};
}

Result<std::string> ClusterUid(HttpTransport& transport, const std::stop_token& stop) {
  const Resource namespaces{"", "v1", "namespaces", "Namespace", false};
  Result<ObjectPtr> found = ApiClient(transport).Get(namespaces, {"", "kube-system"}, {}, stop);
  if (found && (*found)->uid().empty()) {
    return MakeError(ErrorCode::kProtocol, "namespace kube-system has no uid");
  }
  if (found) return std::string((*found)->uid());
  Error error = std::move(found).error();
  if (error.code == ErrorCode::kForbidden) {
    error.message =
        "the cluster cannot be told from another one: allow 'get' on namespace kube-system "
        "(a ClusterRole for namespaces): " +
        error.message;
  } else if (error.code == ErrorCode::kNotFound) {
    error.message =
        "the cluster has no namespace kube-system, whose uid is its identity: " + error.message;
  }
  return tl::unexpected(std::move(error));
}

}  // namespace larder
