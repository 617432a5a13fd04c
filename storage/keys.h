// How keys are spelled on disk: text that a person can read with the stock `ldb`, ordered so that a
// namespace is one range. docs/format.md is the description for users; this is its code.
//
//   objects:  7/default/web-0                     collection / namespace / name
//   indexes:  7/2/node-1/default/web-0            collection / index / value / namespace / name
//   queues:   deployments/default%2Fweb/000...1a  queue / item / generation, 16 hex digits
//
// Values, queues and items are escaped (EscapePart); names and namespaces cannot contain what would
// need it (Object::Parse refuses them).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/object.h"
#include "storage/collection.h"
#include "storage/store.h"

namespace larder::keys {

// '/' and '%' and control characters as %XX, so that a part never contains a separator.
std::string EscapePart(std::string_view text);
Result<std::string> UnescapePart(std::string_view text);

// Which collection a key of objects, indexes or deltas belongs to; nullopt where it is no such key.
std::optional<CollectionId> CollectionOf(std::string_view key);
std::string CollectionPrefix(CollectionId collection);                      // "7/"
std::string NamespacePrefix(CollectionId collection, std::string_view ns);  // "7/default/"
std::string Object(CollectionId collection, const ObjectKey& key);
void AppendObject(std::string& out, CollectionId collection, const ObjectKey& key);
Result<ObjectKey> ParseObject(std::string_view key);

std::string IndexPrefix(CollectionId collection, IndexId index);  // "7/2/"
std::string IndexValuePrefix(CollectionId collection, IndexId index, std::string_view value);
std::string Index(CollectionId collection, IndexId index, std::string_view value,
                  const ObjectKey& key);
void AppendIndex(std::string& out, CollectionId collection, IndexId index, std::string_view value,
                 const ObjectKey& key);
// Value and key of an entry; the uid is in the row's value. The second form overwrites `entry`, for
// a caller that reads many.
Result<IndexEntry> ParseIndex(std::string_view key);
Result<void> ParseIndex(std::string_view key, IndexEntry& entry);

// Changes that wait for a handler: collection / handler / namespace / name.
std::string DeltaPrefix(CollectionId collection, std::string_view handler);
std::string Delta(CollectionId collection, std::string_view handler, const ObjectKey& key);
Result<ObjectKey> ParseDelta(std::string_view key);

std::string QueuePrefix(std::string_view queue);  // "deployments/"
std::string QueueItemPrefix(std::string_view queue, std::string_view item);
std::string QueueItem(std::string_view queue, std::string_view item, uint64_t generation);
struct QueueItemKey {
  std::string queue;
  std::string item;
  uint64_t generation = 0;
};
Result<QueueItemKey> ParseQueueItem(std::string_view key);

// The first key behind all keys with this prefix, for range ends. The prefix must not be all 0xff.
std::string PrefixEnd(std::string prefix);

}  // namespace larder::keys
