#include "storage/database.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_manager.h>
#include <rocksdb/table.h>
#include <rocksdb/write_buffer_manager.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "storage/directory.h"
#include "storage/engine_catalog.h"
#include "storage/log_order.h"
#include "storage/manifest_guard.h"
#include "storage/rocks_logger.h"
#include "storage/table_reads.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

rocksdb::DBOptions MakeDbOptions(const StoreOptions& options, rocksdb::Env* env,
                                 const std::shared_ptr<rocksdb::Cache>& cache) {
  const MemoryBudget budget = DivideMemory(options.memory_limit, options.memtable_percent);
  rocksdb::DBOptions db;
  db.env = env;
  db.create_if_missing = options.create_if_missing;
  db.create_missing_column_families = true;
  db.atomic_flush = true;
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  db.info_log = MakeRocksLogger();
  if (options.engine.rocksdb_defaults) return db;
  db.max_total_wal_size = options.max_log_bytes;
  db.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(budget.memtables, cache);
  db.max_background_jobs = 2;
  db.max_open_files = -1;
  // Files are few; starting sixteen threads per family to open them costs more than opening them.
  db.max_file_opening_threads = 1;
  // A start reads the log into memory and goes on; writing it out as tables first would only delay
  // it.
  db.avoid_flush_during_recovery = true;
  db.skip_stats_update_on_db_open = true;
  db.avoid_unnecessary_blocking_io = true;
  db.bytes_per_sync = size_t{1} << 20;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.max_manifest_file_size = size_t{4} << 20;
  db.sst_file_manager.reset(rocksdb::NewSstFileManager(env));
  ApplyToDatabase(options.engine, db);
  return db;
}

rocksdb::ColumnFamilyOptions MakeFamilyOptions(Family family, const StoreOptions& options,
                                               const std::shared_ptr<rocksdb::Cache>& cache,
                                               rocksdb::CompactionFilterFactory* filter) {
  if (options.engine.rocksdb_defaults) return {};
  const MemoryBudget budget = DivideMemory(options.memory_limit, options.memtable_percent);
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  table.checksum = rocksdb::kXXH3;
  // Index and filter blocks grow with the number of objects. They stay in memory, because a get
  // that finds them in the cache takes a fifth longer, and one that does not ten times as long; but
  // the cache has that much less room for the rest, so that the limit holds all the same.
  for (const auto role : {rocksdb::CacheEntryRole::kBlockBasedTableReader,
                          rocksdb::CacheEntryRole::kFilterConstruction}) {
    table.cache_usage_options.options_overrides[role].charged =
        rocksdb::CacheEntryRoleOptions::Decision::kEnabled;
  }
  // Keys in an index block are written as what differs from the one in front: less memory, for a
  // few percent of a get.
  table.index_block_restart_interval = 16;
  rocksdb::ColumnFamilyOptions cf;
  cf.write_buffer_size = budget.memtables;
  cf.max_write_buffer_number = 2;
  // RocksDB would take 1 MiB at once for each of the five families, most of it never used: half of
  // a small budget for memtables (docs/tuning.md).
  cf.arena_block_size = size_t{64} << 10;
  cf.level_compaction_dynamic_level_bytes = true;
  cf.target_file_size_base = size_t{32} << 20;
  cf.max_bytes_for_level_base = size_t{64} << 20;
  if (family == Family::kObjects) {
    // Values are compressed one by one already, and a get must not unpack a whole block.
    table.block_size = size_t{4} << 10;
    cf.compression = rocksdb::kNoCompression;
    if (filter) cf.compaction_filter_factory.reset(filter, [](auto*) {});
  } else {
    table.block_size = size_t{16} << 10;
    cf.compression = rocksdb::kZSTD;
    cf.compression_opts.level = 1;
  }
  if (family == Family::kIndexes) {
    // Read by ranges alone, to which a filter says nothing.
    table.filter_policy.reset();
    // Each flush of a list brings a small table over the whole range: merged half as often they are
    // half of the work.
    cf.level0_file_num_compaction_trigger = 8;
  }
  if (family == Family::kQueues) {
    // Work is added and soon removed: compact as soon as tombstones gather.
    cf.level0_file_num_compaction_trigger = 2;
  }
  ApplyToFamily(options.engine, kFamilyNames[static_cast<size_t>(family)], cf, table);
  cf.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return cf;
}

// So often a store is opened anew whose owner began another log or manifest meanwhile.
constexpr int kOpenings = 20;

bool IsLockError(const std::string& text) {
  return text.find("While lock file") != std::string::npos ||
         text.find("lock hold by current process") != std::string::npos;
}

Error OpenError(const rocksdb::Status& status, const StoreOptions& options) {
  if (status.IsIOError() && IsLockError(status.ToString())) {
    return InUse(options.path);
  }
  return FromRocks(status, fmt::format("cannot open the store {}", options.path));
}

