// A watch stream in protobuf: frames, events, bookmarks, errors, objects. The first byte is the
// size of the pieces in which the rest arrives; the events must not depend on it, and must be those
// of the frames that stand in the whole: one that is not handed out is a change that is lost.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reflector/watch_decoder.h"
#include "schema/object.h"

namespace {

// Little, so that inputs of the size that libFuzzer makes by itself (4,096) come to it.
constexpr size_t kMaxFrame = 1024;
constexpr uint32_t kMaxDepth = 100;
constexpr std::string_view kRefused = "refused";

const larder::WireMessage& Pod() { return *larder::WireSchema::BuiltIn().Find({"v1", "Pod"}); }

// What became of the object: nothing but its outcome matters, and that it is the same each time.
std::string Use(const larder::WatchEvent& event) {
  LARDER_CHECK(event.object.front() == '{' && event.object.back() == '}');
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

std::string Describe(const larder::WatchEvent& event) {
  return fmt::format("{} {}", larder::ToString(event.type), Use(event));
}

// The events, then how the stream ended.
std::vector<std::string> Events(std::string_view stream, size_t piece_bytes) {
  larder::ReflectorOptions options;
  options.resource = {"", "v1", "pods", "Pod", true};
  options.max_event_bytes = kMaxFrame;
  options.max_json_depth = kMaxDepth;
  const auto decoder = larder::MakeProtobufDecoder(options, Pod());
  std::vector<std::string> out;
  for (size_t at = 0; at < stream.size(); at += piece_bytes) {
    decoder->Feed(stream.substr(at, piece_bytes));
    for (;;) {
      const auto event = decoder->Next();
      if (!event) {
        out.emplace_back(kRefused);
        return out;
      }
      if (!*event) break;
      out.push_back(Describe(**event));
    }
  }
  out.emplace_back(decoder->InEvent() ? "in an event" : "between events");
  return out;
}

// What Events must say: of the whole stream, each frame by itself.
std::vector<std::string> Expected(std::string_view stream) {
  std::vector<std::string> out;
  while (stream.size() >= 4) {
    size_t length = 0;
    for (const char c : stream.substr(0, 4)) length = length << 8 | static_cast<uint8_t>(c);
    const std::string_view frame = stream.substr(4, length);
    const bool allowed = length > 0 && length <= kMaxFrame;
    if (allowed && frame.size() < length) break;
    larder::WatchFrameParser alone(Pod(), {"v1", "Pod"}, {kMaxDepth});
    const auto event = alone.Parse(frame);
    if (!allowed || !event) {
      out.emplace_back(kRefused);
      return out;
    }
    out.push_back(Describe(*event));
    stream.remove_prefix(4 + length);
  }
  out.emplace_back(stream.empty() ? "between events" : "in an event");
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::vector<std::string> expected = Expected(stream);
  LARDER_CHECK(Events(stream, size_t{data[0]} + 1) == expected);
  LARDER_CHECK(Events(stream, stream.size() + 1) == expected);
  return 0;
}
