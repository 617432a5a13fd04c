// A watch stream, as bytes: lines, events, bookmarks, errors, objects. The first byte is the size
// of the pieces in which the rest arrives; the events must not depend on it, nor on what was parsed
// before them.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "reflector/line_splitter.h"
#include "reflector/watch_event.h"
#include "schema/object.h"

namespace {

constexpr size_t kMaxLine = 1 << 16;
constexpr uint32_t kMaxDepth = 100;

std::string Use(const larder::WatchEvent& event) {
  switch (event.type) {
    case larder::WatchEvent::Type::kBookmark: {
      const auto bookmark = larder::ParseBookmark(event.object);
      return bookmark ? bookmark->resource_version : bookmark.error().message;
    }
    case larder::WatchEvent::Type::kError:
      return larder::ErrorFromStatus(event.object).ToString();
    default: {
      const auto object = larder::Object::Parse(event.object, {"v1", "Pod"});
      return object ? std::string((*object)->json()) : object.error().message;
    }
  }
}

// What the event is: its type, its text, and what became of that.
std::string Describe(larder::WatchLineParser& parser, std::string_view line) {
  const auto event = parser.Parse(line);
  if (!event) return event.error().message;
  return fmt::format("{} {} {}", larder::ToString(event->type), event->object, Use(*event));
}

// The events, then how the stream ended. With `together` one parser reads them all.
std::vector<std::string> Events(std::string_view stream, size_t piece_bytes, bool together) {
  larder::LineSplitter splitter(kMaxLine);
  larder::WatchLineParser parser(kMaxDepth);
  std::vector<std::string> events;
  for (size_t at = 0; at < stream.size(); at += piece_bytes) {
    splitter.Feed(stream.substr(at, piece_bytes));
    for (;;) {
      const auto line = splitter.Next();
      if (!line) return {"too long"};
      if (!*line) break;
      larder::WatchLineParser alone(kMaxDepth);
      events.push_back(Describe(together ? parser : alone, **line));
    }
  }
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::vector<std::string> events = Events(stream, size_t{data[0]} + 1, true);
  if (stream.size() <= kMaxLine && events != Events(stream, stream.size() + 1, false)) std::abort();
  return 0;
}
