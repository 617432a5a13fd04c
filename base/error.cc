#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace larder {

std::string_view ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kAlreadyExists:
      return "AlreadyExists";
    case ErrorCode::kConflict:
      return "Conflict";
    case ErrorCode::kUnauthorized:
      return "Unauthorized";
    case ErrorCode::kForbidden:
      return "Forbidden";
    case ErrorCode::kInvalid:
      return "Invalid";
    case ErrorCode::kGone:
      return "Gone";
    case ErrorCode::kVersionTooLarge:
      return "ResourceVersionTooLarge";
    case ErrorCode::kTooManyRequests:
      return "TooManyRequests";
    case ErrorCode::kUnsupported:
      return "Unsupported";
    case ErrorCode::kTimeout:
      return "Timeout";
    case ErrorCode::kUnavailable:
      return "Unavailable";
    case ErrorCode::kCancelled:
      return "Cancelled";
    case ErrorCode::kProtocol:
      return "Protocol";
    case ErrorCode::kCorruption:
      return "Corruption";
    case ErrorCode::kIo:
      return "Io";
    case ErrorCode::kNoSpace:
      return "NoSpace";
    case ErrorCode::kLocked:
      return "Locked";
    case ErrorCode::kNotReady:
      return "NotReady";
    case ErrorCode::kInternal:
      return "Internal";
  }
  return "Unknown";
}

bool Error::IsRetryable() const {
  switch (code) {
    case ErrorCode::kTooManyRequests:
    case ErrorCode::kTimeout:
    case ErrorCode::kUnavailable:
    case ErrorCode::kVersionTooLarge:
    case ErrorCode::kNoSpace:
    case ErrorCode::kNotReady:
      return true;
    default:
      return false;
  }
}

std::string Error::ToString() const {
  return fmt::format("{}: {}", larder::ToString(code), message);
}

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "larder: invariant broken: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace larder
