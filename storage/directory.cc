#include "storage/directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "storage/owner_lock.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

ErrorCode CodeOf(int error) {
  if (error == ENOSPC || error == EDQUOT) return ErrorCode::kNoSpace;
  if (error == EACCES || error == EPERM || error == EROFS) return ErrorCode::kForbidden;
  return ErrorCode::kIo;
}

// What is written before the CURRENT of a new database, most of it by RocksDB: a process that ended
// in between leaves these and no data. Each further try puts the log of the one before aside.
bool IsOfUnfinishedCreation(const std::string& name) {
  return name == kOwnerFile || name == "LOCK" || name == "IDENTITY" || name == "LOG" ||
         name.starts_with("LOG.old.") || name == "MANIFEST-000001" || name.ends_with(".dbtmp");
}

// Nothing in it but what a fresh file system puts there, or a creation that was cut off.
bool IsFresh(const std::string& path) {
  std::error_code error;
  for (const auto& entry : EntriesOf(path, error)) {
    const std::string name = entry.path().filename().string();
    if (name != "lost+found" && !IsOfUnfinishedCreation(name)) return false;
  }
  return !error;
}

// A store that lost its file CURRENT, and maybe its manifest, too.
bool IsTornStore(const std::string& path) {
  std::error_code error;
  bool ours = false, tables = false;
  for (const auto& entry : EntriesOf(path, error)) {
    const std::string name = entry.path().filename().string();
    ours = ours || name.starts_with("MANIFEST-") || name == "manifest-length";
    tables = tables || entry.path().extension() == ".sst" || entry.path().extension() == ".log";
  }
  return ours && tables;
}

}  // namespace

std::vector<fs::directory_entry> EntriesOf(const fs::path& path, std::error_code& error) {
  std::vector<fs::directory_entry> out;
  for (fs::directory_iterator it(path, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    out.push_back(*it);
  }
  return out;
}

bool FileExists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool HasDatabase(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::path(path) / "CURRENT", error);
}

bool HasRows(const std::string& path) {
  std::error_code error;
  for (const auto& entry : EntriesOf(path, error)) {
    const fs::path extension = entry.path().extension();
    std::error_code gone;  // a file may be removed under our eyes
    if (extension == ".sst" || (extension == ".log" && entry.file_size(gone) != 0 && !gone)) {
      return true;
    }
  }
  return false;
}

Result<void> CheckPermissions(const std::string& path, bool for_writing) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return MakeError(CodeOf(errno), "store {}: {}", path, std::strerror(errno));
  }
  if ((info.st_mode & 077) != 0) {
    return MakeError(ErrorCode::kForbidden,
                     "store {} can be read by others (mode {:o}); run: chmod 700 {}", path,
                     info.st_mode & 0777, path);
  }
  const bool root_reads = !for_writing && ::geteuid() == 0;
  if (info.st_uid != ::geteuid() && !root_reads) {
    return MakeError(ErrorCode::kForbidden,
                     "store {} belongs to uid {}, and this process runs as uid {}", path,
                     info.st_uid, ::geteuid());
  }
  return {};
}

Result<void> MakePrivateDirectory(const std::string& path) {
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  const int error = errno;
  if (error == EEXIST && IsFresh(path)) {
    if (::chmod(path.c_str(), 0700) == 0) return {};
    return MakeError(ErrorCode::kForbidden,
                     "cannot set mode 700 on {}: {}; name a directory within it instead", path,
                     std::strerror(errno));
  }
  return MakeError(error == EEXIST ? ErrorCode::kAlreadyExists : CodeOf(error),
                   "cannot make the directory {}: {}", path, std::strerror(error));
}

namespace {

Result<void> LookAndPrepare(const std::string& path, bool may_create, bool for_writing) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    if (error == std::errc::permission_denied) {
      return MakeError(ErrorCode::kForbidden,
                       "cannot get to the store {}: uid {} may not enter a directory above it",
                       path, ::geteuid());
    }
    if (may_create) return MakePrivateDirectory(path);
    return MakeError(ErrorCode::kNotFound, "no store at {}: no such directory", path);
  }
  if (!fs::is_directory(path, error)) {
    return MakeError(ErrorCode::kInvalidArgument, "{} is a file, not a store's directory", path);
  }
  // Somebody else's: what is in it cannot even be seen.
  if (HasDatabase(path) || ::access(path.c_str(), R_OK | X_OK) != 0) {
    return CheckPermissions(path, for_writing);
  }
  if (!IsFresh(path)) {
    // Another process may have made the store since we looked: CURRENT comes before the rest.
    if (HasDatabase(path)) return CheckPermissions(path, for_writing);
    if (FileExists(path + "/incoming")) {
      return MakeError(ErrorCode::kCorruption,
                       "a restore or a repair of the store {} was cut off; do it again", path);
    }
    if (IsTornStore(path)) {
      return MakeError(ErrorCode::kCorruption,
                       "store {0} has tables, but its file CURRENT is missing; save what is sound "
                       "with: larder verify --repair --store {0}",
                       path);
    }
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is not a larder store (it has files but no CURRENT){}", path,
                     may_create ? "; choose an empty directory" : "");
  }
  if (may_create) return MakePrivateDirectory(path);
  return MakeError(ErrorCode::kNotFound, "no store at {}: it is empty", path);
}

}  // namespace

Result<void> PrepareDirectory(const std::string& path, bool may_create, bool for_writing) {
  if (path.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "no directory given for the store");
  }
  Result<void> prepared = LookAndPrepare(path, may_create, for_writing);
  // Another process made the store behind our look: it is there to be looked at now.
  if (!prepared && prepared.error().code == ErrorCode::kAlreadyExists) {
    prepared = LookAndPrepare(path, may_create, for_writing);
  }
  return prepared;
}

}  // namespace larder
