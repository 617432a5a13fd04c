#include "tuning/candidate.h"

#include <utility>

namespace larder::tuning {
namespace {

using Settings = std::vector<std::pair<const char*, const char*>>;

struct Change {
  const char* name;
  Settings settings;
  bool small = false;  // in the small matrix too
};

const std::vector<Change>& Changes() {
  static const std::vector<Change> changes = {
      // How much is gathered in memory before it is written out, and how long the log gets.
      {"memtables 10%", {{"larder.memtable_percent", "10"}}},
      {"memtables 30%", {{"larder.memtable_percent", "30"}}},
      {"memtables 40%", {{"larder.memtable_percent", "40"}}, true},
      {"log 4M", {{"larder.max_log_bytes", "4M"}}, true},
      {"log 8M", {{"larder.max_log_bytes", "8M"}}},
      {"log 16M", {{"larder.max_log_bytes", "16M"}}},
      {"log 256M", {{"larder.max_log_bytes", "256M"}}},
      {"log compressed", {{"db.wal_compression", "kZSTD"}}},
      {"arenas 1M", {{"*.arena_block_size", "1M"}}},
      {"arenas 256K", {{"*.arena_block_size", "256K"}}},
      {"three memtables", {{"*.max_write_buffer_number", "3"}}},
      // When and what is compacted.
      {"universal", {{"*.compaction_style", "kCompactionStyleUniversal"}}, true},
      {"universal objects", {{"objects.compaction_style", "kCompactionStyleUniversal"}}},
      {"universal tight",
       {{"*.compaction_style", "kCompactionStyleUniversal"},
        {"*.universal_max_size_amplification_percent", "50"}}},
      {"static levels", {{"*.level_compaction_dynamic_level_bytes", "false"}}},
      {"level 0 at 2", {{"*.level0_file_num_compaction_trigger", "2"}}},
      {"level 0 at 8", {{"*.level0_file_num_compaction_trigger", "8"}}},
      {"queues level 0 at 4", {{"queues.level0_file_num_compaction_trigger", "4"}}},
      {"queues level 0 at 8", {{"queues.level0_file_num_compaction_trigger", "8"}}},
      {"tables 8M", {{"*.target_file_size_base", "8M"}}},
      {"tables 64M", {{"*.target_file_size_base", "64M"}}},
      {"level base 16M", {{"*.max_bytes_for_level_base", "16M"}}},
      {"level base 256M", {{"*.max_bytes_for_level_base", "256M"}}},
      {"oldest first", {{"*.compaction_pri", "kOldestSmallestSeqFirst"}}},
      {"one job", {{"db.max_background_jobs", "1"}}},
      {"four jobs", {{"db.max_background_jobs", "4"}}},
      {"32 MB/s", {{"db.rate_limiter_bytes_per_sec", "32M"}}},
      // How tables are laid out.
      {"blocks 2K", {{"objects.table.block_size", "2K"}}},
      {"blocks 8K", {{"objects.table.block_size", "8K"}}},
      {"blocks 16K", {{"objects.table.block_size", "16K"}}},
      {"small index blocks", {{"indexes.table.block_size", "4K"}}},
      {"ribbon", {{"*.table.filter_policy", "ribbonfilter:10"}}},
      {"bloom 15", {{"*.table.filter_policy", "bloomfilter:15"}}},
      {"no filters", {{"*.table.filter_policy", "none"}}},
      {"indexes cached", {{"*.table.cache_index_and_filter_blocks", "true"}}},
      // Compression of blocks, and of values by themselves.
      {"indexes LZ4", {{"indexes.compression", "kLZ4Compression"}}},
      {"indexes plain", {{"indexes.compression", "kNoCompression"}}},
      {"indexes zstd 6", {{"indexes.compression_level", "6"}}},
      {"indexes by level",
       {{"indexes.compression_per_level", "kNoCompression:kNoCompression:kZSTD"}}},
      {"objects zstd too", {{"objects.compression", "kZSTD"}, {"objects.table.block_size", "16K"}}},
      {"blocks instead of values",
       {{"larder.value_compression", "false"},
        {"objects.compression", "kZSTD"},
        {"objects.compression_level", "3"},
        {"objects.compression_dict_bytes", "64K"},
        {"objects.table.block_size", "16K"}},
       true},
      {"dictionary 16K", {{"larder.dictionary_bytes", "16K"}}},
      {"dictionary 112K", {{"larder.dictionary_bytes", "112K"}}},
      {"no dictionary", {{"larder.dictionary_bytes", "0"}}},
      {"values zstd 1", {{"larder.value_compression_level", "1"}}},
      {"values zstd 6", {{"larder.value_compression_level", "6"}}},
      // Large values apart from the keys.
      {"blobs",
       {{"objects.enable_blob_files", "true"},
        {"objects.min_blob_size", "256"},
        {"objects.blob_file_size", "16M"},
        {"objects.enable_blob_garbage_collection", "true"}}},
      // How soon a relaxed commit is on the disk.
      {"sync 250 ms", {{"larder.sync_interval_ms", "250"}}},
  };
  return changes;
}

EngineOptions Make(const Settings& settings) {
  EngineOptions options;
  // They are ours and spelled right: a test sets them all.
  for (const auto& [name, value] : settings) LARDER_CHECK(options.Set(name, value).has_value());
  return options;
}

Candidate Baseline(const char* name, EngineOptions engine) {
  Candidate candidate;
  candidate.name = name;
  candidate.engine = std::move(engine);
  candidate.baseline = true;
  return candidate;
}

std::vector<Candidate> Matrix(const EngineOptions& current, bool small) {
  std::vector<Candidate> out = {Baseline(kCurrentName, current)};
  if (!current.Empty()) out.push_back(Baseline(kLarderName, {}));
  EngineOptions rocksdb;
  rocksdb.rocksdb_defaults = true;
  out.push_back(Baseline(kRocksDbName, rocksdb));
  out.push_back(
      Baseline(kRocksDbValuesName, rocksdb.With(Make({{"larder.value_compression", "true"}}))));
  for (const Change& change : Changes()) {
    if (small && !change.small) continue;
    Candidate candidate;
    candidate.name = change.name;
    candidate.change = Make(change.settings);
    candidate.engine = current.With(candidate.change);
    candidate.changes = 1;
    // Nothing new where the store has it already.
    if (candidate.engine != current) out.push_back(std::move(candidate));
  }
  return out;
}

}  // namespace

std::vector<Candidate> MakeMatrix(const EngineOptions& current) { return Matrix(current, false); }
std::vector<Candidate> MakeSmallMatrix(const EngineOptions& current) {
  return Matrix(current, true);
}

Result<Candidate> Combine(const EngineOptions& current, const Candidate& a, const Candidate& b) {
  for (const auto& [place, value] : b.change.values()) {
    if (a.change.values().contains(place)) {
      return MakeError(ErrorCode::kInvalidArgument, "{} and {} both change {}", a.name, b.name,
                       EngineOptions::ShortName(place));
    }
  }
  Candidate out;
  out.name = a.name + " + " + b.name;
  out.change = a.change.With(b.change);
  out.engine = current.With(out.change);
  out.changes = a.changes + b.changes;
  return out;
}

}  // namespace larder::tuning
