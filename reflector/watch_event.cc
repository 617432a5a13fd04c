#include "reflector/watch_event.h"

#include <simdjson.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "client/transport.h"
#include "reflector/buffer_limits.h"
#include "schema/json_parser.h"
#include "schema/json_span.h"
#include "schema/wire_format.h"
#include "schema/wire_unknown.h"

namespace larder {
namespace {

namespace sj = simdjson::ondemand;

constexpr std::array<std::string_view, kWatchEventTypes> kNames = {"ADDED", "MODIFIED", "DELETED",
                                                                   "BOOKMARK", "ERROR"};
// How much of an event that nobody understands goes into a message: its type, nothing of the
// object's content.
constexpr size_t kShownBytes = 40;

tl::unexpected<Error> Refuse(std::string_view what, std::string_view line) {
  // Only printable ASCII: the line is whatever a peer sent.
  std::string shown;
  for (const char c : line.substr(0, kShownBytes)) shown += c >= 0x20 && c < 0x7f ? c : '?';
  return MakeError(ErrorCode::kProtocol, "watch event refused: {} (it begins with '{}')", what,
                   shown);
}

std::optional<WatchEvent::Type> TypeNamed(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<WatchEvent::Type>(i);
  }
  return std::nullopt;
}

// The fields of metav1.WatchEvent and of the RawExtension in it. Unlike the object inside, the
// event has neither magic nor type.
constexpr uint32_t kEventType = 1;
constexpr uint32_t kEventObject = 2;
constexpr uint32_t kExtensionRaw = 1;

// A server's Status has some hundred bytes.
constexpr size_t kMaxStatusBytes = size_t{1} << 20;
constexpr size_t kReasonBytes = 100;

Error NoJson() {
  return {
      ErrorCode::kProtocol, "the server ended the watch with an error that is not JSON", {}, {}};
}

int StatusCode(int64_t code) { return code < 400 || code > 599 ? 500 : static_cast<int>(code); }

// What a Status of this size says beside its code and reason nobody reads: as a document it could
// be many times as large.
Error ErrorFromHugeStatus(std::string_view status_json) {
  const simdjson::padded_string padded(status_json);
  ParserLease parser(padded.size());
  sj::document document;
  sj::object top;
  int64_t code = 0;
  Json status = {{"message", fmt::format("a Status of {} bytes", status_json.size())}};
  if (parser->iterate(padded).get(document) || document.get_object().get(top)) return NoJson();
  for (auto field : top) {
    std::string_view key, text;
    if (field.unescaped_key().get(key)) return NoJson();
    if (key == "code") {
      if (field.value().get_int64().get(code)) code = 0;
    } else if (key == "kind" || key == "reason") {
      if (!field.value().get_string().get(text))
        status[std::string(key)] = std::string(CutText(text, kReasonBytes));
    }
  }
  return ErrorFromResponse(StatusCode(code), {}, status.dump());
}

}  // namespace

std::string_view ToString(WatchEvent::Type type) { return kNames[static_cast<size_t>(type)]; }

Result<WatchEvent> WatchLineParser::Parse(std::string_view line) {
  if (!IsOneJsonContainer(line, max_depth_ + 1)) {
    return Refuse("not one JSON object, or nested too deeply", line);
  }
  if (padded_.capacity() > kKeptBytes && line.size() < kKeptBytes) std::string().swap(padded_);
  padded_.reserve(line.size() + simdjson::SIMDJSON_PADDING);
  padded_.assign(line);

  ParserLease parser(padded_.size());
  sj::document document;
  if (parser->iterate(padded_.data(), padded_.size(), padded_.capacity()).get(document)) {
    return Refuse("not JSON, or not UTF-8", line);
  }
  sj::object top;
  if (document.get_object().get(top)) return Refuse("not a JSON object", line);
  std::string type;
  WatchEvent event;
  for (auto field : top) {
    std::string_view key;
    if (field.unescaped_key().get(key)) return Refuse("not JSON", line);
    if (key == "type") {
      std::string_view text;
      if (field.value().get_string().get(text)) return Refuse("its type is not text", line);
      type = text;
    } else if (key == "object") {
      sj::object object;
      if (field.value().get_object().get(object) || object.raw_json().get(event.object)) {
        return Refuse("its object is not a JSON object", line);
      }
    }
  }
  if (event.object.empty()) return Refuse("it has no object", line);
  const std::optional<WatchEvent::Type> named = TypeNamed(type);
  if (!named) return Refuse("its type is not known", line);
  event.type = *named;
  return event;
}

Result<WatchEvent> WatchFrameParser::Parse(std::string_view frame) {
  if (json_.capacity() > kKeptBytes && frame.size() < kKeptBytes) std::string().swap(json_);
  std::string_view type, extension, object;
  WireFields fields(frame);
  while (fields.Next()) {
    if (fields.number() == kEventType) type = fields.bytes();
    if (fields.number() == kEventObject) extension = fields.bytes();
  }
  if (fields.malformed() != nullptr) return Refuse(fields.malformed(), frame);
  WireFields inside(extension);
  while (inside.Next()) {
    if (inside.number() == kExtensionRaw) object = inside.bytes();
  }
  if (inside.malformed() != nullptr) return Refuse(inside.malformed(), frame);
  if (object.empty()) return Refuse("it has no object", frame);
  const std::optional<WatchEvent::Type> named = TypeNamed(type);
  if (!named) return Refuse("its type is not known", frame);

  // A bookmark is an object of the watched kind that has a version and nothing else.
  static const TypeMeta kStatus{"v1", "Status"};
  static const WireMessage& status = *WireSchema::BuiltIn().Find(kStatus);
  const bool is_error = *named == WatchEvent::Type::kError;
  LARDER_ASSIGN_OR_RETURN(const WireHead head,
                          WireUnknownToJson(is_error ? status : wire_, is_error ? kStatus : type_,
                                            object, limits_, known_, json_, &too_large_));
  return WatchEvent{*named, json_, head};
}

Result<Bookmark> ParseBookmark(std::string_view object) {
  const simdjson::padded_string padded(object);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view version;
  if (parser.parse(padded).get(root) ||
      root.at_pointer("/metadata/resourceVersion").get_string().get(version) || version.empty()) {
    return MakeError(ErrorCode::kProtocol, "a bookmark without resourceVersion");
  }
  Bookmark bookmark{std::string(version), false};
  std::string_view end;
  if (!root.at_pointer("/metadata/annotations/k8s.io~1initial-events-end").get_string().get(end)) {
    bookmark.initial_events_end = end == "true";
  }
  return bookmark;
}

Error ErrorFromStatus(std::string_view status_json) {
  if (status_json.size() > kMaxStatusBytes) return ErrorFromHugeStatus(status_json);
  const simdjson::padded_string padded(status_json);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(padded).get(root)) return NoJson();
  int64_t code = 0;
  if (root["code"].get_int64().get(code)) code = 0;
  return ErrorFromResponse(StatusCode(code), {}, status_json);
}

}  // namespace larder
