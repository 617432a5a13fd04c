// Figures of a store.
#include <rocksdb/convenience.h>
#include <rocksdb/metadata.h>
#include <rocksdb/table_properties.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "storage/directory.h"
#include "storage/keys.h"
#include "storage/maintenance.h"
#include "storage/owner_lock.h"
#include "storage/records.h"
#include "storage/store_impl.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

uint64_t IntProperty(const Database& database, Family family, const std::string& name) {
  uint64_t value = 0;
  database.get()->GetIntProperty(database.family(family), name, &value);
  return value;
}

// RocksDB's own estimate knows nothing of tables that were there when a reader opened the store.
int64_t EstimateTableRows(const Database& database, Family family) {
  int64_t rows = 0;
  rocksdb::TablePropertiesCollection tables;
  (void)database.get()->GetPropertiesOfAllTables(database.family(family), &tables);
  for (const auto& [name, table] : tables) {
    // A deletion hides a row that is counted too.
    rows +=
        static_cast<int64_t>(table->num_entries) - 2 * static_cast<int64_t>(table->num_deletions);
  }
  return std::max<int64_t>(rows, 0);
}

uint64_t EstimateRows(const Database& database, Family family) {
  return static_cast<uint64_t>(EstimateTableRows(database, family)) +
         IntProperty(database, family, rocksdb::DB::Properties::kNumEntriesActiveMemTable) +
         IntProperty(database, family, rocksdb::DB::Properties::kNumEntriesImmMemTables);
}

FamilyStats StatsOf(const Database& database, Family family) {
  FamilyStats stats;
  stats.name = kFamilyNames[static_cast<size_t>(family)];
  rocksdb::ColumnFamilyMetaData meta;
  database.get()->GetColumnFamilyMetaData(database.family(family), &meta);
  for (const rocksdb::LevelMetaData& level : meta.levels) {
    if (!level.files.empty()) stats.levels.push_back({level.level, level.files.size(), level.size});
  }
  stats.files = meta.file_count;
  stats.table_bytes = meta.size;
  stats.estimated_rows = EstimateRows(database, family);
  stats.pending_compaction_bytes =
      IntProperty(database, family, rocksdb::DB::Properties::kEstimatePendingCompactionBytes);
  const uint64_t live =
      IntProperty(database, family, rocksdb::DB::Properties::kEstimateLiveDataSize);
  // Of tables that were only flushed so far, and overlap, the estimate counts just one.
  const bool compacted = !stats.levels.empty() && stats.levels.back().level > 0;
  if (live != 0 && compacted) {
    stats.space_amplification = static_cast<double>(stats.table_bytes) / static_cast<double>(live);
  }
  std::map<std::string, std::string> values;
  if (database.get()->GetMapProperty(database.family(family), rocksdb::DB::Properties::kCFStats,
                                     &values)) {
    const auto amplification = values.find("compaction.Sum.WriteAmp");
    if (amplification != values.end()) {
      stats.write_amplification = std::strtod(amplification->second.c_str(), nullptr);
    }
  }
  return stats;
}

void AddMemory(const Database& database, const Store::Impl& impl, StoreStats& stats) {
  stats.memory.limit = impl.options.memory_limit;
  // One cache serves all families.
  stats.memory.block_cache =
      IntProperty(database, Family::kObjects, rocksdb::DB::Properties::kBlockCacheUsage);
  for (size_t i = 0; i < kFamilyNames.size(); ++i) {
    const auto family = static_cast<Family>(i);
    stats.memory.memtables +=
        IntProperty(database, family, rocksdb::DB::Properties::kSizeAllMemTables);
    stats.memory.table_readers +=
        IntProperty(database, family, rocksdb::DB::Properties::kEstimateTableReadersMem);
  }
  stats.open_snapshots =
      IntProperty(database, Family::kObjects, rocksdb::DB::Properties::kNumSnapshots);
  const uint64_t oldest =
      IntProperty(database, Family::kObjects, rocksdb::DB::Properties::kOldestSnapshotTime);
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  if (oldest != 0) {
    stats.oldest_snapshot = now - std::chrono::seconds(static_cast<int64_t>(oldest));
  }
}