// Refuses what is not ours before anything is written into it: a database of somebody else, or a
// store of a newer larder, which may have families that this one does not know. And a manifest that
// knows nothing of the rows beside it, as RocksDB's own repair begins with: opened, it would have
// them all removed.
Result<void> CheckFamilies(const StoreOptions& options, rocksdb::Env* env) {
  rocksdb::DBOptions db_options;
  db_options.env = env;
  std::vector<std::string> names;
  // Before the manifest is read: another process may be making the store, the families first.
  const bool has_rows = HasRows(options.path);
  if (!rocksdb::DB::ListColumnFamilies(db_options, options.path, &names).ok()) return {};
  const auto known = [](const std::string& name) {
    return name == rocksdb::kDefaultColumnFamilyName ||
           std::find(kFamilyNames.begin(), kFamilyNames.end(), name) != kFamilyNames.end();
  };
  const bool has_meta = std::find(names.begin(), names.end(), "meta") != names.end();
  if (has_meta && std::all_of(names.begin(), names.end(), known)) return {};

  std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}};
  if (has_meta) families.emplace_back("meta", rocksdb::ColumnFamilyOptions());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(db_options, options.path, families, &handles, &raw);
  if (!status.ok()) return tl::unexpected(OpenError(status, options));
  std::unique_ptr<rocksdb::DB> db(raw);
  std::string format;
  bool empty = true;
  if (has_meta) {
    (void)db->Get({}, handles[1], rocksdb::Slice(kFormatKey.data(), kFormatKey.size()), &format);
  } else {
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}, handles[0]));
    it->SeekToFirst();
    empty = !it->Valid() && names.size() == 1;
  }
  for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  if (!has_meta && empty && has_rows) {
    return MakeError(ErrorCode::kCorruption,
                     "store {0} has tables or logs that its manifest does not name; save what is "
                     "sound with: larder verify --repair --store {0}",
                     options.path);
  }
  // Nothing in it yet: the process that made it died before the families were there.
  if (!has_meta && empty) return {};
  if (format.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is a RocksDB database, but not a larder store", options.path);
  }
  return NewerFormat(options.path, format);
}

// The logs in a store's directory, in order.
std::vector<LogFile> LogsIn(const std::string& path) {
  std::vector<LogFile> out;
  std::error_code ignored;
  for (const auto& entry : EntriesOf(path, ignored)) {
    if (entry.path().extension() != ".log") continue;
    const std::string name = entry.path().stem().string();
    LogFile log;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), log.number);
    struct stat info {};
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size() ||
        ::stat(entry.path().c_str(), &info) != 0) {
      continue;
    }
    log.inode = info.st_ino;
    out.push_back(log);
  }
  std::sort(out.begin(), out.end());
  return out;
}

LogFile NewestOf(const std::vector<LogFile>& logs) {
  return logs.empty() ? LogFile() : logs.back();
}

// Which manifest is the store's.
std::string ManifestOf(const std::string& path) { return ReadWholeFile(path + "/CURRENT"); }

using FamilyList = std::vector<rocksdb::ColumnFamilyDescriptor>;
using HandleList = std::vector<rocksdb::ColumnFamilyHandle*>;

// Makes the families of a new database at once. DB::Open would make them one after the other, and
// for each write its file of options, read it back and sync it: half of what a new store takes.
rocksdb::Status CreateDatabase(const rocksdb::DBOptions& db_options, const std::string& path,
                               const FamilyList& families, HandleList& handles, rocksdb::DB*& db) {
  rocksdb::Status status = rocksdb::DB::Open(db_options, path, {families.front()}, &handles, &db);
  if (!status.ok()) return status;
  HandleList made;
  status = db->CreateColumnFamilies({families.begin() + 1, families.end()}, &made);
  handles.insert(handles.end(), made.begin(), made.end());
  if (status.ok()) return status;
  for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  handles.clear();
  delete db;
  db = nullptr;
  return status;
}

}  // namespace

MemoryBudget DivideMemory(size_t memory_limit, unsigned memtable_percent) {
  constexpr size_t kFloor = size_t{1} << 20;
  constexpr unsigned kCacheAndMemtables = 45;
  const unsigned memtables = std::clamp(memtable_percent, 5U, 40U);
  return {std::max(kFloor, memory_limit * 35 / 100),
          std::max(kFloor, memory_limit * (kCacheAndMemtables - memtables) / 100),
          std::max(kFloor, memory_limit * memtables / 100)};
}

tl::unexpected<Error> NewerFormat(const std::string& path, std::string_view format) {
  return MakeError(
      ErrorCode::kUnsupported,
      "store {} has format {}, and this larder reads formats up to {}; use a newer larder", path,
      format, kFormat);
}

