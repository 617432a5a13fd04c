#include "storage/keys.h"

#include <charconv>

namespace larder::keys {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

bool NeedsEscape(char c) {
  return c == '/' || c == '%' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

tl::unexpected<Error> BadKey(std::string_view what, std::string_view key) {
  return MakeError(ErrorCode::kCorruption, "stored key \"{}\" is not {}", EscapePart(key), what);
}

void AppendEscaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (NeedsEscape(c)) {
      out += '%';
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      out += c;
    }
  }
}

void AppendObjectKey(std::string& out, const ObjectKey& key) {
  out += key.ns;
  out += '/';
  out += key.name;
}

// "7/"
void AppendNumber(std::string& out, uint32_t number) {
  char digits[10];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
  out += '/';
}

// Takes the text up to the next slash off `rest`; false when there is none.
bool TakePart(std::string_view& rest, std::string_view& part) {
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return false;
  part = rest.substr(0, slash);
  rest.remove_prefix(slash + 1);
  return true;
}

bool IsNumber(std::string_view part) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  return error == std::errc() && end == part.data() + part.size();
}

}  // namespace

std::string EscapePart(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  AppendEscaped(out, text);
  return out;
}

Result<std::string> UnescapePart(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return BadKey("escaped text", text);
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::optional<CollectionId> CollectionOf(std::string_view key) {
  CollectionId collection = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), collection);
  if (error != std::errc() || end == key.data() + key.size() || *end != '/') return std::nullopt;
  return collection;
}

std::string CollectionPrefix(CollectionId collection) { return std::to_string(collection) + "/"; }

std::string NamespacePrefix(CollectionId collection, std::string_view ns) {
  std::string out = CollectionPrefix(collection);
  out += ns;
  out += '/';
  return out;
}

void AppendObject(std::string& out, CollectionId collection, const ObjectKey& key) {
  AppendNumber(out, collection);
  AppendObjectKey(out, key);
}

std::string Object(CollectionId collection, const ObjectKey& key) {
  std::string out;
  out.reserve(key.ns.size() + key.name.size() + 12);
  AppendObject(out, collection, key);
  return out;
}

Result<ObjectKey> ParseObject(std::string_view key) {
  std::string_view rest = key, collection, ns;
  if (!TakePart(rest, collection) || !IsNumber(collection) || !TakePart(rest, ns) || rest.empty() ||
      rest.find('/') != std::string_view::npos) {
    return BadKey("collection/namespace/name", key);
  }
  return ObjectKey{std::string(ns), std::string(rest)};
}

std::string IndexPrefix(CollectionId collection, IndexId index) {
  return CollectionPrefix(collection) + std::to_string(index) + "/";
}

std::string IndexValuePrefix(CollectionId collection, IndexId index, std::string_view value) {
  std::string out = IndexPrefix(collection, index);
  AppendEscaped(out, value);
  out += '/';
  return out;
}

void AppendIndex(std::string& out, CollectionId collection, IndexId index, std::string_view value,
                 const ObjectKey& key) {
  AppendNumber(out, collection);
  AppendNumber(out, index);
  AppendEscaped(out, value);
  out += '/';
  AppendObjectKey(out, key);
}

std::string Index(CollectionId collection, IndexId index, std::string_view value,
                  const ObjectKey& key) {
  std::string out;
  AppendIndex(out, collection, index, value, key);
  return out;
}

Result<IndexEntry> ParseIndex(std::string_view key) {
  IndexEntry entry;
  LARDER_RETURN_IF_ERROR(ParseIndex(key, entry));
  return entry;
}

Result<void> ParseIndex(std::string_view key, IndexEntry& entry) {
  std::string_view rest = key, collection, index, value, ns;
  if (!TakePart(rest, collection) || !IsNumber(collection) || !TakePart(rest, index) ||
      !IsNumber(index) || !TakePart(rest, value) || !TakePart(rest, ns) || rest.empty() ||
      rest.find('/') != std::string_view::npos) {
    return BadKey("collection/index/value/namespace/name", key);
  }
  if (value.find('%') == std::string_view::npos) {
    entry.value = value;
  } else {
    LARDER_ASSIGN_OR_RETURN(entry.value, UnescapePart(value));
  }
  entry.key.ns = ns;
  entry.key.name = rest;
  return {};
}

std::string DeltaPrefix(CollectionId collection, std::string_view handler) {
  std::string out = CollectionPrefix(collection);
  AppendEscaped(out, handler);
  out += '/';
  return out;
}

std::string Delta(CollectionId collection, std::string_view handler, const ObjectKey& key) {
  std::string out = DeltaPrefix(collection, handler);
  AppendObjectKey(out, key);
  return out;
}

Result<ObjectKey> ParseDelta(std::string_view key) {
  std::string_view rest = key, collection, handler, ns;
  if (!TakePart(rest, collection) || !IsNumber(collection) || !TakePart(rest, handler) ||
      !TakePart(rest, ns) || rest.empty() || rest.find('/') != std::string_view::npos) {
    return BadKey("collection/handler/namespace/name", key);
  }
  return ObjectKey{std::string(ns), std::string(rest)};
}

std::string QueuePrefix(std::string_view queue) { return EscapePart(queue) + "/"; }

std::string QueueItemPrefix(std::string_view queue, std::string_view item) {
  std::string out = QueuePrefix(queue);
  AppendEscaped(out, item);
  out += '/';
  return out;
}

std::string QueueItem(std::string_view queue, std::string_view item, uint64_t generation) {
  std::string out = QueueItemPrefix(queue, item);
  for (int shift = 60; shift >= 0; shift -= 4) out += kHex[(generation >> shift) & 15];
  return out;
}

Result<QueueItemKey> ParseQueueItem(std::string_view key) {
  std::string_view rest = key, queue, item;
  QueueItemKey out;
  if (!TakePart(rest, queue) || !TakePart(rest, item) || rest.size() != 16) {
    return BadKey("queue/item/generation", key);
  }
  for (const char c : rest) {
    const int digit = HexDigit(c);
    if (digit < 0) return BadKey("queue/item/generation", key);
    out.generation = out.generation << 4 | static_cast<uint64_t>(digit);
  }
  LARDER_ASSIGN_OR_RETURN(out.queue, UnescapePart(queue));
  LARDER_ASSIGN_OR_RETURN(out.item, UnescapePart(item));
  return out;
}

std::string PrefixEnd(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  LARDER_CHECK(!prefix.empty());
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

}  // namespace larder::keys
