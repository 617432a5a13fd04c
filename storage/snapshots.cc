// Snapshots and backups of a store.
#include "storage/snapshots.h"

#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>

#include <algorithm>
#include <filesystem>

#include "storage/directory.h"
#include "storage/maintenance.h"
#include "storage/owner_lock.h"
#include "storage/replace.h"
#include "storage/store_impl.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

std::string SnapshotsPath(const std::string& store_path) { return store_path + "/snapshots"; }

Result<void> CheckName(const std::string& name) {
  const bool usable =
      !name.empty() && name.size() <= 100 && name[0] != '.' &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
      });
  if (usable) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "\"{}\" cannot name a snapshot; use letters, digits, '.', '-', '_'", name);
}

SnapshotInfo Describe(const fs::path& path) {
  SnapshotInfo info;
  info.name = path.filename().string();
  std::error_code error;
  for (const auto& entry : EntriesOf(path, error)) {
    const uint64_t bytes = entry.file_size(error);
    if (!error) info.bytes += bytes;
  }
  // The manifest is written when the snapshot is made and never after.
  const auto time = fs::last_write_time(path / "CURRENT", error);
  info.created_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::chrono::file_clock::to_sys(time).time_since_epoch())
                        .count();
  return info;
}

Result<void> RequireOnDisk(const Store::Impl& impl) {
  if (!impl.options.in_memory) return {};
  return MakeError(ErrorCode::kUnsupported, "store {} is in memory only", impl.options.path);
}

Result<std::string> ExistingSnapshot(const std::string& store_path, const std::string& name) {
  LARDER_RETURN_IF_ERROR(CheckName(name));
  std::string path = SnapshotsPath(store_path) + "/" + name;
  if (!HasDatabase(path)) {
    return MakeError(ErrorCode::kNotFound, "no snapshot {} of the store {}", name, store_path);
  }
  return path;
}

// Tables and logs never change once a snapshot has them, so a link is as good as a copy.
Result<void> LinkFiles(const std::string& from, const std::string& to) {
  std::error_code error;
  const auto entries = EntriesOf(from, error);
  for (const auto& entry : entries) {
    if (error) break;
    if (entry.path().filename() == kOwnerFile) continue;
    const fs::path target = fs::path(to) / entry.path().filename();
    if (entry.path().extension() == ".sst") {
      fs::create_hard_link(entry.path(), target, error);
    } else {
      fs::copy_file(entry.path(), target, error);
    }
  }
  if (!error) return {};
  return MakeError(error == std::errc::no_space_on_device ? ErrorCode::kNoSpace : ErrorCode::kIo,
                   "restoring {}: {}", from, error.message());
}

using BackupEnginePtr = std::unique_ptr<rocksdb::BackupEngine>;

Result<BackupEnginePtr> OpenBackups(const std::string& path, bool create) {
  std::error_code error;
  const bool there = fs::exists(path + "/meta", error);
  if (error) return MakeError(ErrorCode::kIo, "cannot read {}: {}", path, error.message());
  if (!there) {  // RocksDB would make it, wherever that is
    if (!create) return MakeError(ErrorCode::kNotFound, "no backups at {}", path);
    if (!fs::exists(path, error)) {
      LARDER_RETURN_IF_ERROR(MakePrivateDirectory(path));
    } else if (!fs::is_empty(path, error)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} is not empty and holds no backups; name a new directory", path);
    }
  }
  LARDER_RETURN_IF_ERROR(CheckPermissions(path, create));
  rocksdb::BackupEngineOptions options(path);
  options.share_files_with_checksum = true;
  rocksdb::BackupEngine* raw = nullptr;
  const auto status = rocksdb::BackupEngine::Open(rocksdb::Env::Default(), options, &raw);
  if (!status.ok()) {
    return tl::unexpected(FromRocks(status, fmt::format("opening the backups at {}", path)));
  }
  return BackupEnginePtr(raw);
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

Result<void> CheckSnapshotIsNew(const std::string& store_path, const std::string& name) {
  LARDER_RETURN_IF_ERROR(CheckName(name));
  std::error_code error;
  if (!fs::exists(SnapshotsPath(store_path) + "/" + name, error)) return {};
  return MakeError(ErrorCode::kAlreadyExists, "there is a snapshot {} of the store {} already",
                   name, store_path);
}

Result<SnapshotInfo> CreateSnapshot(Store& store, const std::string& name) {
  return MakeSnapshot(store.impl(), name);
}

Result<SnapshotInfo> MakeSnapshot(Store::Impl& impl, const std::string& name) {
  LARDER_RETURN_IF_ERROR(RequireOnDisk(impl));
  LARDER_RETURN_IF_ERROR(CheckSnapshotIsNew(impl.options.path, name));
  const auto database = impl.database();
  if (!database) return tl::unexpected(impl.Unavailable());
  const std::string folder = SnapshotsPath(impl.options.path), path = folder + "/" + name;
  std::error_code error;
  if (!fs::exists(folder, error)) LARDER_RETURN_IF_ERROR(MakePrivateDirectory(folder));
  rocksdb::Checkpoint* raw = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(database->get(), &raw);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  if (status.ok()) status = checkpoint->CreateCheckpoint(path);
  if (!status.ok()) {
    return tl::unexpected(FromRocks(status, fmt::format("making the snapshot {}", path)));
  }
  fs::permissions(path, fs::perms::owner_all, error);
  return Describe(fs::path(path));
}

