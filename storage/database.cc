#include "storage/database.h"

#include <fcntl.h>
#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_manager.h>
#include <rocksdb/table.h>
#include <rocksdb/write_buffer_manager.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace larder {
namespace {

namespace fs = std::filesystem;

// Who holds the lock: the kernel knows, so nothing can be stale.
pid_t LockOwner(const std::string& path) {
  const int fd = ::open((path + "/LOCK").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return 0;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool known = ::fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  ::close(fd);
  return known ? lock.l_pid : 0;
}

bool LooksLikeStore(const std::string& path) { return fs::exists(fs::path(path) / "CURRENT"); }

Result<void> CheckPermissions(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return MakeError(ErrorCode::kIo, "store {}: {}", path, std::strerror(errno));
  }
  if ((info.st_mode & 077) != 0) {
    return MakeError(ErrorCode::kForbidden,
                     "store {} can be read by others (mode {:o}); run: chmod 700 {}", path,
                     info.st_mode & 0777, path);
  }
  if (info.st_uid != ::geteuid()) {
    return MakeError(ErrorCode::kForbidden,
                     "store {} belongs to uid {}, and this process runs as uid {}", path,
                     info.st_uid, ::geteuid());
  }
  return {};
}

Result<void> PrepareDirectory(const StoreOptions& options, Database::Mode mode) {
  if (options.path.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "no directory given for the store");
  }
  std::error_code error;
  const bool exists = fs::exists(options.path, error);
  if (exists && !fs::is_directory(options.path, error)) {
    return MakeError(ErrorCode::kInvalidArgument, "{} is a file, not a store's directory",
                     options.path);
  }
  const bool may_create = mode == Database::Mode::kOwner && options.create_if_missing;
  if (!exists) {
    if (!may_create) {
      return MakeError(ErrorCode::kNotFound, "no store at {}: no such directory", options.path);
    }
    fs::create_directories(fs::path(options.path).parent_path(), error);
    if (::mkdir(options.path.c_str(), 0700) != 0 && errno != EEXIST) {
      return MakeError(errno == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
                       "cannot make the store's directory {}: {}", options.path,
                       std::strerror(errno));
    }
    return {};
  }
  if (!LooksLikeStore(options.path)) {
    if (!fs::is_empty(options.path, error) && !error) {
      return MakeError(
          ErrorCode::kInvalidArgument,
          "{} is not a larder store (it has files but no CURRENT); choose an empty directory",
          options.path);
    }
    if (!may_create)
      return MakeError(ErrorCode::kNotFound, "no store at {}: it is empty", options.path);
    if (::chmod(options.path.c_str(), 0700) != 0) {
      return MakeError(ErrorCode::kForbidden, "cannot set mode 700 on {}: {}", options.path,
                       std::strerror(errno));
    }
    return {};
  }
  return CheckPermissions(options.path);
}

rocksdb::DBOptions MakeDbOptions(const StoreOptions& options, rocksdb::Env* env,
                                 const std::shared_ptr<rocksdb::Cache>& cache) {
  const MemoryBudget budget = DivideMemory(options.memory_limit);
  rocksdb::DBOptions db;
  db.env = env;
  db.create_if_missing = options.create_if_missing;
  db.create_missing_column_families = true;
  db.atomic_flush = true;
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  db.max_total_wal_size = options.max_log_bytes;
  db.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(budget.memtables, cache);
  db.max_background_jobs = 2;
  db.max_open_files = -1;
  db.skip_stats_update_on_db_open = true;
  db.avoid_unnecessary_blocking_io = true;
  db.bytes_per_sync = size_t{1} << 20;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.keep_log_file_num = 3;
  db.max_log_file_size = size_t{1} << 20;
  db.max_manifest_file_size = size_t{4} << 20;
  db.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  db.sst_file_manager.reset(rocksdb::NewSstFileManager(env));
  return db;
}

