// The small records of a store, as they are written: JSON text for collections, cursors and indexes
// (so that `ldb` shows them to a person), a FlatBuffer for queue items. Internal to storage/.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "storage/collection.h"
#include "storage/store.h"

namespace larder::records {

std::string EncodeCollection(const CollectionInfo& info);  // without the cursor
Result<CollectionInfo> DecodeCollection(std::string_view text);

std::string EncodeCursor(const Cursor& cursor);
Result<Cursor> DecodeCursor(std::string_view text);

std::string EncodeIndex(const IndexRecord& record);
Result<IndexRecord> DecodeIndex(std::string_view text);

std::string EncodeQueue(const QueueRecord& record);
Result<QueueRecord> DecodeQueue(std::string_view bytes);

// Keys of the family `meta`, besides kFormatKey of storage/database.h.
inline constexpr std::string_view kNextIdKey = "next_id";
inline constexpr std::string_view kCollectionPrefix = "collection/";
inline constexpr std::string_view kCursorPrefix = "cursor/";
inline constexpr std::string_view kDictionaryPrefix = "dictionary/";
inline constexpr std::string_view kFingerprintPrefix = "fingerprint/";
inline constexpr std::string_view kIndexPrefix = "index/";
inline constexpr std::string_view kNotePrefix = "note/";
std::string CollectionKey(CollectionId id);                 // "collection/7"
std::string FingerprintKey(std::string_view fingerprint);   // "fingerprint/..."
std::string CursorKey(CollectionId id);                     // "cursor/7"
std::string IndexKey(CollectionId collection, IndexId id);  // "index/7/2"
std::string IndexKeyPrefix(CollectionId collection);
std::string DictionaryKey(uint32_t id, std::string_view resource);  // "dictionary/3/pods"
struct DictionaryName {
  uint32_t id = 0;
  std::string resource;
};
Result<DictionaryName> ParseDictionaryKey(std::string_view key);
std::string NoteKey(std::string_view name);  // "note/..."

}  // namespace larder::records