void AddFiles(const Database& database, const Store::Impl& impl, StoreStats& stats) {
  stats.disk_limit = impl.options.disk_limit;
  if (impl.options.in_memory) return;
  stats.owner_pid = LockOwner(impl.options.path);
  std::vector<rocksdb::LiveFileMetaData> live;
  database.get()->GetLiveFilesMetaData(&live);
  std::set<std::string> needed;
  for (const rocksdb::LiveFileMetaData& file : live) {
    needed.insert(fs::path(file.name).filename().string());
  }
  std::error_code error;
  for (const auto& entry : EntriesOf(impl.options.path, error)) {
    std::error_code gone;
    if (!entry.is_regular_file(gone)) continue;
    const uint64_t bytes = entry.file_size(gone);
    if (gone) continue;
    stats.total_bytes += bytes;
    const std::string extension = entry.path().extension().string();
    if (extension == ".log") stats.log_bytes += bytes;
    if (extension == ".sst" && needed.count(entry.path().filename().string()) == 0) {
      ++stats.obsolete_files;
      stats.obsolete_bytes += bytes;
    }
  }
}

}  // namespace

uint64_t EstimateObjects(const Store& store, CollectionId collection) {
  const auto database = store.impl().database();
  if (!database) return 0;
  rocksdb::ColumnFamilyHandle* const family = database->family(Family::kObjects);
  const std::string begin = keys::CollectionPrefix(collection);
  const std::string end = keys::PrefixEnd(begin);
  const rocksdb::Range range(begin, end);
  uint64_t rows = 0;
  uint64_t bytes = 0;
  (*database)->GetApproximateMemTableStats(family, range, &rows, &bytes);
  rocksdb::SizeApproximationOptions tables;
  tables.include_memtables = false;
  tables.include_files = true;
  rocksdb::ColumnFamilyMetaData meta;
  database->get()->GetColumnFamilyMetaData(family, &meta);
  if (meta.size == 0 || !(*database)->GetApproximateSizes(tables, family, &range, 1, &bytes).ok()) {
    return rows;
  }
  // Rows of one family are alike enough.
  const double share = static_cast<double>(bytes) / static_cast<double>(meta.size);
  const auto table_rows = static_cast<double>(EstimateTableRows(*database, Family::kObjects));
  return rows + static_cast<uint64_t>(std::llround(std::min(share, 1.0) * table_rows));
}

Result<StoreStats> GetStats(const Store& store, const StatsOptions& options) {
  Store::Impl& impl = store.impl();
  const auto database = impl.database();
  if (!database) return tl::unexpected(impl.Unavailable());
  StoreStats stats;
  std::map<DictionaryId, DictionaryStats> dictionaries;
  for (const auto& [resource, dictionary] : impl.dictionaries().All()) {
    DictionaryStats& entry = dictionaries[dictionary->id()];
    entry.id = dictionary->id();
    entry.resource = resource;
    entry.stored_bytes = dictionary->StoredBytes();
    entry.current = impl.dictionaries().CurrentOf(resource) == dictionary;
    stats.memory.dictionaries += dictionary->MemoryBytes();
  }
  LARDER_ASSIGN_OR_RETURN(const auto collections, store.Collections());
  for (const CollectionInfo& info : collections) {
    CollectionStats entry;
    entry.info = info;
    LARDER_ASSIGN_OR_RETURN(entry.indexes, store.IndexRecords(info.id));
    const std::string prefix = keys::CollectionPrefix(info.id);
    if (options.count_objects) {
      LARDER_RETURN_IF_ERROR(impl.ScanRows(
          Family::kObjects, prefix, {},
          [&](std::string_view key, std::string_view value) {
            ++entry.objects;
            entry.stored_bytes += key.size() + value.size();
            if (const auto head = DecodeHead(key, value, nullptr)) {
              entry.json_bytes += head->json_bytes;
              ++dictionaries[head->dictionary].values;
            }
            return true;
          },
          nullptr, /*fill_cache=*/false));
      LARDER_RETURN_IF_ERROR(impl.ScanRows(
          Family::kDeltas, prefix, {},
          [&](std::string_view, std::string_view) { return ++entry.pending_deltas != 0; }, nullptr,
          /*fill_cache=*/false));
    }
    stats.collections.push_back(std::move(entry));
  }
  for (auto& [id, entry] : dictionaries) {
    if (!entry.resource.empty()) stats.dictionaries.push_back(std::move(entry));
  }
  for (size_t i = 0; i < kFamilyNames.size(); ++i) {
    stats.families.push_back(StatsOf(*database, static_cast<Family>(i)));
    stats.table_bytes += stats.families.back().table_bytes;
  }
  AddMemory(*database, impl, stats);
  AddFiles(*database, impl, stats);
  stats.reopened = impl.reopened();
  if (const auto health = impl.Health(); !health) stats.health = health.error().message;
  return stats;
}

}  // namespace larder
