#include "storage/records.h"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "schema/parse_json.h"
#include "schema/queue_generated.h"
#include "storage/keys.h"

namespace larder::records {
namespace {

tl::unexpected<Error> Damaged(std::string_view what, std::string_view text) {
  return MakeError(ErrorCode::kCorruption, "stored {} is damaged: {}", what,
                   keys::EscapePart(text.substr(0, 200)));
}

Result<Json> ParseObject(std::string_view what, std::string_view text) {
  std::optional<Json> json = ParseJson(text);
  if (!json || !json->is_object()) return Damaged(what, text);
  return *std::move(json);
}

// The member as T, or a default where it is absent or of another type.
template <typename T>
T Field(const Json& json, const char* name, T fallback = {}) {
  const auto it = json.find(name);
  if (it == json.end()) return fallback;
  if constexpr (std::is_same_v<T, std::string>) {
    return it->is_string() ? it->get<std::string>() : fallback;
  } else if constexpr (std::is_same_v<T, bool>) {
    return it->is_boolean() ? it->get<bool>() : fallback;
  } else {
    return it->is_number_integer() ? it->get<T>() : fallback;
  }
}

// Never throws: what is not UTF-8 is replaced.
std::string Print(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

constexpr std::string_view kStateNames[] = {"empty", "listing", "synced", "relisting"};

}  // namespace

std::string EncodeCollection(const CollectionInfo& info) {
  const CollectionSpec& spec = info.spec;
  Json json = {{"id", info.id},
               {"cluster", spec.cluster_uid},
               {"group", spec.resource.group},
               {"version", spec.resource.version},
               {"resource", spec.resource.resource},
               {"kind", spec.resource.kind},
               {"namespaced", spec.resource.namespaced},
               {"namespace", spec.ns},
               {"labelSelector", spec.label_selector},
               {"fieldSelector", spec.field_selector},
               {"projection", spec.projection},
               {"transform", spec.transform},
               {"shard", spec.shard},
               {"lastOpened", info.last_opened_ms}};
  if (info.encrypted) json["encrypted"] = true;
  return Print(json);
}

Result<CollectionInfo> DecodeCollection(std::string_view text) {
  LARDER_ASSIGN_OR_RETURN(const Json json, ParseObject("collection", text));
  CollectionInfo info;
  info.id = Field<CollectionId>(json, "id");
  info.spec.cluster_uid = Field<std::string>(json, "cluster");
  info.spec.resource.group = Field<std::string>(json, "group");
  info.spec.resource.version = Field<std::string>(json, "version");
  info.spec.resource.resource = Field<std::string>(json, "resource");
  info.spec.resource.kind = Field<std::string>(json, "kind");
  info.spec.resource.namespaced = Field<bool>(json, "namespaced", true);
  info.spec.ns = Field<std::string>(json, "namespace");
  info.spec.label_selector = Field<std::string>(json, "labelSelector");
  info.spec.field_selector = Field<std::string>(json, "fieldSelector");
  info.spec.projection = Field<std::string>(json, "projection");
  info.spec.transform = Field<std::string>(json, "transform");
  info.spec.shard = Field<std::string>(json, "shard");
  info.last_opened_ms = Field<int64_t>(json, "lastOpened");
  info.encrypted = Field<bool>(json, "encrypted");
  if (info.id == 0 || info.spec.resource.resource.empty()) return Damaged("collection", text);
  return info;
}

std::string EncodeCursor(const Cursor& cursor) {
  Json json = {{"resourceVersion", cursor.resource_version},
               {"state", kStateNames[static_cast<size_t>(cursor.state)]},
               {"epoch", cursor.epoch},
               {"updated", cursor.updated_ms}};
  if (cursor.witness) {
    json["witness"] = {{"key", cursor.witness->key.ToString()},
                       {"resourceVersion", cursor.witness->resource_version},
                       {"deleted", cursor.witness->deleted}};
  }
  return Print(json);
}

Result<Cursor> DecodeCursor(std::string_view text) {
  LARDER_ASSIGN_OR_RETURN(const Json json, ParseObject("cursor", text));
  Cursor cursor;
  cursor.resource_version = Field<std::string>(json, "resourceVersion");
  cursor.epoch = Field<uint64_t>(json, "epoch");
  cursor.updated_ms = Field<int64_t>(json, "updated");
  if (const auto witness = json.find("witness"); witness != json.end()) {
    LARDER_ASSIGN_OR_RETURN(ObjectKey key, ObjectKey::Parse(Field<std::string>(*witness, "key")));
    cursor.witness = {std::move(key), Field<std::string>(*witness, "resourceVersion"),
                      Field<bool>(*witness, "deleted")};
  }
  const std::string state = Field<std::string>(json, "state");
  for (size_t i = 0; i < std::size(kStateNames); ++i) {
    if (state == kStateNames[i]) {
      cursor.state = static_cast<SyncState>(i);
      return cursor;
    }
  }
  return Damaged("cursor", text);
}

std::string EncodeIndex(const IndexRecord& record) {
  return Print(Json{{"id", record.id},
                    {"name", record.name},
                    {"definition", record.definition},
                    {"ready", record.ready}});
}

Result<IndexRecord> DecodeIndex(std::string_view text) {
  LARDER_ASSIGN_OR_RETURN(const Json json, ParseObject("index", text));
  IndexRecord record;
  record.id = Field<IndexId>(json, "id");
  record.name = Field<std::string>(json, "name");
  record.definition = Field<std::string>(json, "definition");
  record.ready = Field<bool>(json, "ready");
  if (record.id == 0 || record.name.empty()) return Damaged("index", text);
  return record;
}

std::string EncodeQueue(const QueueRecord& record) {
  thread_local flatbuffers::FlatBufferBuilder builder(128);
  builder.Clear();
  const auto error = record.last_error.empty() ? 0 : builder.CreateString(record.last_error);
  fbs::FinishQueueRecordBuffer(
      builder, fbs::CreateQueueRecord(builder, record.added_ms, record.not_before_ms,
                                      record.priority, record.failures, record.dead, error));
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

Result<QueueRecord> DecodeQueue(std::string_view bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!fbs::VerifyQueueRecordBuffer(verifier)) return Damaged("queue item", bytes);
  const fbs::QueueRecord* stored = fbs::GetQueueRecord(bytes.data());
  QueueRecord record;
  record.added_ms = stored->added_at();
  record.not_before_ms = stored->not_before();
  record.priority = stored->priority();
  record.failures = stored->failures();
  record.dead = stored->dead();
  if (stored->last_error()) record.last_error = stored->last_error()->str();
  return record;
}

std::string CollectionKey(CollectionId id) {
  return std::string(kCollectionPrefix) + std::to_string(id);
}
std::string FingerprintKey(std::string_view fingerprint) {
  return std::string(kFingerprintPrefix) + std::string(fingerprint);
}
std::string CursorKey(CollectionId id) { return std::string(kCursorPrefix) + std::to_string(id); }
std::string IndexKeyPrefix(CollectionId collection) {
  return std::string(kIndexPrefix) + std::to_string(collection) + "/";
}
std::string IndexKey(CollectionId collection, IndexId id) {
  return IndexKeyPrefix(collection) + std::to_string(id);
}
std::string DictionaryKey(uint32_t id, std::string_view resource) {
  return std::string(kDictionaryPrefix) + std::to_string(id) + "/" + keys::EscapePart(resource);
}
Result<DictionaryName> ParseDictionaryKey(std::string_view key) {
  std::string_view rest = key;
  DictionaryName name;
  if (rest.substr(0, kDictionaryPrefix.size()) == kDictionaryPrefix) {
    rest.remove_prefix(kDictionaryPrefix.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), name.id);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    auto resource = keys::UnescapePart(rest.substr(std::min<size_t>(1, rest.size())));
    if (error == std::errc() && !rest.empty() && rest[0] == '/' && resource) {
      name.resource = *std::move(resource);
      return name;
    }
  }
  return Damaged("dictionary's key", key);
}
std::string NoteKey(std::string_view name) { return std::string(kNotePrefix) + std::string(name); }

}  // namespace larder::records

namespace larder {

std::string_view ToString(SyncState state) {
  return records::kStateNames[static_cast<size_t>(state)];
}

}  // namespace larder
