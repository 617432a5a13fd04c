// Reading everything and comparing it with itself.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <set>

#include "storage/keys.h"
#include "storage/maintenance.h"
#include "storage/records.h"
#include "storage/store_impl.h"
#include "storage/stored_indexes.h"

namespace larder {
namespace {

// A sum over a set of rows that does not depend on their order: equal sets, equal sums. Lets an
// index be compared with what it should be without holding either.
struct RowSum {
  uint64_t low = 0, high = 0, count = 0;

  void Add(std::string_view key, std::string_view value) {
    const uint64_t seed = XXH3_64bits(key.data(), key.size());
    const XXH128_hash_t hash = XXH3_128bits_withSeed(value.data(), value.size(), seed);
    low += hash.low64;
    high += hash.high64 ^ seed;
    ++count;
  }
  friend bool operator==(const RowSum&, const RowSum&) = default;
};

class Verifier {
 public:
  Verifier(const Store& store, const VerifyOptions& options)
      : store_(store),
        impl_(store.impl()),
        options_(options),
        snapshot_(store.TakeSnapshot()),
        begin_(std::chrono::steady_clock::now()) {}

  Result<VerifyReport> Run() {
    if (!snapshot_->database()) return tl::unexpected(impl_.Unavailable());
    CheckBlocks();
    LARDER_ASSIGN_OR_RETURN(const auto collections, CheckMeta());
    std::set<CollectionId> known;
    for (const CollectionInfo& info : collections) {
      known.insert(info.id);
      LARDER_RETURN_IF_ERROR(CheckCollection(info));
    }
    LARDER_RETURN_IF_ERROR(CheckStrays(known));
    LARDER_RETURN_IF_ERROR(CheckQueues());
    report_.collections = collections.size();
    report_.took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin_);
    return std::move(report_);
  }

 private:
  void Report(std::string_view family, std::string_view key, CollectionId collection,
              std::string message) {
    // A damaged block is met by every scan that comes through it.
    const bool listed = report_.problem_count < options_.max_problems;
    if (listed && !reported_.insert(fmt::format("{} {} {}", family, key, message)).second) return;
    if (++report_.problem_count > options_.max_problems) return;
    report_.problems.push_back(
        {std::string(family), keys::EscapePart(key), collection, std::move(message)});
  }

  Result<void> Stopped() const {
    if (!options_.stop.stop_requested()) return {};
    return MakeError(ErrorCode::kCancelled, "verification was stopped");
  }

  // RocksDB's own checksum of every block of every table.
  void CheckBlocks() {
    const auto database = impl_.database();
    if (!database || database->mode() == Database::Mode::kReader) return;
    const rocksdb::Status status = (*database)->VerifyChecksum();
    if (!status.ok()) Report("files", "", 0, status.ToString());
  }

  // A scan whose own failure (a damaged block) is a problem, not the end.
  Result<void> Scan(Family family, const std::string& prefix, CollectionId collection,
                    const Store::Impl::RowVisitor& visit) {
    const auto outcome = impl_.ScanRows(family, prefix, {}, visit, snapshot_, /*fill_cache=*/false);
    if (!outcome) {
      Report(kFamilyNames[static_cast<size_t>(family)], prefix, collection,
             outcome.error().message);
    }
    return Stopped();
  }

  Result<std::vector<CollectionInfo>> CheckMeta() {
    std::vector<CollectionInfo> collections;
    for (const std::string_view prefix : {records::kCollectionPrefix, records::kDictionaryPrefix,
                                          records::kCursorPrefix, records::kIndexPrefix}) {
      LARDER_RETURN_IF_ERROR(Scan(
          Family::kMeta, std::string(prefix), 0, [&](std::string_view key, std::string_view value) {
            std::optional<Error> error;
            if (prefix == records::kCollectionPrefix) {
              auto info = records::DecodeCollection(value);
              if (info) {
                CheckFingerprint(key, *info);
                collections.push_back(*std::move(info));
              } else {
                error = info.error();
              }
            } else if (prefix == records::kDictionaryPrefix) {
              const auto name = records::ParseDictionaryKey(key);
              if (!name) {
                error = name.error();
              } else if (const auto read = Dictionary::Parse(name->id, value); !read) {
                error = read.error();
              }
            } else if (prefix == records::kCursorPrefix) {
              if (const auto read = records::DecodeCursor(value); !read) error = read.error();
            } else if (const auto read = records::DecodeIndex(value); !read) {
              error = read.error();
            }
            if (error) Report("meta", key, 0, error->message);
            return true;
          }));
    }
    return collections;
  }

