#include "storage/engine_catalog.h"

#include <rocksdb/filter_policy.h>
#include <rocksdb/rate_limiter.h>

#include <array>
#include <cstdlib>

#include "storage/options.h"

namespace larder {
namespace {

using Db = rocksdb::DBOptions;
using Cf = rocksdb::ColumnFamilyOptions;
using Table = rocksdb::BlockBasedTableOptions;
using S = EngineSection;
using K = EngineKind;

constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

uint64_t Number(const std::string& value) { return std::strtoull(value.c_str(), nullptr, 10); }
int Small(const std::string& value) { return static_cast<int>(Number(value)); }
double Real(const std::string& value) { return std::strtod(value.c_str(), nullptr); }
bool Flag(const std::string& value) { return value == "true"; }

const std::vector<std::string>& CompressionNames() {
  static const std::vector<std::string> names = {"kNoCompression", "kSnappyCompression",
                                                 "kLZ4Compression", "kZSTD"};
  return names;
}
rocksdb::CompressionType Compression(const std::string& value) {
  if (value == "kSnappyCompression") return rocksdb::kSnappyCompression;
  if (value == "kLZ4Compression") return rocksdb::kLZ4Compression;
  if (value == "kZSTD") return rocksdb::kZSTD;
  return rocksdb::kNoCompression;
}

rocksdb::CompactionPri Priority(const std::string& value) {
  if (value == "kByCompensatedSize") return rocksdb::kByCompensatedSize;
  if (value == "kOldestLargestSeqFirst") return rocksdb::kOldestLargestSeqFirst;
  if (value == "kOldestSmallestSeqFirst") return rocksdb::kOldestSmallestSeqFirst;
  return rocksdb::kMinOverlappingRatio;
}

// "none", "bloomfilter:10", "ribbonfilter:10".
void SetFilter(Table& table, const std::string& value) {
  const size_t colon = value.find(':');
  table.filter_policy.reset();
  if (colon == std::string::npos) return;
  const double bits = Real(value.substr(colon + 1));
  table.filter_policy.reset(value.starts_with("ribbon") ? rocksdb::NewRibbonFilterPolicy(bits)
                                                        : rocksdb::NewBloomFilterPolicy(bits));
}

void SetCompressionPerLevel(Cf& cf, const std::string& value) {
  cf.compression_per_level.clear();
  for (size_t at = 0; at <= value.size();) {
    const size_t end = std::min(value.find(':', at), value.size());
    cf.compression_per_level.push_back(Compression(value.substr(at, end - at)));
    at = end + 1;
  }
}

std::vector<EngineSpec> MakeLarder() {
  return {
      {S::kLarder,
       "value_compression",
       K::kFlag,
       0,
       0,
       {},
       false,
       "compress each object by itself, with a dictionary of its resource"},
      {S::kLarder, "value_compression_level", K::kNumber, 1, 19, {}, false, "zstd level of that"},
      {S::kLarder,
       "dictionary_bytes",
       K::kNumber,
       0,
       kMiB,
       {},
       false,
       "how large a resource's dictionary may get; 0: none are trained"},
      {S::kLarder,
       "max_log_bytes",
       K::kNumber,
       kMiB,
       4 * kGiB,
       {},
       false,
       "upper bound of the write-ahead log: less is read again at a start, more is flushed at "
       "once"},
      {S::kLarder,
       "sync_interval_ms",
       K::kNumber,
       kLeastSyncInterval.count(),
       10'000,
       {},
       false,
       "how long a relaxed commit may stay unsynced"},
      {S::kLarder,
       "memtable_percent",
       K::kNumber,
       5,
       40,
       {},
       false,
       "memtables' share of the memory limit; the block cache has 45 percent less this"},
  };
}

std::vector<EngineSpec> MakeDatabase() {
  return {
      {S::kDatabase,
       "max_background_jobs",
       K::kNumber,
       1,
       16,
       {},
       true,
       "flushes and compactions at once",
       [](Db& db, const std::string& v) { db.max_background_jobs = Small(v); }},
      {S::kDatabase,
       "max_subcompactions",
       K::kNumber,
       1,
       8,
       {},
       true,
       "threads of one compaction",
       [](Db& db, const std::string& v) {
         db.max_subcompactions = static_cast<uint32_t>(Number(v));
       }},
      {S::kDatabase,
       "bytes_per_sync",
       K::kNumber,
       0,
       kGiB,
       {},
       true,
       "write tables out in steps of this size; 0: leave it to the system",
       [](Db& db, const std::string& v) { db.bytes_per_sync = Number(v); }},
      {S::kDatabase,
       "wal_bytes_per_sync",
       K::kNumber,
       0,
       kGiB,
       {},
       true,
       "the same for the log",
       [](Db& db, const std::string& v) { db.wal_bytes_per_sync = Number(v); }},
      {S::kDatabase,
       "wal_compression",
       K::kChoice,
       0,
       0,
       {"kNoCompression", "kZSTD"},
       false,
       "compress the write-ahead log",
       [](Db& db, const std::string& v) { db.wal_compression = Compression(v); }},
      {S::kDatabase,
       "rate_limiter_bytes_per_sec",
       K::kNumber,
       kMiB,
       16 * kGiB,
       {},
       false,
       "bound of what flushes and compactions write in a second",
       [](Db& db, const std::string& v) {
         db.rate_limiter.reset(rocksdb::NewGenericRateLimiter(static_cast<int64_t>(Number(v))));
       }},
      {S::kDatabase,
       "compaction_readahead_size",
       K::kNumber,
       0,
       64 * kMiB,
       {},
       true,
       "how much a compaction reads at once",
       [](Db& db, const std::string& v) { db.compaction_readahead_size = Number(v); }},
      {S::kDatabase,
       "avoid_flush_during_recovery",
       K::kFlag,
       0,
       0,
       {},
       false,
       "keep what a start reads from the log in memory instead of writing it out first",
       [](Db& db, const std::string& v) { db.avoid_flush_during_recovery = Flag(v); }},
  };
}

std::vector<EngineSpec> MakeFamily() {
  const auto family = [](const char* name, K kind, double least, double most, bool live,
                         const char* meaning, void (*set)(Cf&, const std::string&)) {
    return EngineSpec{S::kFamily, name, kind, least, most, {}, live, meaning, nullptr, set};
  };
  std::vector<EngineSpec> out = {
      family("write_buffer_size", K::kNumber, 64 * kKiB, kGiB, true,
             "a memtable is flushed at this size, or when all together reach their share of the "
             "memory limit",
             [](Cf& cf, const std::string& v) { cf.write_buffer_size = Number(v); }),
      family("arena_block_size", K::kNumber, 4 * kKiB, 16 * kMiB, false,
             "what a memtable allocates at once; every family's last piece is partly empty",
             [](Cf& cf, const std::string& v) { cf.arena_block_size = Number(v); }),
      family("max_write_buffer_number", K::kNumber, 2, 8, true, "memtables of a family at once",
             [](Cf& cf, const std::string& v) { cf.max_write_buffer_number = Small(v); }),
      family("target_file_size_base", K::kNumber, 256 * kKiB, kGiB, true, "size of a table",
             [](Cf& cf, const std::string& v) { cf.target_file_size_base = Number(v); }),
      family("max_bytes_for_level_base", K::kNumber, kMiB, 16 * kGiB, true,
             "size of the first level below level 0",
             [](Cf& cf, const std::string& v) { cf.max_bytes_for_level_base = Number(v); }),
      family("max_bytes_for_level_multiplier", K::kReal, 2, 100, true,
             "how much larger each level is than the one above",
             [](Cf& cf, const std::string& v) { cf.max_bytes_for_level_multiplier = Real(v); }),
      family(
          "level_compaction_dynamic_level_bytes", K::kFlag, 0, 0, false,
          "fill levels from the bottom, so that little is stored twice",
          [](Cf& cf, const std::string& v) { cf.level_compaction_dynamic_level_bytes = Flag(v); }),
      family(
          "level0_file_num_compaction_trigger", K::kNumber, 1, 64, true,
          "compact level 0 at so many files",
          [](Cf& cf, const std::string& v) { cf.level0_file_num_compaction_trigger = Small(v); }),
      family("level0_slowdown_writes_trigger", K::kNumber, 4, 256, true,
             "slow commits down at so many files",
             [](Cf& cf, const std::string& v) { cf.level0_slowdown_writes_trigger = Small(v); }),
      family("level0_stop_writes_trigger", K::kNumber, 4, 256, true,
             "stop commits at so many files",
             [](Cf& cf, const std::string& v) { cf.level0_stop_writes_trigger = Small(v); }),
      family("compression_level", K::kNumber, 1, 19, false, "zstd level of blocks",
             [](Cf& cf, const std::string& v) {
               cf.compression_opts.level = cf.bottommost_compression_opts.level = Small(v);
             }),
      family("compression_dict_bytes", K::kNumber, 0, kMiB, false,
             "zstd dictionary of each table; 0: none",
             [](Cf& cf, const std::string& v) {
               const auto bytes = static_cast<uint32_t>(Number(v));
               cf.compression_opts.max_dict_bytes = bytes;
               cf.compression_opts.zstd_max_train_bytes = bytes * 16;
               // What is held back for training is charged to the block cache.
               cf.compression_opts.max_dict_buffer_bytes = 4 << 20;
             }),
      family("universal_max_size_amplification_percent", K::kNumber, 5, 1000, true,
             "universal: rewrite everything when the newer runs are so large against the oldest",
             [](Cf& cf, const std::string& v) {
               cf.compaction_options_universal.max_size_amplification_percent =
                   static_cast<unsigned>(Number(v));
             }),
      family("enable_blob_files", K::kFlag, 0, 0, true,
             "keep large values in files of their own, so that compactions move only keys",
             [](Cf& cf, const std::string& v) { cf.enable_blob_files = Flag(v); }),
      family("min_blob_size", K::kNumber, 0, kMiB, true, "how large a value must be for that",
             [](Cf& cf, const std::string& v) { cf.min_blob_size = Number(v); }),
      family("blob_file_size", K::kNumber, kMiB, kGiB, true, "size of a blob file",
             [](Cf& cf, const std::string& v) { cf.blob_file_size = Number(v); }),
      family("enable_blob_garbage_collection", K::kFlag, 0, 0, true,
             "move live values out of old blob files while compacting",
             [](Cf& cf, const std::string& v) { cf.enable_blob_garbage_collection = Flag(v); }),
      family("blob_garbage_collection_age_cutoff", K::kReal, 0, 1, true,
             "which share of the blob files counts as old",
             [](Cf& cf, const std::string& v) { cf.blob_garbage_collection_age_cutoff = Real(v); }),
  };
  const auto choice = [&](const char* name, std::vector<std::string> choices, bool live,
                          const char* meaning, void (*set)(Cf&, const std::string&),
                          K kind = K::kChoice) {
    out.push_back({S::kFamily, name, kind, 0, 0, std::move(choices), live, meaning, nullptr, set});
  };
  choice("compaction_style", {"kCompactionStyleLevel", "kCompactionStyleUniversal"}, false,
         "level: least space; universal: least writing", [](Cf& cf, const std::string& v) {
           cf.compaction_style = v == "kCompactionStyleUniversal"
                                     ? rocksdb::kCompactionStyleUniversal
                                     : rocksdb::kCompactionStyleLevel;
         });
  choice("compaction_pri",
         {"kByCompensatedSize", "kOldestLargestSeqFirst", "kOldestSmallestSeqFirst",
          "kMinOverlappingRatio"},
         false, "which table of a level is compacted first",
         [](Cf& cf, const std::string& v) { cf.compaction_pri = Priority(v); });
  choice("compression", CompressionNames(), true, "of blocks",
         [](Cf& cf, const std::string& v) { cf.compression = Compression(v); });
  choice("bottommost_compression", CompressionNames(), true, "of blocks of the last level",
         [](Cf& cf, const std::string& v) { cf.bottommost_compression = Compression(v); });
  choice("compression_per_level", CompressionNames(), false,
         "of blocks by level, from level 0 on, with ':' between", SetCompressionPerLevel,
         K::kChoices);
  choice("blob_compression_type", CompressionNames(), true, "of values in blob files",
         [](Cf& cf, const std::string& v) { cf.blob_compression_type = Compression(v); });
  return out;
}

std::vector<EngineSpec> MakeTable() {
  const auto table = [](const char* name, K kind, double least, double most, const char* meaning,
                        void (*set)(Table&, const std::string&)) {
    return EngineSpec{S::kTable, name,    kind,    least,   most, {},
                      false,     meaning, nullptr, nullptr, set};
  };
  return {
      table("block_size", K::kNumber, kKiB, kMiB, "what one read fetches and unpacks",
            [](Table& t, const std::string& v) { t.block_size = Number(v); }),
      table(
          "filter_policy", K::kFilter, 1, 30,
          "tells most tables that do not have a key: bloomfilter:BITS is quick, ribbonfilter:BITS "
          "a third smaller, none",
          SetFilter),
      table("cache_index_and_filter_blocks", K::kFlag, 0, 0,
            "count index and filter blocks against the block cache",
            [](Table& t, const std::string& v) {
              t.cache_index_and_filter_blocks = Flag(v);
              t.cache_index_and_filter_blocks_with_high_priority = true;
              t.pin_l0_filter_and_index_blocks_in_cache = true;
            }),
      table("optimize_filters_for_memory", K::kFlag, 0, 0, "round filters to what malloc gives",
            [](Table& t, const std::string& v) { t.optimize_filters_for_memory = Flag(v); }),
      table("block_restart_interval", K::kNumber, 1, 256,
            "keys between two that are spelled in full",
            [](Table& t, const std::string& v) { t.block_restart_interval = Small(v); }),
  };
}

}  // namespace

const std::vector<EngineSpec>& EngineCatalog() {
  static const std::vector<EngineSpec> catalog = [] {
    std::vector<EngineSpec> all = MakeLarder();
    for (auto& part : {MakeDatabase(), MakeFamily(), MakeTable()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return catalog;
}

const EngineSpec* FindEngineSpec(EngineSection section, std::string_view name) {
  for (const EngineSpec& spec : EngineCatalog()) {
    if (spec.section == section && name == spec.name) return &spec;
  }
  return nullptr;
}

std::string WhyNot(std::string_view name, std::string_view value) {
  if (name == "compaction_style" && value.find("FIFO") != std::string_view::npos) {
    return "FIFO drops the oldest rows, and every row of a store is still needed";
  }
  static constexpr std::array<std::string_view, 12> kSound = {"atomic_flush",
                                                              "wal_recovery_mode",
                                                              "manual_wal_flush",
                                                              "unordered_write",
                                                              "disable_wal",
                                                              "disableWAL",
                                                              "allow_2pc",
                                                              "two_write_queues",
                                                              "paranoid_checks",
                                                              "recycle_log_file_num",
                                                              "ttl",
                                                              "best_efforts_recovery"};
  for (const std::string_view sound : kSound) {
    if (name == sound) {
      return "larder's promise that a crash leaves a prefix of the commits rests on it, so it "
             "cannot be changed";
    }
  }
  return {};
}

void ApplyToDatabase(const EngineOptions& engine, rocksdb::DBOptions& options) {
  for (const auto& [place, value] : engine.values()) {
    if (place.section != EngineSection::kDatabase) continue;
    FindEngineSpec(place.section, place.name)->set_db(options, value);
  }
}

void ApplyToFamily(const EngineOptions& engine, std::string_view family,
                   rocksdb::ColumnFamilyOptions& options, rocksdb::BlockBasedTableOptions& table) {
  for (const std::string_view scope : {std::string_view("*"), family}) {
    for (const auto& [place, value] : engine.values()) {
      if (place.family != scope) continue;
      const EngineSpec* const spec = FindEngineSpec(place.section, place.name);
      if (place.section == EngineSection::kFamily) spec->set_family(options, value);
      if (place.section == EngineSection::kTable) spec->set_table(table, value);
    }
  }
}

}  // namespace larder
