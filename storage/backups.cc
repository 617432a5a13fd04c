// Backups of a store.
#include <rocksdb/utilities/backup_engine.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "storage/backup_lock.h"
#include "storage/directory.h"
#include "storage/maintenance.h"
#include "storage/replace.h"
#include "storage/store_impl.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

// What a first backup leaves that was cut off before it was one: our lock, and directories that
// RocksDB makes before its own "meta".
bool IsOfAFirstBackup(const fs::directory_entry& entry) {
  const fs::path name = entry.path().filename();
  if (name == BackupLock::kFile) return true;
  std::error_code error;
  return (name == "shared_checksum" || name == "private") && fs::is_empty(entry.path(), error) &&
         !error;
}

// Makes the directory where `create` says so and nothing else is there.
Result<void> FindBackups(const std::string& path, bool create) {
  std::error_code error;
  const bool there = fs::exists(path + "/meta", error);
  if (error) return MakeError(ErrorCode::kIo, "cannot read {}: {}", path, error.message());
  if (!there) {  // RocksDB would make it, wherever that is
    if (!create) return MakeError(ErrorCode::kNotFound, "no backups at {}", path);
    const auto entries = EntriesOf(path, error);
    const bool empty = !error && std::all_of(entries.begin(), entries.end(), IsOfAFirstBackup);
    if (!fs::exists(path, error)) {
      LARDER_RETURN_IF_ERROR(MakePrivateDirectory(path));
    } else if (!empty) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} is not empty and holds no backups; name a new directory", path);
    }
  }
  return CheckPermissions(path, create);
}

template <typename Engine>
struct Backups {
  BackupLock lock;
  std::unique_ptr<Engine> engine;
};

// Who opens them for writing removes what is left of unfinished ones, and so may be but one.
template <typename Engine>
Result<Backups<Engine>> OpenBackups(const std::string& path, BackupLock::Use use) {
  LARDER_RETURN_IF_ERROR(FindBackups(path, use == BackupLock::kAdding));
  LARDER_ASSIGN_OR_RETURN(BackupLock lock, BackupLock::Take(path, use));
  rocksdb::BackupEngineOptions options(path);
  options.share_files_with_checksum = true;
  Engine* raw = nullptr;
  const auto status = Engine::Open(rocksdb::Env::Default(), options, &raw);
  if (!status.ok()) {
    return tl::unexpected(FromRocks(status, fmt::format("opening the backups at {}", path)));
  }
  return Backups<Engine>{std::move(lock), std::unique_ptr<Engine>(raw)};
}

Result<Backups<rocksdb::BackupEngineReadOnly>> ReadBackups(const std::string& path) {
  return OpenBackups<rocksdb::BackupEngineReadOnly>(path, BackupLock::kReading);
}

// Backups within a store would go with it, and the other way round.
Result<void> CheckApart(const std::string& store_path, const std::string& backup_path) {
  std::error_code error;
  const fs::path store = fs::weakly_canonical(store_path, error);
  const fs::path backups = fs::weakly_canonical(backup_path, error);
  const bool around =
      std::mismatch(backups.begin(), backups.end(), store.begin(), store.end()).first ==
      backups.end();
  bool within = false;
  for (fs::path above = backups; above.has_relative_path(); above = above.parent_path()) {
    within = within || HasDatabase(above.string());
  }
  if (!around && !within) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "backups must not lie within a store, nor a store within its backups: name "
                   "another directory than {}",
                   backup_path);
}

BackupInfo Describe(const rocksdb::BackupInfo& info) {
  return {info.backup_id, info.timestamp * 1000, info.size};
}

}  // namespace

Result<BackupInfo> CreateBackup(Store& store, const std::string& backup_path) {
  Store::Impl& impl = store.impl();
  LARDER_RETURN_IF_ERROR(impl.RequireOnDisk());
  LARDER_RETURN_IF_ERROR(CheckApart(impl.options.path, backup_path));
  const auto database = impl.database();
  if (!database) return tl::unexpected(impl.Unavailable());
  // A copy of what is damaged would be in the way of good ones.
  if (const auto sound = (*database)->VerifyChecksum(); !sound.ok()) {
    return tl::unexpected(FromRocks(
        sound, fmt::format("the store {} is damaged, no backup is made of it", impl.options.path)));
  }
  LARDER_ASSIGN_OR_RETURN(const auto backups,
                          OpenBackups<rocksdb::BackupEngine>(backup_path, BackupLock::kAdding));
  rocksdb::CreateBackupOptions how;
  how.flush_before_backup = true;
  rocksdb::BackupID id = 0;
  const auto status = backups.engine->CreateNewBackup(how, database->get(), &id);
  if (!status.ok()) {
    return tl::unexpected(FromRocks(status, fmt::format("backing up to {}", backup_path)));
  }
  rocksdb::BackupInfo info;
  (void)backups.engine->GetBackupInfo(id, &info);
  return Describe(info);
}

Result<std::vector<BackupInfo>> ListBackups(const std::string& backup_path) {
  LARDER_ASSIGN_OR_RETURN(const auto backups, ReadBackups(backup_path));
  std::vector<rocksdb::BackupInfo> infos;
  backups.engine->GetBackupInfo(&infos);
  std::vector<BackupInfo> out;
  out.reserve(infos.size());
  for (const rocksdb::BackupInfo& info : infos) out.push_back(Describe(info));
  return out;
}

Result<void> PurgeBackups(const std::string& backup_path, uint32_t keep) {
  LARDER_ASSIGN_OR_RETURN(const auto backups,
                          OpenBackups<rocksdb::BackupEngine>(backup_path, BackupLock::kRemoving));
  const auto status = backups.engine->PurgeOldBackups(keep);
  if (!status.ok()) return tl::unexpected(FromRocks(status, "removing old backups"));
  return {};
}

Result<void> VerifyBackup(const std::string& backup_path, uint32_t id) {
  LARDER_ASSIGN_OR_RETURN(const auto backups, ReadBackups(backup_path));
  const auto status = backups.engine->VerifyBackup(id, /*verify_with_checksum=*/true);
  if (!status.ok()) {
    return tl::unexpected(FromRocks(status, fmt::format("backup {} at {}", id, backup_path)));
  }
  return {};
}

Result<void> RestoreBackup(const StoreOptions& options, const std::string& backup_path,
                           uint32_t id) {
  LARDER_RETURN_IF_ERROR(CheckApart(options.path, backup_path));
  LARDER_ASSIGN_OR_RETURN(auto backups, ReadBackups(backup_path));
  std::error_code error;
  const std::string what =
      fmt::format("backup {} of {}", id, fs::absolute(backup_path, error).string());
  return ReplaceStore(options, what, [&](const std::string& incoming) -> Result<void> {
    const auto status = id == 0 ? backups.engine->RestoreDBFromLatestBackup(incoming, incoming)
                                : backups.engine->RestoreDBFromBackup(id, incoming, incoming);
    backups.engine.reset();  // its threads go on copying after a failure
    if (!status.ok()) {
      return tl::unexpected(
          FromRocks(status, fmt::format("restoring from the backups at {}", backup_path)));
    }
    return {};
  });
}

}  // namespace larder
