#include "apiserver/api_handler.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/discovery.h"
#include "apiserver/list_options.h"
#include "apiserver/openapi.h"

namespace larder::apiserver {
namespace {

std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (slash != 0) out.emplace_back(path.substr(0, slash));
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  }
  return out;
}

std::string VerbOf(const httplib::Request& request, bool named) {
  if (request.method == "GET" || request.method == "HEAD") {
    if (named) return "get";
    return FlagParameter(request.params, "watch") ? "watch" : "list";
  }
  if (request.method == "POST") return "create";
  if (request.method == "PUT") return "update";
  if (request.method == "PATCH") return "patch";
  return named ? "delete" : "deletecollection";
}

std::string ReasonFor(int code) {
  switch (code) {
    case 400:
      return "BadRequest";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "NotFound";
    case 409:
      return "Conflict";
    case 410:
      return "Expired";
    case 422:
      return "Invalid";
    case 429:
      return "TooManyRequests";
    case 500:
      return "InternalError";
    case 503:
      return "ServiceUnavailable";
    case 504:
      return "Timeout";
    default:
      return "";
  }
}

std::string DenialOf(const User& user, const std::string& verb, const ResourceInfo& info,
                     const std::string& ns) {
  const std::string what =
      fmt::format("User \"{}\" cannot {} resource \"{}\" in API group \"{}\"", user.name, verb,
                  info.resource.resource, info.resource.group);
  return ns.empty() ? what + " at the cluster scope"
                    : fmt::format("{} in the namespace \"{}\"", what, ns);
}

}  // namespace

void AnswerJson(int code, const std::string& body, httplib::Response& response) {
  response.status = code;
  response.set_content(body, "application/json");
}

void AnswerStatus(const ApiStatus& status, httplib::Response& response) {
  if (status.retry_after_seconds) {
    response.set_header("Retry-After", std::to_string(*status.retry_after_seconds));
  }
  AnswerJson(status.code, status.ToJson(), response);
}

void ApiHandler::Handle(const httplib::Request& request, httplib::Response& response,
                        Connection& connection) {
  connection.CountInto(&parts_.stats.Of("").bytes);
  if (request.path == "/healthz" || request.path == "/readyz" || request.path == "/livez") {
    response.set_content("ok", "text/plain; charset=utf-8");
    return;
  }
  if (request.path == "/version") return AnswerJson(200, VersionJson(), response);
  const std::optional<User> user = parts_.authorizer.Authenticate(
      request.get_header_value("Authorization"), connection.CertificateUser());
  if (!user) return AnswerStatus(UnauthorizedStatus(), response);
  connection.LiftLimits();
  HandlePath(request, response, connection, *user);
}

void ApiHandler::HandlePath(const httplib::Request& request, httplib::Response& response,
                            Connection& connection, const User& user) {
  std::string path = request.path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const bool top = path == "/api" || path == "/apis";
  if (top && WantsAggregatedDiscovery(request.get_header_value("Accept"))) {
    response.set_content(AggregatedDiscoveryJson(parts_.registry, path == "/api"),
                         kAggregatedContentType);
    return;
  }
  if (request.method == "GET") {
    if (std::optional<std::string> document = DiscoveryJson(parts_.registry, path)) {
      return AnswerJson(200, *document, response);
    }
    if (std::optional<std::string> document = OpenApiJson(parts_.registry, path)) {
      return AnswerJson(200, *document, response);
    }
  }
  ApiResult<Target> target = Resolve(request);
  if (!target && target.error().code == 404 && !InBuiltInGroup(path)) {
    response.status = 404;
    response.set_content("404 page not found\n", "text/plain; charset=utf-8");
    return;
  }
  if (!target) return AnswerStatus(target.error(), response);
  const std::string resource = target->info->resource.ToString();
  Stats::Counters& stats = parts_.stats.Of(resource);
  connection.CountInto(&stats.bytes);
  if (!Authorizer::Allowed(user, target->verb, resource)) {
    ++stats.errors;
    return AnswerStatus(ForbiddenStatus(*target->info, target->name,
                                        DenialOf(user, target->verb, *target->info, target->ns)),
                        response);
  }
  FaultPlan plan = parts_.faults.Take(resource, target->verb);
  Call call{request, response, connection, *std::move(target), std::move(plan), stats};
  if (!BeforeCall(call)) return;
  if (ApiResult<void> done = Dispatch(call); !done) AnswerStatus(done.error(), response);
  if (response.status >= 400) ++stats.errors;
}

// A path that leads nowhere is answered by whoever serves the group, and by nobody otherwise.
bool ApiHandler::InBuiltInGroup(const std::string& path) const {
  const std::vector<std::string> parts = SplitPath(path);
  if (parts.empty() || (parts[0] != "api" && parts[0] != "apis")) return false;
  if (parts[0] == "api") return true;
  const std::vector<ResourceInfoPtr> all = parts_.registry.All();
  return std::any_of(all.begin(), all.end(), [&](const ResourceInfoPtr& info) {
    return parts.size() > 1 && !info->custom && info->resource.group == parts[1];
  });
}

