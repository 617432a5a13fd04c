// One event of a watch stream, taken apart: a line `{"type":"ADDED","object":{…}}`, or a frame of
// protobuf that holds the same.
//
// WatchLineParser finds the type and the object's text without decoding the object. Refused with
// kProtocol: what is not one JSON object, invalid UTF-8, nesting past `max_depth`, a missing type
// or object, a type that is not known. WatchFrameParser writes the text as the server would have
// (invalid UTF-8 becomes U+FFFD, as in Go); refused with kProtocol is also an object of another
// kind than the expected one or larger than its limit, and with kUnsupported a field that is not
// known. The text is a view into the parser's buffer, valid until its next use.
//
//   WatchLineParser parser(1000);
//   Result<WatchEvent> event = parser.Parse(line);
//   if (event && event->type == WatchEvent::Type::kBookmark) ParseBookmark(event->object);
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "schema/wire_to_json.h"

namespace larder {

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark, kError };
  Type type = Type::kAdded;
  std::string_view object;
  std::optional<WireHead> wire{};  // of what came as protobuf; else this is the server's own text
};
inline constexpr size_t kWatchEventTypes = 5;
// "ADDED", as on the wire.
std::string_view ToString(WatchEvent::Type type);

class WatchLineParser {
 public:
  explicit WatchLineParser(uint32_t max_depth) : max_depth_(max_depth) {}
  Result<WatchEvent> Parse(std::string_view line);

 private:
  const uint32_t max_depth_;
  std::string padded_;  // the line, with room behind it for simdjson
};

class WatchFrameParser {
 public:
  // Of a watch of objects of `type`, which look like `wire`.
  WatchFrameParser(const WireMessage& wire, TypeMeta type, const WireLimits& limits)
      : wire_(wire), type_(std::move(type)), limits_(limits) {}
  Result<WatchEvent> Parse(std::string_view frame);
  // Did Parse() refuse an object for the size that it has as JSON?
  bool TooLarge() const { return too_large_; }

 private:
  const WireMessage& wire_;
  const TypeMeta type_;
  const WireLimits limits_;
  bool too_large_ = false;
  KnownJson known_;
  std::string json_;
};

struct Bookmark {
  std::string resource_version;
  // The bookmark that ends the initial events of a streaming list.
  bool initial_events_end = false;
};
// A bookmark's object has a resourceVersion and no name, so it is not an Object.
Result<Bookmark> ParseBookmark(std::string_view object);

// The Error that the Status of an ERROR event stands for.
Error ErrorFromStatus(std::string_view status_json);

}  // namespace larder