Error FromRocks(const rocksdb::Status& status, std::string_view what) {
  ErrorCode code = ErrorCode::kIo;
  // A write that waited for a flush comes back as "incomplete", and only its text has the reason.
  const bool waited_for_room =
      status.IsIncomplete() && status.ToString().find(std::strerror(ENOSPC)) != std::string::npos;
  if (status.IsNoSpace() || waited_for_room ||
      status.subcode() == rocksdb::Status::SubCode::kSpaceLimit) {
    code = ErrorCode::kNoSpace;
  } else if (status.IsCorruption()) {
    code = ErrorCode::kCorruption;
  } else if (status.IsNotFound()) {
    code = ErrorCode::kNotFound;
  } else if (status.IsNotSupported() || status.IsInvalidArgument()) {
    code = ErrorCode::kInternal;
  }
  return Error{code, fmt::format("{}: {}", what, status.ToString()), {}, {}};
}

// Who only reads may have an owner beside him. RocksDB reads the manifest, then opens every table,
// then lists the logs: of what the owner flushes meanwhile it finds neither the tables nor the log,
// and goes on with the next log, without a word. Of tables that the owner compacts meanwhile a
// secondary finds at the end of the manifest what they became; but where the owner has begun
// another manifest it takes their family as it was before them, without a word, too.
Result<std::shared_ptr<Database>> Database::Open(const StoreOptions& options, Mode mode,
                                                 rocksdb::Env* env,
                                                 rocksdb::CompactionFilterFactory* filter,
                                                 std::shared_ptr<rocksdb::EventListener> listener,
                                                 const std::shared_ptr<OwnerLock>& lock,
                                                 std::optional<uint64_t> committed_through) {
  for (int tries = 0; tries < kOpenings; ++tries) {
    const bool alone = mode == Mode::kOwner || options.in_memory;
    const std::vector<LogFile> before = alone ? std::vector<LogFile>() : LogsIn(options.path);
    const std::string manifest = alone ? std::string() : ManifestOf(options.path);
    auto opened = OpenOnce(options, mode, env, filter, listener, lock, committed_through);
    if (!opened || alone) return opened;
    const std::vector<LogFile> after = LogsIn(options.path);
    if (ManifestOf(options.path) == manifest &&
        std::includes(after.begin(), after.end(), before.begin(), before.end())) {
      (*opened)->newest_log_ = NewestOf(before);
      return opened;
    }
  }
  return MakeError(ErrorCode::kNotReady,
                   "store {}: its owner writes faster than it can be opened beside it; try again",
                   options.path);
}

// What a secondary has read of a log stays in its memory, and is asked first, until a later log has
// something of the same family: once the owner has flushed, that is older than what the tables
// have. RocksDB has no way to drop it. And where another store was put in the place of this one,
// from a snapshot or by a repair, RocksDB must not look at it: its tables have the numbers of
// others that are open here, and an assertion holds that no manifest goes back.
Result<bool> Database::CatchUp() {
  const auto follows = [this] { return NewestOf(LogsIn(path_)) == newest_log_; };
  if (!follows()) return false;
  const rocksdb::Status status = db_->TryCatchUpWithPrimary();
  if (!status.ok()) {
    return tl::unexpected(FromRocks(status, fmt::format("following the store {}", path_)));
  }
  // Once more: a flush that was seen has begun its log before.
  return follows();
}