  void CheckFingerprint(std::string_view key, const CollectionInfo& info) {
    if (key != records::CollectionKey(info.id)) {
      Report("meta", key, info.id, "the record is of another collection");
    }
    const auto id = impl_.GetMeta(records::FingerprintKey(info.spec.Fingerprint()), snapshot_);
    if (!id || !*id || **id != std::to_string(info.id)) {
      Report("meta", key, info.id, "its fingerprint does not lead to it");
    }
  }

  // One collection's indexes: what they should be and what they are.
  struct Checked {
    CollectionId collection;
    StoredIndexes indexes;
    std::vector<RowSum> expected, found;
  };

  Result<void> CheckCollection(const CollectionInfo& info) {
    std::vector<IndexRecord> ready;
    LARDER_RETURN_IF_ERROR(Scan(Family::kMeta, records::IndexKeyPrefix(info.id), info.id,
                                [&](std::string_view, std::string_view value) {
                                  auto record = records::DecodeIndex(value);
                                  if (record && record->ready) ready.push_back(*std::move(record));
                                  return true;
                                }));
    const size_t count = ready.size();
    Checked checked{info.id, StoredIndexes(std::move(ready), impl_.cipher()),
                    std::vector<RowSum>(count), std::vector<RowSum>(count)};
    LARDER_RETURN_IF_ERROR(CheckObjects(checked));
    for (size_t i = 0; i < count; ++i) LARDER_RETURN_IF_ERROR(CheckIndex(checked, i));
    return Scan(Family::kDeltas, keys::CollectionPrefix(info.id), info.id,
                [&](std::string_view key, std::string_view) {
                  ++report_.deltas;
                  if (const auto parsed = keys::ParseDelta(key); !parsed) {
                    Report("deltas", key, info.id, parsed.error().message);
                  }
                  return true;
                });
  }

  Result<void> CheckObjects(Checked& checked) {
    const DecodeOptions decode = impl_.decode_options();
    const CollectionId collection = checked.collection;
    std::string row;
    return Scan(Family::kObjects, keys::CollectionPrefix(collection), collection,
                [&](std::string_view key, std::string_view value) {
                  ++report_.objects;
                  if (options_.progress && report_.objects % 1000 == 0) {
                    options_.progress(report_.objects);
                  }
                  const auto object = DecodeValue(key, value, decode);
                  if (!object) {
                    const bool sealed = object.error().code == ErrorCode::kForbidden;
                    if (sealed) ++report_.sealed;
                    if (!sealed) Report("objects", key, collection, object.error().message);
                    return true;
                  }
                  const ObjectKey name = (*object)->key();
                  row.clear();
                  keys::AppendObject(row, collection, name);
                  if (row != key) {
                    Report("objects", key, collection, "holds another object");
                    return true;
                  }
                  Expect(**object, name, checked, row);
                  return !options_.stop.stop_requested();
                });
  }

  // Adds what the object's index keys should be.
  static void Expect(const Object& object, const ObjectKey& name, Checked& checked,
                     std::string& row) {
    const auto values = checked.indexes.Values(object);
    for (size_t i = 0; i < values.size(); ++i) {
      for (const std::string& value : values[i]) {
        row.clear();
        keys::AppendIndex(row, checked.collection, checked.indexes.records()[i].id, value, name);
        checked.expected[i].Add(row, object.uid());
      }
    }
  }

  Result<void> CheckIndex(Checked& checked, size_t index) {
    const std::string prefix =
        keys::IndexPrefix(checked.collection, checked.indexes.records()[index].id);
    const bool computable = checked.indexes.Computable(index);
    LARDER_RETURN_IF_ERROR(Scan(Family::kIndexes, prefix, checked.collection,
                                [&](std::string_view key, std::string_view uid) {
                                  ++report_.index_keys;
                                  checked.found[index].Add(key, uid);
                                  // What cannot be computed must at least lead to an object.
                                  if (!computable) CheckEntry(checked, index, key, uid);
                                  return !options_.stop.stop_requested();
                                }));
    if (!computable || checked.expected[index] == checked.found[index]) return {};
    // They differ: now look for where.
    LARDER_RETURN_IF_ERROR(Scan(Family::kIndexes, prefix, checked.collection,
                                [&](std::string_view key, std::string_view uid) {
                                  CheckEntry(checked, index, key, uid);
                                  return !options_.stop.stop_requested();
                                }));
    return FindMissing(checked, index);
  }

