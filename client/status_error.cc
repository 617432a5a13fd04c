// ErrorFromResponse: what a Kubernetes Status means to a caller.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "client/transport.h"
#include "schema/json_text.h"
#include "schema/object.h"
#include "schema/parse_json.h"
#include "schema/wire_unknown.h"

namespace larder {
namespace {

constexpr std::chrono::milliseconds kMaxRetryAfter = std::chrono::minutes(10);
constexpr size_t kMaxMessageBytes = 2048;
constexpr size_t kMaxBodyBytes = 200;
constexpr std::string_view kHidden = "***";
constexpr size_t kLeastSecretBytes = 4;  // a shorter one is part of ordinary words
constexpr uint32_t kMaxDepth = 100;      // of JSON within a Status, which has none

bool HasVersionTooLargeCause(const Json& status) {
  const auto details = status.find("details");
  if (details == status.end() || !details->is_object()) return false;
  const auto causes = details->find("causes");
  if (causes == details->end() || !causes->is_array()) return false;
  return std::any_of(causes->begin(), causes->end(), [](const Json& cause) {
    return cause.is_object() && TextAt(cause, "reason") == "ResourceVersionTooLarge";
  });
}

// kube-apiserver answers some malformed parameters of a watch with a 500 that has no reason.
bool IsMalformedRequest(const std::string& reason, const Json& status) {
  if (!reason.empty()) return false;
  const std::string message = TextAt(status, "message");
  return message.starts_with("resourceVersion: Invalid value") ||
         message.starts_with("invalid shard selector");
}

ErrorCode CodeFor(int status, const std::string& reason, const Json& document) {
  if (reason == "Expired" || reason == "Gone") return ErrorCode::kGone;
  switch (status) {
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
    case 408:
      return ErrorCode::kTimeout;
    case 409:
      return reason == "AlreadyExists" ? ErrorCode::kAlreadyExists : ErrorCode::kConflict;
    case 410:
      return ErrorCode::kGone;
    case 422:
      return ErrorCode::kInvalid;
    case 429:
      return ErrorCode::kTooManyRequests;
    case 504:
      return HasVersionTooLargeCause(document) ? ErrorCode::kVersionTooLarge
                                               : ErrorCode::kUnavailable;
    case 500:
      return IsMalformedRequest(reason, document) ? ErrorCode::kInvalidArgument
                                                  : ErrorCode::kUnavailable;
    default:
      return status >= 500 ? ErrorCode::kUnavailable : ErrorCode::kInvalidArgument;
  }
}

std::optional<std::chrono::milliseconds> Seconds(int64_t seconds) {
  if (seconds < 0) return std::nullopt;
  const int64_t limit = std::chrono::duration_cast<std::chrono::seconds>(kMaxRetryAfter).count();
  return std::chrono::seconds(std::min(seconds, limit));
}

std::optional<std::chrono::milliseconds> RetryAfter(
    const std::map<std::string, std::string>& headers, const Json& document) {
  const auto header = headers.find("retry-after");
  if (header != headers.end()) {
    const std::string& text = header->second;
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    int64_t seconds = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    // More digits than fit is still a number: the longest wait that we accept.
    if (digits && code == std::errc::result_out_of_range) return kMaxRetryAfter;
    if (digits && code == std::errc()) return Seconds(seconds);
  }
  const auto details = document.find("details");
  if (details == document.end() || !details->is_object()) return std::nullopt;
  const auto field = details->find("retryAfterSeconds");
  if (field == details->end() || !field->is_number_integer()) return std::nullopt;
  const auto seconds = field->get<int64_t>();
  return seconds > 0 ? Seconds(seconds) : std::nullopt;
}

// A server answers with an error in the form that the request asked for. The JSON of a Status in
// protobuf; nothing where it is something else.
std::string JsonOfProtobuf(std::string_view body) {
  const TypeMeta type{"v1", "Status"};
  KnownJson known;
  std::string json;
  const bool read =
      WireUnknownToJson(*WireSchema::BuiltIn().Find(type), type, body, {kMaxDepth}, known, json)
          .has_value();
  return read ? json : std::string();
}

std::string Without(const std::vector<std::string>& secrets, std::string_view text) {
  std::string shown(text);
  for (const std::string& secret : secrets) {
    if (secret.size() < kLeastSecretBytes) continue;
    std::string rest =
        std::exchange(shown, {});  // in one pass: a server may repeat it for a megabyte
    size_t begin = 0;
    for (size_t at = 0; (at = rest.find(secret, begin)) != std::string::npos;) {
      shown.append(rest, begin, at - begin).append(kHidden);
      begin = at + secret.size();
    }
    shown.append(rest, begin);
  }
  return shown;
}

}  // namespace

Error ErrorFromResponse(int status, const std::map<std::string, std::string>& headers,
                        std::string_view body, const std::vector<std::string>& secrets) {
  if (body.starts_with(kWireMagic)) {
    return ErrorFromResponse(status, headers, JsonOfProtobuf(body), secrets);
  }
  Json document = ParseJson(body).value_or(Json::object());
  const bool is_status = TextAt(document, "kind") == "Status";
  if (!is_status) document = Json::object();

  Error error;
  error.code = CodeFor(status, TextAt(document, "reason"), document);
  error.retry_after = RetryAfter(headers, document);
  // Hidden before anything is cut: half a secret would be shown.
  const std::string message = Without(secrets, TextAt(document, "message"));
  const std::string whole = Without(secrets, body);
  if (!message.empty()) {
    error.message = fmt::format(
        "{} (HTTP {})", Printable(std::string(CutText(message, kMaxMessageBytes)), Lines::kOne),
        status);
  } else if (whole.empty()) {
    error.message = fmt::format("HTTP {}", status);
  } else {
    error.message = fmt::format("HTTP {}: {}", status,
                                Printable(std::string(CutText(whole, kMaxBodyBytes)), Lines::kOne));
  }
  if (is_status) error.status_json = whole;
  return error;
}

bool SaysNotFound(const Error& error, std::string_view name) {
  if (error.code != ErrorCode::kNotFound || error.status_json.empty()) return false;
  const Json status = ParseJson(error.status_json).value_or(Json::object());
  if (TextAt(status, "reason") != "NotFound") return false;
  const auto details = status.find("details");
  return details != status.end() && TextAt(*details, "name") == name;
}

}  // namespace larder
