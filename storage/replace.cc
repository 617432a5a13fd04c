#include "storage/replace.h"

#include <fcntl.h>
#include <rocksdb/env.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>

#include "storage/database.h"
#include "storage/directory.h"
#include "storage/log_order.h"
#include "storage/owner_lock.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

// Written when the incoming directory is complete; says what it was made from.
constexpr const char* kComplete = "COMPLETE";
// The same file once the old store is away: from then on the files outside are of the new one.
constexpr const char* kMoving = "MOVING";

tl::unexpected<Error> Failed(const std::string& what, const std::error_code& error) {
  const bool full = error == std::errc::no_space_on_device;
  return MakeError(full ? ErrorCode::kNoSpace : ErrorCode::kIo, "{}: {}", what, error.message());
}

// The store's own locks, so that nobody opens it meanwhile: RocksDB's, too, for a larder of before.
class StoreLock {
 public:
  ~StoreLock() {
    if (lock_) (void)rocksdb::Env::Default()->UnlockFile(lock_);
  }
  Result<void> Take(const std::string& path) {
    const Result<void> owned = owner_.Take(path);
    if (!owned && owned.error().code != ErrorCode::kLocked) return owned;
    if (owned && rocksdb::Env::Default()->LockFile(path + "/LOCK", &lock_).ok()) return {};
    lock_ = nullptr;
    const pid_t owner = LockOwner(path);
    return MakeError(ErrorCode::kLocked, "store {} is in use{}; stop its owner first", path,
                     owner > 0 ? fmt::format(" by the process with pid {}", owner) : "");
  }

 private:
  OwnerLock owner_;
  rocksdb::FileLock* lock_ = nullptr;
};

// Stays where it is: what replaces a store takes its place under the same locks.
bool IsLock(const fs::path& name) { return name == "LOCK" || name == kOwnerFile; }

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool BelongsToDatabase(const fs::directory_entry& entry) {
  std::error_code error;
  if (!entry.is_regular_file(error)) return false;
  const std::string name = entry.path().filename().string();
  for (const std::string_view own : {"CURRENT", "IDENTITY", "LOG", "manifest-length", kDoubtFile}) {
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
  for (const auto& entry : EntriesOf(path, error)) {
    const fs::path name = entry.path().filename();
    if (BelongsToDatabase(entry) || name == "incoming" || name == "snapshots") return {};
    empty = empty && IsLock(name);
  }
  if (empty) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} is not empty and holds no store; name a new directory", path);
}

// What the incoming directory was made from; nullopt: it has no such mark.
std::optional<std::string> ReadMark(const std::string& incoming, const char* mark) {
  std::string what;
  const auto status =
      rocksdb::ReadFileToString(rocksdb::Env::Default(), incoming + "/" + mark, &what);
  return status.ok() ? std::optional(std::move(what)) : std::nullopt;
}

// All of it is on the disk before the old store goes.
Result<void> SyncFiles(const std::string& incoming) {
  std::error_code error;
  for (const auto& entry : EntriesOf(incoming, error)) {
    LARDER_RETURN_IF_ERROR(SyncPath(entry.path().string()));
  }
  if (error) return Failed("cannot read " + incoming, error);
  return SyncPath(incoming);
}

// A table may be missing, or the manifest cut short: it has to open as the next owner would open
// it, as long as the old store is still there.
Result<void> CheckOpens(const StoreOptions& options, const std::string& incoming,
                        const std::string& what) {
  StoreOptions made = options;
  made.path = incoming;
  const auto opened = Database::Open(made, Database::Mode::kFrozen, nullptr, nullptr, nullptr,
                                     /*lock=*/nullptr);  // who only reads takes none
  if (opened) return {};
  return MakeError(opened.error().code,
                   "{}: what it gives does not open as a store, and {} is left as it was: {}", what,
                   options.path, opened.error().message);
}

Result<void> MakeIncoming(const StoreOptions& options, const std::string& what,
                          const std::function<Result<void>(const std::string&)>& make) {
  const std::string incoming = IncomingPath(options.path);
  LARDER_RETURN_IF_ERROR(MakePrivateDirectory(incoming));
  LARDER_RETURN_IF_ERROR(make(incoming));
  if (!HasDatabase(incoming)) {
    return MakeError(ErrorCode::kInternal, "{} was not filled with a database", incoming);
  }
  LARDER_RETURN_IF_ERROR(CheckOpens(options, incoming, what));
  LARDER_RETURN_IF_ERROR(SyncFiles(incoming));
  const rocksdb::Status status =
      rocksdb::WriteStringToFile(rocksdb::Env::Default(), what, incoming + "/" + kComplete, true);
  if (!status.ok()) return MakeError(ErrorCode::kIo, "{}: {}", incoming, status.ToString());
  LARDER_RETURN_IF_ERROR(SyncPath(incoming));
  return SyncPath(fs::path(incoming).parent_path().string());
}

