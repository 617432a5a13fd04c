// The errors of the API server: what a client gets as a Kubernetes Status object.
//
// One function for each of the errors that the real server makes, with its reason, code, message
// and details, so that a client that branches on any of them is tested honestly.
//
//   return tl::unexpected(NotFoundStatus(info, "a"));
//   response.body = status.ToJson();   // {"kind":"Status",...,"reason":"NotFound","code":404}
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "apiserver/resource_info.h"
#include "base/error.h"
#include "schema/object.h"

namespace larder::apiserver {

struct ApiStatus {
  int code = 500;
  std::string reason;
  std::string message;
  Json details = nullptr;
  // Sent as a Retry-After header and in the details.
  std::optional<int> retry_after_seconds;
  // A continue token inside the error: the inconsistent remainder after an expired one.
  std::string continue_token;

  std::string ToJson() const;
  Error ToError() const;
};

template <typename T>
using ApiResult = tl::expected<T, ApiStatus>;

// One field that validation refused.
struct FieldError {
  std::string
      reason;  // FieldValueForbidden, FieldValueInvalid, FieldValueNotSupported, FieldValueRequired
  std::string field;
  std::string message;  // with its type in front: "Forbidden: ..."
};

ApiStatus BadRequestStatus(std::string message);
ApiStatus UnauthorizedStatus();
ApiStatus ForbiddenStatus(const ResourceInfo& info, std::string_view name, std::string_view why);
ApiStatus NotFoundStatus(const ResourceInfo& info, std::string_view name);
// For paths that lead nowhere: "the server could not find the requested resource".
ApiStatus NoSuchPathStatus();
ApiStatus MethodNotAllowedStatus();
ApiStatus NotAcceptableStatus(std::string_view accepted);
ApiStatus UnsupportedMediaTypeStatus(std::string_view accepted);
ApiStatus AlreadyExistsStatus(const ResourceInfo& info, std::string_view name);
ApiStatus ConflictStatus(const ResourceInfo& info, std::string_view name, std::string_view why);
// A precondition of a deletion that does not hold; names the kind where others name the resource.
ApiStatus PreconditionStatus(const ResourceInfo& info, std::string_view name, std::string_view why);
// The lost race of an update: "the object has been modified; ...".
ApiStatus ModifiedStatus(const ResourceInfo& info, std::string_view name);
ApiStatus InvalidStatus(std::string_view group, std::string_view kind, std::string_view name,
                        const std::vector<FieldError>& errors);
ApiStatus ExpiredStatus(std::string message);
ApiStatus TooLargeVersionStatus(uint64_t wanted, uint64_t current);
ApiStatus InternalStatus(std::string_view why);
// What the real server answers to some malformed parameters: a 500 without a reason.
ApiStatus PlainErrorStatus(std::string message);

// A Status of success, as a deletion answers.
std::string SuccessJson(const ResourceInfo& info, std::string_view name, std::string_view uid);

}  // namespace larder::apiserver
