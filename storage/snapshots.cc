// Snapshots of a store.
#include "storage/snapshots.h"

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

Result<std::string> ExistingSnapshot(const std::string& store_path, const std::string& name) {
  LARDER_RETURN_IF_ERROR(CheckName(name));
  std::string path = SnapshotsPath(store_path) + "/" + name;
  if (!HasDatabase(path)) {
    return MakeError(ErrorCode::kNotFound, "no snapshot {} of the store {}", name, store_path);
  }
  return path;
}

// RocksDB's name for a snapshot that is being made; ours for one that is being removed.
constexpr const char* kUnfinished = ".tmp";

// Tables and logs never change once a snapshot has them, so a link is as good as a copy.
Result<void> LinkFiles(const std::string& from, const std::string& to) {
  std::error_code error;
  const auto entries = EntriesOf(from, error);
  for (const auto& entry : entries) {
    if (error) break;
    if (!entry.is_regular_file(error) || entry.path().filename() == kOwnerFile) continue;
    const fs::path target = fs::path(to) / entry.path().filename();
    if (entry.path().extension() == ".sst") {
      fs::create_hard_link(entry.path(), target, error);
      if (!error) continue;
      error.clear();  // another file system, or one without links
    }
    fs::copy_file(entry.path(), target, error);
  }
  if (!error) return {};
  return MakeError(error == std::errc::no_space_on_device ? ErrorCode::kNoSpace : ErrorCode::kIo,
                   "restoring {}: {}", from, error.message());
}

}  // namespace

Result<void> CheckSnapshotIsNew(const std::string& store_path, const std::string& name) {
  LARDER_RETURN_IF_ERROR(CheckName(name));
  if (name.ends_with(kUnfinished)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "\"{}\" cannot name a snapshot: {} is how an unfinished one ends", name,
                     kUnfinished);
  }
  std::error_code error;
  if (!fs::exists(SnapshotsPath(store_path) + "/" + name, error)) return {};
  return MakeError(ErrorCode::kAlreadyExists, "there is a snapshot {} of the store {} already",
                   name, store_path);
}

Result<SnapshotInfo> CreateSnapshot(Store& store, const std::string& name) {
  return MakeSnapshot(store.impl(), name);
}

Result<SnapshotInfo> MakeSnapshot(Store::Impl& impl, const std::string& name) {
  LARDER_RETURN_IF_ERROR(impl.RequireOnDisk());
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
    // With a CURRENT it can be seen and removed by name.
    const bool half =
        entry.path().extension() == kUnfinished && !HasDatabase(entry.path().string());
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
  std::string going = path + kUnfinished;
  while (HasDatabase(going)) going += kUnfinished;  // a snapshot that an older larder named so
  std::error_code error;
  fs::remove_all(going, error);  // of an earlier call
  if (!error) fs::rename(path, going, error);
  // Without it nobody takes the rest for a snapshot: it goes first, also where the power fails.
  if (!error) fs::remove(going + "/CURRENT", error);
  if (error) return MakeError(ErrorCode::kIo, "removing {}: {}", path, error.message());
  LARDER_RETURN_IF_ERROR(SyncPath(going));
  LARDER_RETURN_IF_ERROR(SyncPath(SnapshotsPath(store_path)));
  fs::remove_all(going, error);
  if (error) return MakeError(ErrorCode::kIo, "removing {}: {}", path, error.message());
  return {};
}

Result<void> RestoreSnapshot(const StoreOptions& options, const std::string& name) {
  LARDER_ASSIGN_OR_RETURN(const std::string path, ExistingSnapshot(options.path, name));
  return ReplaceStore(options, "snapshot " + name,
                      [&](const std::string& incoming) { return LinkFiles(path, incoming); });
}

}  // namespace larder