Result<void> TakeOldAway(const std::string& path, const std::string& keep_old) {
  std::error_code error;
  if (!keep_old.empty() && !fs::exists(keep_old, error)) {
    LARDER_RETURN_IF_ERROR(MakePrivateDirectory(keep_old));
  }
  const auto put_away = [&](const fs::path& file) {
    if (keep_old.empty()) {
      fs::remove(file, error);
    } else {
      fs::rename(file, fs::path(keep_old) / file.filename(), error);
    }
  };
  const auto sync = [&]() -> Result<void> {
    if (!keep_old.empty()) LARDER_RETURN_IF_ERROR(SyncPath(keep_old));
    return SyncPath(path);
  };
  // CURRENT first: from here on it is no store, until the new one is in place. Also where the power
  // fails: one that had its CURRENT back, but not its tables, would be taken for a store.
  if (fs::exists(path + "/CURRENT", error)) put_away(path + "/CURRENT");
  if (error) return Failed("cannot remove the old files of " + path, error);
  LARDER_RETURN_IF_ERROR(sync());
  const auto entries = EntriesOf(path, error);
  for (const auto& entry : entries) {
    if (error) break;
    if (BelongsToDatabase(entry)) put_away(entry.path());
  }
  if (error) return Failed("cannot remove the old files of " + path, error);
  return sync();
}

// An old log that came back would be replayed into the new store: so the old files are gone for
// good before this is noted.
Result<void> NoteMoving(const std::string& incoming) {
  std::error_code error;
  fs::rename(incoming + "/" + kComplete, incoming + "/" + kMoving, error);
  if (error) return Failed("cannot write to " + incoming, error);
  return SyncPath(incoming);
}

Result<void> MoveIn(const std::string& incoming, const std::string& path) {
  std::error_code error;
  const auto entries = EntriesOf(incoming, error);
  if (error) return Failed("cannot read " + incoming, error);
  for (const auto& entry : entries) {
    const fs::path name = entry.path().filename();
    if (name == "CURRENT" || name == kMoving || IsLock(name)) continue;
    fs::rename(entry.path(), fs::path(path) / name, error);
    if (error) return Failed("cannot move the new files to " + path, error);
  }
  LARDER_RETURN_IF_ERROR(SyncPath(path));  // CURRENT names what is there
  fs::rename(incoming + "/CURRENT", path + "/CURRENT", error);
  if (error) return Failed("cannot move the new files to " + path, error);
  LARDER_RETURN_IF_ERROR(SyncPath(path));
  fs::remove_all(incoming, error);
  return {};
}

// Goes on where an earlier call ended, under the store's lock; returns what was finished.
Result<std::optional<std::string>> GoOn(const std::string& path, const std::string& keep_old) {
  const std::string incoming = IncomingPath(path);
  auto mark = ReadMark(incoming, kMoving);
  const bool moving = mark.has_value();
  if (!moving) mark = ReadMark(incoming, kComplete);
  // Without CURRENT all is in place, and may have been used since.
  if (!mark || !HasDatabase(incoming)) return std::nullopt;
  // The old store is untouched, and may have been used since.
  if (!moving && HasDatabase(path)) return std::nullopt;
  if (!moving) {
    LARDER_RETURN_IF_ERROR(TakeOldAway(path, keep_old));
    LARDER_RETURN_IF_ERROR(NoteMoving(incoming));
  }
  LARDER_RETURN_IF_ERROR(MoveIn(incoming, path));
  return mark;
}

}  // namespace

std::string IncomingPath(const std::string& store_path) { return store_path + "/incoming"; }

// There are file systems that sync no directories and say EINVAL.
Result<void> SyncPath(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = file >= 0 && (::fsync(file) == 0 || errno == EINVAL);
  const std::error_code error(errno, std::generic_category());
  if (file >= 0) ::close(file);
  return synced ? Result<void>() : Failed("cannot sync " + path, error);
}

Result<bool> FinishReplacing(const StoreOptions& options, const std::string& what,
                             const std::string& keep_old) {
  const std::string& path = options.path;
  std::error_code error;
  if (!fs::exists(IncomingPath(path), error)) return false;
  LARDER_RETURN_IF_ERROR(CheckPermissions(path, /*for_writing=*/true));
  StoreLock lock;
  LARDER_RETURN_IF_ERROR(lock.Take(path));
  LARDER_ASSIGN_OR_RETURN(const auto finished, GoOn(path, keep_old));
  return finished == what;
}

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
  LARDER_ASSIGN_OR_RETURN(const auto finished, GoOn(path, keep_old));
  if (finished == what) return {};
  const std::string incoming = IncomingPath(path);
  fs::remove_all(incoming, error);
  if (auto made = MakeIncoming(options, what, make); !made) {
    fs::remove_all(incoming, error);  // the room that it took may be what the store needs
    return made;
  }
  LARDER_RETURN_IF_ERROR(TakeOldAway(path, keep_old));
  LARDER_RETURN_IF_ERROR(NoteMoving(incoming));
  return MoveIn(incoming, path);
}

}  // namespace larder