Result<std::shared_ptr<Database>> Database::OpenOnce(
    const StoreOptions& options, Mode mode, rocksdb::Env* env,
    rocksdb::CompactionFilterFactory* filter, std::shared_ptr<rocksdb::EventListener> listener,
    const std::shared_ptr<OwnerLock>& lock, std::optional<uint64_t> committed_through) {
  std::shared_ptr<Database> database(new Database());
  database->mode_ = mode;
  database->path_ = options.path;
  const bool owner = mode == Mode::kOwner;
  if (options.in_memory) {
    database->memory_env_.reset(rocksdb::NewMemEnv(rocksdb::Env::Default()));
    env = database->memory_env_.get();
  } else {
    if (!env) env = rocksdb::Env::Default();
    LARDER_RETURN_IF_ERROR(
        PrepareDirectory(options.path, owner && options.create_if_missing, owner));
    if (HasDatabase(options.path)) {
      if (mode != Mode::kReader) LARDER_RETURN_IF_ERROR(ManifestGuard::Check(env, options.path));
      LARDER_RETURN_IF_ERROR(CheckFamilies(options, env));
    }
    // Behind the checks: in a directory that is not ours nothing is left.
    if (owner) {
      LARDER_RETURN_IF_ERROR(lock->Take(options.path));
      database->lock_ = lock;
    }
  }
  database->env_ = env;

  const MemoryBudget budget = DivideMemory(options.memory_limit, options.memtable_percent);
  const auto cache = rocksdb::NewLRUCache(budget.block_cache + budget.memtables);
  FamilyList families = {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}};
  for (size_t i = 0; i < kFamilyNames.size(); ++i) {
    families.emplace_back(std::string(kFamilyNames[i]),
                          MakeFamilyOptions(static_cast<Family>(i), options, cache, filter));
  }
  if (owner && !options.in_memory) {
    database->table_reads_env_ = MakeTableReadsEnv(env);
    database->log_order_env_ = MakeLogOrderEnv(database->table_reads_env_.get());
  }
  rocksdb::DBOptions db_options = MakeDbOptions(
      options, database->log_order_env_ ? database->log_order_env_.get() : env, cache);
  if (committed_through) {
    database->replay_limit_ = std::make_unique<ReplayLimit>(*committed_through);
    db_options.wal_filter = database->replay_limit_.get();
    // What was left out must not be read from the old log once more, by a start that knows nothing
    // of it: tables instead of the log.
    db_options.avoid_flush_during_recovery = false;
  }
  const std::string doubt = fmt::format("{}/{}", options.path, kDoubtFile);
  const bool in_doubt = database->log_order_env_ && env->FileExists(doubt).ok();
  if (in_doubt) {
    spdlog::warn("store {}: its disk failed to sync a log; writing what is in it as tables",
                 options.path);
    db_options.avoid_flush_during_recovery = false;
  }
  if (listener) db_options.listeners.push_back(std::move(listener));
  std::shared_ptr<ManifestGuard> guard;
  if (owner && !options.in_memory) {
    guard = std::make_shared<ManifestGuard>(env, options.path);
    db_options.listeners.push_back(guard);
  }
  if (!owner) {
    db_options.create_if_missing = false;
    db_options.create_missing_column_families = false;
    db_options.sst_file_manager.reset();
    // Read-only, RocksDB 7.8 starts no thread that would do this work later, and asserts that it
    // did.
    db_options.avoid_unnecessary_blocking_io = false;
  }
  if (mode == Mode::kReader) {
    LARDER_RETURN_IF_ERROR(database->OpenReader(options, db_options, families));
    return database;
  }
  HandleList handles;
  rocksdb::DB* db = nullptr;
  const std::string path = options.in_memory ? "/memory" : options.path;
  rocksdb::Status status = rocksdb::Status::InvalidArgument();
  if (owner && options.create_if_missing && (options.in_memory || !HasDatabase(path))) {
    status = CreateDatabase(db_options, path, families, handles, db);
  }
  // Another process may have made it in the meantime: then it has more families.
  if (status.IsInvalidArgument()) {
    status = owner ? rocksdb::DB::Open(db_options, path, families, &handles, &db)
                   : rocksdb::DB::OpenForReadOnly(db_options, path, families, &handles, &db);
  }
  LARDER_RETURN_IF_ERROR(database->Adopt(status, options, db, handles));
  if (guard) guard->Note(*database->get());  // opening made a new manifest
  // One that stays costs the next start a flush.
  if (in_doubt) env->DeleteFile(doubt).PermitUncheckedError();
  return database;
}

// A secondary needs a directory of its own, for its log.
Result<void> Database::OpenReader(const StoreOptions& options, const rocksdb::DBOptions& db_options,
                                  const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  if (error) {
    return MakeError(ErrorCode::kIo,
                     "reading the store {} beside its owner needs a directory for temporary files, "
                     "and there is none ({}); set TMPDIR",
                     options.path, error.message());
  }
  std::string scratch = (temporary / "larder-reader-XXXXXX").string();
  if (!::mkdtemp(scratch.data())) {
    return MakeError(ErrorCode::kIo, "cannot make a scratch directory {}: {}", scratch,
                     std::strerror(errno));
  }
  reader_scratch_ = std::move(scratch);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenAsSecondary(
      db_options, options.path, reader_scratch_, families, &handles, &db);
  return Adopt(status, options, db, handles);
}

Result<void> Database::Adopt(const rocksdb::Status& status, const StoreOptions& options,
                             rocksdb::DB* db,
                             const std::vector<rocksdb::ColumnFamilyHandle*>& handles) {
  if (!status.ok()) return tl::unexpected(OpenError(status, options));
  db_.reset(db);
  default_handle_ = handles[0];
  for (size_t i = 0; i < kFamilyNames.size(); ++i) handles_[i] = handles[i + 1];
  return {};
}

Database::~Database() {
  if (db_) {
    db_->DestroyColumnFamilyHandle(default_handle_);
    for (rocksdb::ColumnFamilyHandle* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
    const rocksdb::Status status = db_->Close();
    if (!status.ok()) spdlog::error("closing the store: {}", status.ToString());
    db_.reset();
  }
  if (!reader_scratch_.empty()) {
    std::error_code ignored;
    fs::remove_all(reader_scratch_, ignored);
  }
}

}  // namespace larder
