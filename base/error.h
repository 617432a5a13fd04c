// Errors as values.
//
// Every function that can fail returns Result<T>: a value, or an Error with a code to branch on and
// a message that a user can act on (it names the file, the field or the key, and what to do).
// Nothing throws across a folder's boundary.
//
//   Result<int> port = ParsePort(text);
//   if (!port) return tl::unexpected(port.error());
//   Use(*port);
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace larder {

enum class ErrorCode {
  kInvalidArgument,  // The caller's input is wrong; trying again will not help.
  kNotFound,         // HTTP 404, or no such key in the store.
  kAlreadyExists,    // HTTP 409, reason AlreadyExists.
  kConflict,         // HTTP 409, reason Conflict: read again, change again, write again.
  kUnauthorized,     // HTTP 401.
  kForbidden,        // HTTP 403.
  kInvalid,          // HTTP 422: the server's validation refused the object.
  kGone,             // HTTP 410: the resourceVersion or continue token has expired.
  kVersionTooLarge,  // HTTP 504 with cause ResourceVersionTooLarge.
  kTooManyRequests,  // HTTP 429.
  kUnsupported,      // HTTP 405, 406, 415, or a feature that is not there.
  kTimeout,          // A deadline passed.
  kUnavailable,      // Connection refused or lost, HTTP 5xx.
  kCancelled,        // The caller asked to stop.
  kProtocol,         // The peer sent something that is not what the protocol allows.
  kCorruption,       // Stored bytes are not what was written.
  kIo,               // The disk or the operating system failed.
  kNoSpace,          // The disk is full.
  kLocked,           // Another process owns the store.
  kNotReady,         // Not synced, or an index that is still being built.
  kInternal,         // A bug in larder.
};

// The name of a code, as it is printed: "NotFound".
std::string_view ToString(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  // What a server asked for in Retry-After.
  std::optional<std::chrono::milliseconds> retry_after;
  // The Kubernetes Status object, as JSON, where a server sent one.
  std::string status_json;

  // True where the same call may succeed later without the caller changing anything.
  bool IsRetryable() const;
  // "NotFound: no object default/a in pods".
  std::string ToString() const;
};

template <typename T>
using Result = tl::expected<T, Error>;

// MakeError(ErrorCode::kNotFound, "no object {} in {}", key, resource)
template <typename... Args>
tl::unexpected<Error> MakeError(ErrorCode code, fmt::format_string<Args...> format,
                                Args&&... args) {
  return tl::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...), {}, {}});
}

// Aborts with the message: for invariants of durability, where going on would lose data.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace larder

// Always on, in release builds too.
#define LARDER_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::larder::CheckFailed(#condition, __FILE__, __LINE__))

// Returns the error of a Result<void> or Result<T> expression from the enclosing function.
#define LARDER_RETURN_IF_ERROR(expression)                      \
  do {                                                          \
    if (auto larder_result_ = (expression); !larder_result_) {  \
      return tl::unexpected(std::move(larder_result_).error()); \
    }                                                           \
  } while (false)

#define LARDER_CONCAT_INNER(a, b) a##b
#define LARDER_CONCAT(a, b) LARDER_CONCAT_INNER(a, b)
// LARDER_ASSIGN_OR_RETURN(auto store, Store::Open(options));
#define LARDER_ASSIGN_OR_RETURN(declaration, expression)                               \
  auto LARDER_CONCAT(larder_result_, __LINE__) = (expression);                         \
  if (!LARDER_CONCAT(larder_result_, __LINE__)) {                                      \
    return tl::unexpected(std::move(LARDER_CONCAT(larder_result_, __LINE__)).error()); \
  }                                                                                    \
  declaration = *std::move(LARDER_CONCAT(larder_result_, __LINE__))