ApiResult<ApiHandler::Target> ApiHandler::Resolve(const httplib::Request& request) const {
  const std::vector<std::string> parts = SplitPath(request.path);
  const bool core = !parts.empty() && parts[0] == "api";
  size_t at = core ? 2 : 3;
  if (parts.size() <= at || (!core && parts[0] != "apis")) {
    return tl::unexpected(NoSuchPathStatus());
  }
  const std::string group = core ? "" : parts[1];
  const std::string& version = parts[at - 1];
  Target out;
  // namespaces/NAME/RESOURCE..., but namespaces/NAME/status is about the namespace itself.
  if (parts[at] == "namespaces" && parts.size() > at + 2 && parts[at + 2] != "status" &&
      parts[at + 2] != "finalize") {
    out.ns = parts[at + 1];
    at += 2;
  }
  out.info = parts_.registry.Find(group, version, parts[at]);
  if (!out.info || (!out.ns.empty() && !out.info->resource.namespaced)) {
    return tl::unexpected(NoSuchPathStatus());
  }
  out.table = parts_.state.FindTable(out.info->resource.ToString());
  if (!out.table) return tl::unexpected(NoSuchPathStatus());
  if (parts.size() > at + 1) out.name = parts[at + 1];
  if (parts.size() > at + 2) out.subresource = parts[at + 2];
  const bool known = out.subresource.empty() || (out.subresource == "status" && out.info->status) ||
                     (out.subresource == "scale" && out.info->scale);
  if (parts.size() > at + 3 || !known) return tl::unexpected(NoSuchPathStatus());
  out.verb = VerbOf(request, !out.name.empty());
  const bool needs_ns = out.info->resource.namespaced && out.ns.empty();
  const bool collection_verb =
      out.verb == "list" || out.verb == "watch" || (out.verb == "create" && !needs_ns);
  if (needs_ns && !collection_verb) return tl::unexpected(MethodNotAllowedStatus());
  if (out.verb == "create" && !out.name.empty()) {
    return tl::unexpected(MethodNotAllowedStatus());
  }
  return out;
}

// The faults that replace the answer or come before it. False: the call is over.
bool ApiHandler::BeforeCall(Call& call) {
  if (call.plan.Empty()) return true;
  if (const Fault* fault = call.plan.Find(FaultType::kDelay)) {
    settings_.clock->SleepFor(std::chrono::milliseconds(fault->delay_ms), stop_);
  }
  if (const Fault* fault = call.plan.Find(FaultType::kSlow)) {
    call.connection.Throttle(fault->bytes_per_second);
  }
  if (call.plan.Find(FaultType::kDrop)) {
    call.connection.Abort();
    return false;
  }
  if (const Fault* fault = call.plan.Find(FaultType::kError)) {
    ApiStatus status;
    status.code = fault->code;
    status.reason = fault->reason.empty() ? ReasonFor(fault->code) : fault->reason;
    status.message = fault->message.empty() ? "injected by the simulator" : fault->message;
    status.retry_after_seconds = fault->retry_after;
    ++call.stats.errors;
    AnswerStatus(status, call.response);
    return false;
  }
  if (const Fault* fault = call.plan.Find(FaultType::kBody)) {
    AnswerBody(call, *fault);
    return false;
  }
  if (const Fault* fault = call.plan.Find(FaultType::kGarbage);
      fault && call.target.verb != "watch") {
    call.response.set_content(std::string("\0\xff\xfe{]garbage\"", 13), "application/json");
    return false;
  }
  return true;
}

void ApiHandler::AnswerBody(Call& call, const Fault& fault) {
  call.response.status = fault.code;
  for (const auto& [name, value] : fault.headers) call.response.set_header(name, value);
  const std::string type = fault.content_type.empty() ? "application/json" : fault.content_type;
  if (fault.repeat == 1) {
    call.response.set_content(fault.body, type);
    return;
  }
  // Repeats go out in big pieces, so that a body of gigabytes does not take minutes to make.
  const size_t times = std::max<size_t>(1, 64 * 1024 / std::max<size_t>(1, fault.body.size()));
  std::string piece;
  for (size_t i = 0; i < times; ++i) piece += fault.body;
  call.response.set_chunked_content_provider(
      type, [body = fault.body, piece, times, left = fault.repeat](
                size_t, httplib::DataSink& sink) mutable {
        if (left < 0) return sink.write(piece.data(), piece.size());
        const auto whole = static_cast<int64_t>(times);
        const std::string& next = left >= whole ? piece : body;
        left -= left >= whole ? whole : std::min<int64_t>(left, 1);
        if (!sink.write(next.data(), next.size())) return false;
        if (left == 0) sink.done();
        return true;
      });
}

ApiResult<void> ApiHandler::Dispatch(Call& call) try {
  const std::string& verb = call.target.verb;
  if (verb == "get") return Get(call);
  if (verb == "list") return List(call);
  if (verb == "watch") return Watch(call);
  ++call.stats.writes;
  if (verb == "create") return Create(call);
  if (verb == "update") return Update(call);
  if (verb == "patch") return Patch(call);
  if (verb == "delete") return Delete(call);
  return DeleteCollection(call);
} catch (const Json::exception& failure) {
  return tl::unexpected(BadRequestStatus(fmt::format("the body is malformed: {}", failure.what())));
}

}  // namespace larder::apiserver
