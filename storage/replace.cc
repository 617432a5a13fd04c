#include "storage/replace.h"

#include <rocksdb/env.h>

#include <filesystem>

#include "storage/directory.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

// Written when the incoming directory is complete.
constexpr const char* kComplete = "COMPLETE";

tl::unexpected<Error> Failed(const std::string& what, const std::error_code& error) {
  const bool full = error == std::errc::no_space_on_device;
  return MakeError(full ? ErrorCode::kNoSpace : ErrorCode::kIo, "{}: {}", what, error.message());
}

// The store's own lock, so that nobody opens it meanwhile.
class StoreLock {
 public:
  ~StoreLock() {
    if (lock_) (void)rocksdb::Env::Default()->UnlockFile(lock_);
  }
  Result<void> Take(const std::string& path) {
    if (rocksdb::Env::Default()->LockFile(path + "/LOCK", &lock_).ok()) return {};
    lock_ = nullptr;
    const pid_t owner = LockOwner(path);
    return MakeError(ErrorCode::kLocked, "store {} is in use{}; stop its owner first", path,
                     owner > 0 ? fmt::format(" by the process with pid {}", owner) : "");
  }

 private:
  rocksdb::FileLock* lock_ = nullptr;
};

bool BelongsToDatabase(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_regular_file(error) && entry.path().filename() != "LOCK";
}

Result<void> TakeOldAway(const std::string& path, const std::string& keep_old) {
  std::error_code error;
  const auto put_away = [&](const fs::path& file) {
    if (keep_old.empty()) {
      fs::remove(file, error);
    } else {
      fs::rename(file, fs::path(keep_old) / file.filename(), error);
    }
  };
  // CURRENT first: from here on it is no store, until the new one is in place.
  if (fs::exists(path + "/CURRENT", error)) put_away(path + "/CURRENT");
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (error) break;
    if (BelongsToDatabase(entry)) put_away(entry.path());
  }
  if (error) return Failed("cannot remove the old files of " + path, error);
  return {};
}

Result<void> MoveIn(const std::string& incoming, const std::string& path) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(incoming, error)) {
    const fs::path name = entry.path().filename();
    if (name == "CURRENT" || name == kComplete || name == "LOCK") continue;
    fs::rename(entry.path(), fs::path(path) / name, error);
    if (error) return Failed("cannot move the new files to " + path, error);
  }
  if (fs::exists(incoming + "/CURRENT", error)) {
    fs::rename(incoming + "/CURRENT", path + "/CURRENT", error);
  }
  if (error) return Failed("cannot move the new files to " + path, error);
  std::unique_ptr<rocksdb::Directory> directory;
  if (rocksdb::Env::Default()->NewDirectory(path, &directory).ok()) (void)directory->Fsync();
  fs::remove_all(incoming, error);
  return {};
}

}  // namespace

std::string IncomingPath(const std::string& store_path) { return store_path + "/incoming"; }

Result<void> ReplaceStore(const StoreOptions& options,
                          const std::function<Result<void>(const std::string& incoming)>& make,
                          const std::string& keep_old) {
  const std::string& path = options.path;
  std::error_code error;
  if (!fs::exists(path, error)) LARDER_RETURN_IF_ERROR(MakePrivateDirectory(path));
  LARDER_RETURN_IF_ERROR(CheckPermissions(path, /*for_writing=*/true));
  StoreLock lock;
  LARDER_RETURN_IF_ERROR(lock.Take(path));
  const std::string incoming = IncomingPath(path);
  if (!fs::exists(incoming + "/" + kComplete, error)) {
    fs::remove_all(incoming, error);
    LARDER_RETURN_IF_ERROR(MakePrivateDirectory(incoming));
    LARDER_RETURN_IF_ERROR(make(incoming));
    if (!HasDatabase(incoming)) {
      return MakeError(ErrorCode::kInternal, "{} was not filled with a database", incoming);
    }
    const rocksdb::Status status =
        rocksdb::WriteStringToFile(rocksdb::Env::Default(), "", incoming + "/" + kComplete, true);
    if (!status.ok()) return MakeError(ErrorCode::kIo, "{}: {}", incoming, status.ToString());
  }
  // Where CURRENT is no longer among them, it and so everything else is in place already.
  if (fs::exists(incoming + "/CURRENT", error)) {
    if (!keep_old.empty() && !fs::exists(keep_old, error)) {
      LARDER_RETURN_IF_ERROR(MakePrivateDirectory(keep_old));
    }
    LARDER_RETURN_IF_ERROR(TakeOldAway(path, keep_old));
  }
  return MoveIn(incoming, path);
}

}  // namespace larder
