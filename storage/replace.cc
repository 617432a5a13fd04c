#include "storage/replace.h"

#include <rocksdb/env.h>

#include <filesystem>
#include <optional>
#include <string_view>

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

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool BelongsToDatabase(const fs::directory_entry& entry) {
  std::error_code error;
  if (!entry.is_regular_file(error)) return false;
  const std::string name = entry.path().filename().string();
  for (const std::string_view own : {"CURRENT", "IDENTITY", "LOG", "manifest-length"}) {
    if (name == own) return true;
  }
  for (const std::string_view prefix : {"MANIFEST-", "OPTIONS-", "LOG.old."}) {
    if (name.starts_with(prefix)) return true;
  }
  const std::string extension = entry.path().extension().string();
  const bool known =
      extension == ".sst" || extension == ".log" || extension == ".blob" || extension == ".dbtmp";
  return known && IsNumber(entry.path().stem().string());
}

// A store, or what an earlier call left of one; or nothing.
Result<void> CheckIsStoreOrEmpty(const std::string& path) {
  std::error_code error;
  bool empty = true;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const fs::path name = entry.path().filename();
    if (BelongsToDatabase(entry) || name == "incoming" || name == "snapshots") return {};
    empty = empty && name == "LOCK";
  }
  if (empty) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} is not empty and holds no store; name a new directory", path);
}

// What the incoming directory was made from; nullopt: it is not complete.
std::optional<std::string> MadeFrom(const std::string& incoming) {
  std::string what;
  const auto status =
      rocksdb::ReadFileToString(rocksdb::Env::Default(), incoming + "/" + kComplete, &what);
  return status.ok() ? std::optional(std::move(what)) : std::nullopt;
}

Result<void> MakeIncoming(const std::string& incoming, const std::string& what,
                          const std::function<Result<void>(const std::string&)>& make) {
  LARDER_RETURN_IF_ERROR(MakePrivateDirectory(incoming));
  LARDER_RETURN_IF_ERROR(make(incoming));
  if (!HasDatabase(incoming)) {
    return MakeError(ErrorCode::kInternal, "{} was not filled with a database", incoming);
  }
  const rocksdb::Status status =
      rocksdb::WriteStringToFile(rocksdb::Env::Default(), what, incoming + "/" + kComplete, true);
  if (!status.ok()) return MakeError(ErrorCode::kIo, "{}: {}", incoming, status.ToString());
  return {};
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

Result<void> ReplaceStore(const StoreOptions& options, const std::string& what,
                          const std::function<Result<void>(const std::string& incoming)>& make,
                          const std::string& keep_old) {
  const std::string& path = options.path;
  std::error_code error;
  if (!fs::exists(path, error)) LARDER_RETURN_IF_ERROR(MakePrivateDirectory(path));
  LARDER_RETURN_IF_ERROR(CheckPermissions(path, /*for_writing=*/true));
  LARDER_RETURN_IF_ERROR(CheckIsStoreOrEmpty(path));
  StoreLock lock;
  LARDER_RETURN_IF_ERROR(lock.Take(path));
  const std::string incoming = IncomingPath(path);
  if (MadeFrom(incoming) != what) {
    fs::remove_all(incoming, error);
    if (auto made = MakeIncoming(incoming, what, make); !made) {
      fs::remove_all(incoming, error);  // the room that it took may be what the store needs
      return made;
    }
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
