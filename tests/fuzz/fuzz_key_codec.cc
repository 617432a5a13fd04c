// Keys as they may stand in a damaged store: each parser gives an error or what the key was made
// of. And keys made of any parts, a line each: they are read back, and are in the order of their
// objects. The first byte chooses the kind of key.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "schema/key_order.h"
#include "storage/keys.h"

namespace {

namespace keys = larder::keys;
using larder::ObjectKey;

template <size_t count>
std::array<std::string, count> Lines(std::string_view text) {
  std::array<std::string, count> lines;
  for (std::string& line : lines) {
    line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return lines;
}

// What Object::Parse lets through.
bool IsUsable(const ObjectKey& key) {
  const auto usable = [](std::string_view part) {
    return std::none_of(part.begin(), part.end(), [](char c) {
      return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
  };
  return !key.name.empty() && usable(key.ns) && usable(key.name);
}

void CheckIndex(const std::string& value, const ObjectKey& key) {
  const auto entry = keys::ParseIndex(keys::Index(7, 2, value, key));
  LARDER_CHECK(entry.has_value() && entry->value == value && entry->key == key);
}

void CheckDelta(const std::string& handler, const ObjectKey& key) {
  const std::string delta = keys::Delta(7, handler, key);
  LARDER_CHECK(delta.starts_with(keys::DeltaPrefix(7, handler)));
  const auto parsed = keys::ParseDelta(delta);
  LARDER_CHECK(parsed.has_value() && *parsed == key);
}

void CheckQueueItem(const std::string& queue, const std::string& item, uint64_t generation) {
  const std::string made = keys::QueueItem(queue, item, generation);
  LARDER_CHECK(made.starts_with(keys::QueueItemPrefix(queue, item)));
  const auto parsed = keys::ParseQueueItem(made);
  LARDER_CHECK(parsed.has_value() && parsed->queue == queue && parsed->item == item &&
               parsed->generation == generation);
}

void CheckOrder(const ObjectKey& a, const ObjectKey& b) {
  const bool before = larder::ComesBefore(a, b);
  LARDER_CHECK((keys::Object(7, a) < keys::Object(7, b)) == before);
  LARDER_CHECK((keys::Index(7, 2, "v", a) < keys::Index(7, 2, "v", b)) == before);
  LARDER_CHECK((keys::Delta(7, "h", a) < keys::Delta(7, "h", b)) == before);
}

void Parse(unsigned kind, std::string_view key) {
  switch (kind) {
    case 0:
      if (const auto parsed = keys::ParseObject(key)) {
        const auto again = keys::ParseObject(keys::Object(1, *parsed));
        LARDER_CHECK(again.has_value() && *again == *parsed);
      }
      break;
    case 1:
      if (const auto parsed = keys::ParseIndex(key)) CheckIndex(parsed->value, parsed->key);
      break;
    case 2:
      if (const auto parsed = keys::ParseDelta(key)) CheckDelta("handler", *parsed);
      break;
    case 3:
      if (const auto parsed = keys::ParseQueueItem(key)) {
        CheckQueueItem(parsed->queue, parsed->item, parsed->generation);
      }
      break;
    default: {
      const auto back = keys::UnescapePart(keys::EscapePart(key));
      LARDER_CHECK(back.has_value() && *back == key);
      (void)keys::UnescapePart(key);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view key(reinterpret_cast<const char*>(data + 1), size - 1);
  (void)keys::CollectionOf(key);
  if (data[0] < 128) {
    Parse(data[0] % 5, key);
    return 0;
  }
  const auto [first_ns, first_name, second_ns, second_name, text] = Lines<5>(key);
  const ObjectKey first{first_ns, first_name}, second{second_ns, second_name};
  CheckQueueItem(first_ns, text, size * data[0]);
  if (!IsUsable(first)) return 0;
  CheckIndex(text, first);
  CheckDelta(text, first);
  if (IsUsable(second)) CheckOrder(first, second);
  return 0;
}