rocksdb::ColumnFamilyOptions MakeFamilyOptions(Family family, const StoreOptions& options,
                                               const std::shared_ptr<rocksdb::Cache>& cache,
                                               rocksdb::CompactionFilterFactory* filter) {
  const MemoryBudget budget = DivideMemory(options.memory_limit);
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  table.checksum = rocksdb::kXXH3;
  rocksdb::ColumnFamilyOptions cf;
  cf.write_buffer_size = budget.memtables;
  cf.max_write_buffer_number = 2;
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
  if (family == Family::kQueues) {
    // Work is added and soon removed: compact as soon as tombstones gather.
    cf.level0_file_num_compaction_trigger = 2;
  }
  cf.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return cf;
}

Error OpenError(const rocksdb::Status& status, const StoreOptions& options) {
  if (status.IsIOError() && status.ToString().find("lock") != std::string::npos) {
    const pid_t owner = LockOwner(options.path);
    const std::string who = owner > 0 ? fmt::format("the process with pid {}", owner)
                                      : std::string("this process, which has it open already");
    return Error{
        ErrorCode::kLocked,
        fmt::format("store {} is in use by {}; one process owns a store, others open it read-only",
                    options.path, who),
        {},
        {}};
  }
  return FromRocks(status, fmt::format("cannot open the store {}", options.path));
}

}  // namespace

MemoryBudget DivideMemory(size_t memory_limit) {
  const size_t floor = size_t{1} << 20;
  return {std::max(floor, memory_limit * 35 / 100), std::max(floor, memory_limit * 25 / 100),
          std::max(floor, memory_limit * 20 / 100)};
}

Error FromRocks(const rocksdb::Status& status, std::string_view what) {
  ErrorCode code = ErrorCode::kIo;
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::SubCode::kSpaceLimit) {
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

Result<std::shared_ptr<Database>> Database::Open(const StoreOptions& options, Mode mode,
                                                 rocksdb::Env* env,
                                                 rocksdb::CompactionFilterFactory* filter) {
  std::shared_ptr<Database> database(new Database());
  database->mode_ = mode;
  if (options.in_memory) {
    database->memory_env_.reset(rocksdb::NewMemEnv(rocksdb::Env::Default()));
    env = database->memory_env_.get();
  } else {
    LARDER_RETURN_IF_ERROR(PrepareDirectory(options, mode));
  }
  if (!env) env = rocksdb::Env::Default();

  const auto cache = rocksdb::NewLRUCache(DivideMemory(options.memory_limit).block_cache +
                                          DivideMemory(options.memory_limit).memtables);
  std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}};
  for (size_t i = 0; i < kFamilyNames.size(); ++i) {
    families.emplace_back(std::string(kFamilyNames[i]),
                          MakeFamilyOptions(static_cast<Family>(i), options, cache, filter));
  }
  rocksdb::DBOptions db_options = MakeDbOptions(options, env, cache);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  rocksdb::Status status;
  if (mode == Mode::kOwner) {
    status = rocksdb::DB::Open(db_options, options.path, families, &handles, &db);
  } else {
    std::string scratch = (fs::temp_directory_path() / "larder-reader-XXXXXX").string();
    if (!::mkdtemp(scratch.data())) {
      return MakeError(ErrorCode::kIo, "cannot make a scratch directory {}: {}", scratch,
                       std::strerror(errno));
    }
    database->reader_scratch_ = scratch;
    db_options.create_if_missing = false;
    db_options.create_missing_column_families = false;
    db_options.sst_file_manager.reset();
    status =
        rocksdb::DB::OpenAsSecondary(db_options, options.path, scratch, families, &handles, &db);
  }
  if (!status.ok()) return tl::unexpected(OpenError(status, options));
  database->db_.reset(db);
  database->default_handle_ = handles[0];
  for (size_t i = 0; i < kFamilyNames.size(); ++i) database->handles_[i] = handles[i + 1];
  return database;
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