void SweepLeftovers(const std::string& store_path) {
  std::error_code ignored;
  // A store that opens is not one whose files are just being moved.
  fs::remove_all(IncomingPath(store_path), ignored);
  for (const auto& entry : EntriesOf(SnapshotsPath(store_path), ignored)) {
    // RocksDB's name for one that is not complete. With a CURRENT it can be seen and removed by
    // name.
    const bool half = entry.path().extension() == ".tmp" && !HasDatabase(entry.path().string());
    std::error_code error;
    if (half) fs::remove_all(entry.path(), error);
  }
}

Result<std::vector<SnapshotInfo>> ListSnapshots(const std::string& store_path) {
  if (!HasDatabase(store_path)) {
    return MakeError(ErrorCode::kNotFound, "no store at {}", store_path);
  }
  std::vector<SnapshotInfo> out;
  std::error_code error;
  for (const auto& entry : EntriesOf(SnapshotsPath(store_path), error)) {
    if (HasDatabase(entry.path().string())) out.push_back(Describe(entry.path()));
  }
  std::sort(out.begin(), out.end(), [](const SnapshotInfo& a, const SnapshotInfo& b) {
    return std::tie(a.created_ms, a.name) < std::tie(b.created_ms, b.name);
  });
  return out;
}

Result<void> RemoveSnapshot(const std::string& store_path, const std::string& name) {
  LARDER_ASSIGN_OR_RETURN(const std::string path, ExistingSnapshot(store_path, name));
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return MakeError(ErrorCode::kIo, "removing {}: {}", path, error.message());
  return {};
}

Result<void> RestoreSnapshot(const StoreOptions& options, const std::string& name) {
  LARDER_ASSIGN_OR_RETURN(const std::string path, ExistingSnapshot(options.path, name));
  return ReplaceStore(options, "snapshot " + name,
                      [&](const std::string& incoming) { return LinkFiles(path, incoming); });
}

Result<BackupInfo> CreateBackup(Store& store, const std::string& backup_path) {
  Store::Impl& impl = store.impl();
  LARDER_RETURN_IF_ERROR(RequireOnDisk(impl));
  LARDER_RETURN_IF_ERROR(CheckApart(impl.options.path, backup_path));
  const auto database = impl.database();
  if (!database) return tl::unexpected(impl.Unavailable());
  // A copy of what is damaged would be in the way of good ones.
  if (const auto sound = (*database)->VerifyChecksum(); !sound.ok()) {
    return tl::unexpected(FromRocks(
        sound, fmt::format("the store {} is damaged, no backup is made of it", impl.options.path)));
  }
  LARDER_ASSIGN_OR_RETURN(const BackupEnginePtr engine, OpenBackups(backup_path, true));
  rocksdb::CreateBackupOptions how;
  how.flush_before_backup = true;
  rocksdb::BackupID id = 0;
  const auto status = engine->CreateNewBackup(how, database->get(), &id);
  if (!status.ok()) {
    return tl::unexpected(FromRocks(status, fmt::format("backing up to {}", backup_path)));
  }
  rocksdb::BackupInfo info;
  (void)engine->GetBackupInfo(id, &info);
  return Describe(info);
}

Result<std::vector<BackupInfo>> ListBackups(const std::string& backup_path) {
  LARDER_ASSIGN_OR_RETURN(const BackupEnginePtr engine, OpenBackups(backup_path, false));
  std::vector<rocksdb::BackupInfo> infos;
  engine->GetBackupInfo(&infos);
  std::vector<BackupInfo> out;
  out.reserve(infos.size());
  for (const rocksdb::BackupInfo& info : infos) out.push_back(Describe(info));
  return out;
}

Result<void> PurgeBackups(const std::string& backup_path, uint32_t keep) {
  LARDER_ASSIGN_OR_RETURN(const BackupEnginePtr engine, OpenBackups(backup_path, false));
  const auto status = engine->PurgeOldBackups(keep);
  if (!status.ok()) return tl::unexpected(FromRocks(status, "removing old backups"));
  return {};
}

Result<void> VerifyBackup(const std::string& backup_path, uint32_t id) {
  LARDER_ASSIGN_OR_RETURN(const BackupEnginePtr engine, OpenBackups(backup_path, false));
  const auto status = engine->VerifyBackup(id, /*verify_with_checksum=*/true);
  if (!status.ok()) {
    return tl::unexpected(FromRocks(status, fmt::format("backup {} at {}", id, backup_path)));
  }
  return {};
}

Result<void> RestoreBackup(const StoreOptions& options, const std::string& backup_path,
                           uint32_t id) {
  LARDER_RETURN_IF_ERROR(CheckApart(options.path, backup_path));
  LARDER_ASSIGN_OR_RETURN(BackupEnginePtr engine, OpenBackups(backup_path, false));
  std::error_code error;
  const std::string what =
      fmt::format("backup {} of {}", id, fs::absolute(backup_path, error).string());
  return ReplaceStore(options, what, [&](const std::string& incoming) -> Result<void> {
    const auto status = id == 0 ? engine->RestoreDBFromLatestBackup(incoming, incoming)
                                : engine->RestoreDBFromBackup(id, incoming, incoming);
    engine.reset();  // its threads go on copying after a failure
    if (!status.ok()) {
      return tl::unexpected(
          FromRocks(status, fmt::format("restoring from the backups at {}", backup_path)));
    }
    return {};
  });
}

}  // namespace larder
