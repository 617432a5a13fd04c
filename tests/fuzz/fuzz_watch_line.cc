// A watch stream, as bytes: lines, events, bookmarks, errors, objects. The first byte is the size
// of the pieces in which the rest arrives; the events must not depend on it, nor on what was parsed
// before them. And they must be what a parser finds that has the whole in hand: one that is not
// handed out, or cut, is a change that is lost.
#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reflector/line_splitter.h"
#include "reflector/watch_event.h"
#include "schema/object.h"
#include "tests/fuzz/json_depth.h"

namespace {

// Little, so that inputs of the size that libFuzzer makes by itself (4,096) come to it.
constexpr size_t kMaxLine = 1024;
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

// The events, then how the stream ended.
std::vector<std::string> Events(std::string_view stream, size_t piece_bytes) {
  larder::LineSplitter splitter(kMaxLine);
  larder::WatchLineParser parser(kMaxDepth);
  std::vector<std::string> events;
  for (size_t at = 0; at < stream.size(); at += piece_bytes) {
    splitter.Feed(stream.substr(at, piece_bytes));
    for (;;) {
      const auto line = splitter.Next();
      if (!line) {
        events.emplace_back("too long");
        return events;
      }
      if (!*line) break;
      events.push_back(Describe(parser, **line));
    }
  }
  events.emplace_back(splitter.InLine() ? "in a line" : "between lines");
  return events;
}

bool IsType(std::string_view text) {
  for (const char* name : {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"}) {
    if (text == name) return true;
  }
  return false;
}

// The event of a line that is JSON is what simdjson reads there.
void CheckLine(std::string_view line) {
  larder::WatchLineParser parser(kMaxDepth);
  const auto event = parser.Parse(line);
  simdjson::dom::parser dom, dom_of_object;
  simdjson::dom::element root, type, object;
  if (dom.parse(simdjson::padded_string(line)).get(root)) return;
  int types = 0, objects = 0;
  if (root.is_object()) {
    for (const auto field : simdjson::dom::object(root)) {
      if (field.key == "type") type = field.value, ++types;
      if (field.key == "object") object = field.value, ++objects;
    }
  }
  if (types == 0 || objects == 0) LARDER_CHECK(!event);
  if (types != 1 || objects != 1) return;  // which of them counts is not said
  std::string_view name;
  const bool is_event = object.is_object() && !type.get_string().get(name) && IsType(name);
  if (event) {
    LARDER_CHECK(is_event && larder::ToString(event->type) == name);
    simdjson::dom::element handed_out;
    LARDER_CHECK(!dom_of_object.parse(simdjson::padded_string(event->object)).get(handed_out));
    LARDER_CHECK(simdjson::minify(handed_out) == simdjson::minify(object));
  } else if (is_event && line.front() == '{' && line.back() == '}') {
    LARDER_CHECK(larder::fuzz::Depth(root) > kMaxDepth + 1);
  }
}

// What Events must say: of the whole stream, each line by itself.
std::vector<std::string> Expected(std::string_view stream) {
  std::vector<std::string> events;
  for (;;) {
    const size_t end = stream.find('\n');
    std::string_view line = stream.substr(0, end);
    if (line.size() > kMaxLine) {
      events.emplace_back("too long");
      return events;
    }
    if (end == std::string_view::npos) {
      events.emplace_back(line.empty() ? "between lines" : "in a line");
      return events;
    }
    stream.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    larder::WatchLineParser alone(kMaxDepth);
    events.push_back(Describe(alone, line));
    CheckLine(line);
  }
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
