// An answer that says no: its first byte is the status, behind 400, its first line a Retry-After,
// and the rest the body. What comes out can be shown and waited for, and says the same as
// nlohmann's parser.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "client/transport.h"
#include "schema/json_text.h"
#include "schema/parse_json.h"
#include "schema/wire_unknown.h"

namespace {

using larder::Error;
using larder::Json;
using larder::TextAt;

using Headers = std::map<std::string, std::string>;

void CheckShown(const Error& error) {
  constexpr size_t kMostText = 2048;
  constexpr size_t kMostElse = 32;  // "HTTP 410: "
  LARDER_CHECK(!error.message.empty());
  LARDER_CHECK(error.message.size() <= 2 * kMostText + kMostElse);  // "^[" for ESC
  LARDER_CHECK(std::none_of(error.message.begin(), error.message.end(),
                            [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7f; }));
  if (!error.retry_after) return;
  LARDER_CHECK(error.retry_after->count() >= 0);
  LARDER_CHECK(*error.retry_after <= std::chrono::minutes(10));
}

bool MayBeTooDeep(std::string_view json) {
  const auto brackets =
      std::count_if(json.begin(), json.end(), [](char c) { return c == '[' || c == '{'; });
  return static_cast<size_t>(brackets) > larder::kMaxParsedDepth;
}

void CheckJson(const Error& error, std::string_view body) {
  if (MayBeTooDeep(body)) return;
  const Json document = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  const bool is_status = TextAt(document, "kind") == "Status";
  LARDER_CHECK(error.status_json == (is_status ? body : std::string_view()));
  if (!is_status || !document.contains("details")) return;
  const std::string name = TextAt(document["details"], "name");
  const bool says =
      error.code == larder::ErrorCode::kNotFound && TextAt(document, "reason") == "NotFound";
  LARDER_CHECK(larder::SaysNotFound(error, name) == says || name.empty());
  LARDER_CHECK(!larder::SaysNotFound(error, name + "x"));
}

// A Status in protobuf is the same as its JSON.
void CheckWire(const Error& error, int status, const Headers& headers) {
  if (error.status_json.empty()) return;
  const Error same = larder::ErrorFromResponse(status, headers, error.status_json);
  LARDER_CHECK(same.code == error.code && same.message == error.message);
  LARDER_CHECK(same.retry_after == error.retry_after && same.status_json == error.status_json);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int status = 400 + data[0];
  const std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t line = std::min(rest.find('\n'), rest.size());
  const std::string_view body = rest.substr(std::min(line + 1, rest.size()));
  Headers headers;
  if (line > 0) headers["retry-after"] = rest.substr(0, line);
  const Error error = larder::ErrorFromResponse(status, headers, body);
  CheckShown(error);
  if (body.starts_with(larder::kWireMagic)) {
    CheckWire(error, status, headers);
  } else {
    CheckJson(error, body);
  }
  return 0;
}
