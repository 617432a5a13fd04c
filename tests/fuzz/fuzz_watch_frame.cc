// A watch stream in protobuf: frames, events, bookmarks, errors, objects. The first byte is the
// size of the pieces in which the rest arrives; the events must not depend on it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "reflector/watch_decoder.h"
#include "schema/object.h"

namespace {

// What became of the object: nothing but its outcome matters, and that it is the same each time.
std::string Use(const larder::WatchEvent& event) {
  if (event.object.front() != '{' || event.object.back() != '}') std::abort();
  switch (event.type) {
    case larder::WatchEvent::Type::kBookmark: {
      const auto bookmark = larder::ParseBookmark(event.object);
      return bookmark ? bookmark->resource_version : bookmark.error().message;
    }
    case larder::WatchEvent::Type::kError:
      return larder::ErrorFromStatus(event.object).ToString();
    default: {
      const auto object = larder::Object::FromWire(event.object, {"v1", "Pod"}, *event.wire);
      return object ? std::string((*object)->json()) : object.error().message;
    }
  }
}

// The events, then how the stream ended.
std::vector<std::string> Events(std::string_view stream, size_t piece_bytes) {
  larder::ReflectorOptions options;
  options.resource = {"", "v1", "pods", "Pod", true};
  options.max_event_bytes = 1 << 16;
  options.max_json_depth = 100;
  const auto decoder =
      larder::MakeProtobufDecoder(options, *larder::WireSchema::BuiltIn().Find({"v1", "Pod"}));
  std::vector<std::string> out;
  for (size_t at = 0; at < stream.size(); at += piece_bytes) {
    decoder->Feed(stream.substr(at, piece_bytes));
    for (;;) {
      const auto event = decoder->Next();
      if (!event) {
        out.push_back(event.error().ToString());
        return out;
      }
      if (!*event) break;
      out.emplace_back(larder::ToString((*event)->type));
      out.push_back(Use(**event));
    }
  }
  out.emplace_back(decoder->InEvent() ? "in an event" : "between events");
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  if (Events(stream, size_t{data[0]} + 1) != Events(stream, stream.size() + 1)) std::abort();
  return 0;
}
