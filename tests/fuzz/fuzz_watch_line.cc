// A watch stream, as bytes: lines, events, bookmarks, errors, objects. The first byte is the size
// of the pieces in which the rest arrives; the lines must not depend on it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "reflector/line_splitter.h"
#include "reflector/watch_event.h"
#include "schema/object.h"

namespace {

constexpr size_t kMaxLine = 1 << 16;
constexpr uint32_t kMaxDepth = 100;

std::vector<std::string> Lines(std::string_view stream, size_t piece_bytes) {
  larder::LineSplitter splitter(kMaxLine);
  std::vector<std::string> lines;
  for (size_t at = 0; at < stream.size(); at += piece_bytes) {
    splitter.Feed(stream.substr(at, piece_bytes));
    for (;;) {
      const auto line = splitter.Next();
      if (!line) return {"too long"};
      if (!*line) break;
      lines.emplace_back(**line);
    }
  }
  return lines;
}

void Use(const larder::WatchEvent& event) {
  switch (event.type) {
    case larder::WatchEvent::Type::kBookmark:
      (void)larder::ParseBookmark(event.object);
      break;
    case larder::WatchEvent::Type::kError:
      (void)larder::ErrorFromStatus(event.object);
      break;
    default:
      (void)larder::Object::Parse(event.object, {"v1", "Pod"});
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::vector<std::string> lines = Lines(stream, size_t{data[0]} + 1);
  if (stream.size() <= kMaxLine && lines != Lines(stream, stream.size() + 1)) std::abort();
  larder::WatchLineParser parser(kMaxDepth);
  for (const std::string& line : lines) {
    if (const auto event = parser.Parse(line)) Use(*event);
  }
  return 0;
}
