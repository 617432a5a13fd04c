#include "apiserver/api_status.h"

#include <utility>

namespace larder::apiserver {
namespace {

Json Details(const ResourceInfo& info, std::string_view name) {
  Json details = Json::object();
  if (!name.empty()) details["name"] = name;
  if (!info.resource.group.empty()) details["group"] = info.resource.group;
  details["kind"] = info.resource.resource;
  return details;
}

ApiStatus Make(int code, std::string reason, std::string message, Json details = nullptr) {
  ApiStatus status;
  status.code = code;
  status.reason = std::move(reason);
  status.message = std::move(message);
  status.details = std::move(details);
  return status;
}

ErrorCode CodeFor(const ApiStatus& status) {
  switch (status.code) {
    case 400:
      return ErrorCode::kInvalidArgument;
    case 401:
      return ErrorCode::kUnauthorized;
    case 403:
      return ErrorCode::kForbidden;
    case 404:
      return ErrorCode::kNotFound;
    case 405:
    case 406:
    case 415:
      return ErrorCode::kUnsupported;
    case 409:
      return status.reason == "AlreadyExists" ? ErrorCode::kAlreadyExists : ErrorCode::kConflict;
    case 410:
      return ErrorCode::kGone;
    case 422:
      return ErrorCode::kInvalid;
    case 429:
      return ErrorCode::kTooManyRequests;
    case 504:
      return ErrorCode::kVersionTooLarge;
    default:
      return ErrorCode::kUnavailable;
  }
}

}  // namespace

std::string ApiStatus::ToJson() const {
  Json out = {{"kind", "Status"},
              {"apiVersion", "v1"},
              {"metadata", Json::object()},
              {"status", "Failure"},
              {"message", message}};
  if (!continue_token.empty()) out["metadata"]["continue"] = continue_token;
  if (!reason.empty()) out["reason"] = reason;
  Json all_details = details;
  if (retry_after_seconds) {
    if (all_details.is_null()) all_details = Json::object();
    all_details["retryAfterSeconds"] = *retry_after_seconds;
  }
  if (!all_details.is_null()) out["details"] = std::move(all_details);
  out["code"] = code;
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Error ApiStatus::ToError() const {
  Error error{CodeFor(*this), message, {}, ToJson()};
  if (retry_after_seconds) error.retry_after = std::chrono::seconds(*retry_after_seconds);
  return error;
}

ApiStatus BadRequestStatus(std::string message) {
  return Make(400, "BadRequest", std::move(message));
}

ApiStatus UnauthorizedStatus() { return Make(401, "Unauthorized", "Unauthorized"); }

ApiStatus ForbiddenStatus(const ResourceInfo& info, std::string_view name, std::string_view why) {
  std::string what = info.resource.ToString();
  if (!name.empty()) what += fmt::format(" \"{}\"", name);
  return Make(403, "Forbidden", fmt::format("{} is forbidden: {}", what, why), Details(info, name));
}

ApiStatus NotFoundStatus(const ResourceInfo& info, std::string_view name) {
  return Make(404, "NotFound", fmt::format("{} \"{}\" not found", info.resource.ToString(), name),
              Details(info, name));
}

ApiStatus NoSuchPathStatus() {
  return Make(404, "NotFound", "the server could not find the requested resource", Json::object());
}

ApiStatus MethodNotAllowedStatus() {
  return Make(405, "MethodNotAllowed",
              "the server does not allow this method on the requested resource", Json::object());
}

ApiStatus NotAcceptableStatus(std::string_view accepted) {
  return Make(406, "NotAcceptable",
              fmt::format("only the following media types are accepted: {}", accepted));
}

ApiStatus UnsupportedMediaTypeStatus(std::string_view accepted) {
  return Make(415, "UnsupportedMediaType",
              fmt::format("the body of the request was in an unknown format - accepted media types "
                          "include: {}",
                          accepted));
}

ApiStatus AlreadyExistsStatus(const ResourceInfo& info, std::string_view name) {
  return Make(409, "AlreadyExists",
              fmt::format("{} \"{}\" already exists", info.resource.ToString(), name),
              Details(info, name));
}

ApiStatus ConflictStatus(const ResourceInfo& info, std::string_view name, std::string_view why) {
  return Make(409, "Conflict",
              fmt::format("Operation cannot be fulfilled on {} \"{}\": {}",
                          info.resource.ToString(), name, why),
              Details(info, name));
}

ApiStatus PreconditionStatus(const ResourceInfo& info, std::string_view name,
                             std::string_view why) {
  Json details = Details(info, name);
  details["kind"] = info.resource.kind;
  return Make(
      409, "Conflict",
      fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", info.resource.kind, name, why),
      std::move(details));
}

ApiStatus ModifiedStatus(const ResourceInfo& info, std::string_view name) {
  return ConflictStatus(info, name,
                        "the object has been modified; please apply your changes to the latest "
                        "version and try again");
}

ApiStatus InvalidStatus(std::string_view group, std::string_view kind, std::string_view name,
                        const std::vector<FieldError>& errors) {
  Json causes = Json::array();
  std::string joined;
  for (const FieldError& error : errors) {
    causes.push_back(
        {{"reason", error.reason}, {"message", error.message}, {"field", error.field}});
    if (!joined.empty()) joined += ", ";
    joined += error.field + ": " + error.message;
  }
  if (errors.size() > 1) joined = "[" + joined + "]";
  Json details = {{"name", name}, {"group", group}, {"kind", kind}, {"causes", std::move(causes)}};
  if (name.empty()) details.erase("name");
  if (group.empty()) details.erase("group");
  std::string qualified(kind);
  if (!group.empty()) qualified += fmt::format(".{}", group);
  return Make(422, "Invalid", fmt::format("{} \"{}\" is invalid: {}", qualified, name, joined),
              std::move(details));
}

ApiStatus ExpiredStatus(std::string message) { return Make(410, "Expired", std::move(message)); }

ApiStatus TooLargeVersionStatus(uint64_t wanted, uint64_t current) {
  Json details = {{"causes", Json::array({{{"reason", "ResourceVersionTooLarge"},
                                           {"message", "Too large resource version"}}})}};
  ApiStatus status =
      Make(504, "Timeout",
           fmt::format("Timeout: Too large resource version: {}, current: {}", wanted, current),
           std::move(details));
  status.retry_after_seconds = 1;
  return status;
}

ApiStatus InternalStatus(std::string_view why) {
  return Make(500, "InternalError", fmt::format("Internal error occurred: {}", why),
              {{"causes", Json::array({{{"message", why}}})}});
}

ApiStatus PlainErrorStatus(std::string message) { return Make(500, "", std::move(message)); }

std::string SuccessJson(const ResourceInfo& info, std::string_view name, std::string_view uid) {
  Json details = Details(info, name);
  details["uid"] = uid;
  Json out = {{"kind", "Status"},
              {"apiVersion", "v1"},
              {"metadata", Json::object()},
              {"status", "Success"},
              {"details", std::move(details)}};
  return out.dump();
}

}  // namespace larder::apiserver