  void CheckEntry(const Checked& checked, size_t index, std::string_view key,
                  std::string_view uid) {
    const CollectionId collection = checked.collection;
    const auto entry = keys::ParseIndex(key);
    if (!entry) return Report("indexes", key, collection, entry.error().message);
    const auto object = store_.Get(collection, entry->key, snapshot_);
    if (!object) {
      if (object.error().code != ErrorCode::kNotFound) return;  // reported with the objects
      return Report("indexes", key, collection, "leads to no object");
    }
    if ((*object)->uid() != uid) return Report("indexes", key, collection, "has another uid");
    if (!checked.indexes.Computable(index)) return;
    const auto values = checked.indexes.Values(**object)[index];
    if (std::find(values.begin(), values.end(), entry->value) == values.end()) {
      Report("indexes", key, collection, "the object does not have this value");
    }
  }

  Result<void> FindMissing(const Checked& checked, size_t index) {
    const CollectionId collection = checked.collection;
    const IndexId id = checked.indexes.records()[index].id;
    const DecodeOptions decode = impl_.decode_options();
    return Scan(Family::kObjects, keys::CollectionPrefix(collection), collection,
                [&](std::string_view row, std::string_view bytes) {
                  const auto object = DecodeValue(row, bytes, decode);
                  if (!object) return true;  // reported before
                  const ObjectKey key = (*object)->key();
                  const auto values = checked.indexes.Values(**object);
                  for (const std::string& value : values[index]) {
                    const std::string expected = keys::Index(collection, id, value, key);
                    const auto there = impl_.HasRow(Family::kIndexes, expected, snapshot_);
                    if (there && *there) continue;
                    Report("indexes", expected, collection,
                           there ? "is missing" : there.error().message);
                  }
                  return !options_.stop.stop_requested();
                });
  }

  // Rows of collections that do not exist. One seek for each collection, however large.
  Result<void> CheckStrays(const std::set<CollectionId>& known) {
    for (const Family family : {Family::kObjects, Family::kIndexes, Family::kDeltas}) {
      std::string next;
      for (;;) {
        LARDER_RETURN_IF_ERROR(Stopped());
        const std::string_view name = kFamilyNames[static_cast<size_t>(family)];
        const auto found = impl_.FirstRow(family, next, snapshot_);
        if (!found) Report(name, next, 0, found.error().message);
        if (!found || !*found) break;
        const std::string& key = **found;
        const auto collection = keys::CollectionOf(key);
        if (!collection || known.count(*collection) == 0)
          Report(name, key, 0, "is of no collection");
        next = collection ? keys::PrefixEnd(keys::CollectionPrefix(*collection)) : key + '\0';
      }
    }
    return {};
  }

  Result<void> CheckQueues() {
    const auto queues = store_.Queues(snapshot_);
    if (!queues) {
      Report("queues", "", 0, queues.error().message);
      return {};
    }
    for (const std::string& queue : *queues) {
      LARDER_RETURN_IF_ERROR(Scan(Family::kQueues, keys::QueuePrefix(queue), 0,
                                  [&](std::string_view key, std::string_view value) {
                                    ++report_.queue_items;
                                    if (const auto item = keys::ParseQueueItem(key); !item) {
                                      Report("queues", key, 0, item.error().message);
                                    } else if (const auto read = records::DecodeQueue(value);
                                               !read) {
                                      Report("queues", key, 0, read.error().message);
                                    }
                                    return true;
                                  }));
    }
    return {};
  }

  const Store& store_;
  Store::Impl& impl_;
  const VerifyOptions& options_;
  const SnapshotPtr snapshot_;
  const std::chrono::steady_clock::time_point begin_;
  VerifyReport report_;
  std::set<std::string> reported_;
};

}  // namespace

Result<VerifyReport> Verify(const Store& store, const VerifyOptions& options) {
  return Verifier(store, options).Run();
}

}  // namespace larder
