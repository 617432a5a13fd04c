#include "storage/snapshot_request.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "storage/directory.h"
#include "storage/snapshots.h"
#include "storage/store_impl.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLook{20};

std::string RequestPath(const std::string& store) { return TuningPath(store) + "/snapshot"; }
std::string ErrorPath(const std::string& store) { return RequestPath(store) + ".error"; }

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

Error FileError(const std::string& path) {
  return Error{errno == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
               fmt::format("cannot write {}: {}", path, std::strerror(errno)),
               {},
               {}};
}

// Whole and for its owner only; does not replace one that is there.
Result<void> WriteRequest(const std::string& store, const std::string& name) {
  if (::mkdir(TuningPath(store).c_str(), 0700) != 0 && errno != EEXIST) {
    return tl::unexpected(FileError(TuningPath(store)));
  }
  const std::string path = RequestPath(store), part = fmt::format("{}.{}", path, ::getpid());
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  ::chmod(part.c_str(), 0600);
  file << name;
  file.close();
  if (!file) return tl::unexpected(FileError(part));
  const bool linked = ::link(part.c_str(), path.c_str()) == 0;
  const int reason = errno;
  ::unlink(part.c_str());
  if (linked) return {};
  if (reason == EEXIST) {
    return MakeError(ErrorCode::kAlreadyExists,
                     "the owner of {} is being asked for another snapshot (remove {} if nobody "
                     "does)",
                     store, path);
  }
  errno = reason;
  return tl::unexpected(FileError(path));
}

}  // namespace

Result<SnapshotInfo> AskOwnerForSnapshot(const std::string& store_path, const std::string& name,
                                         const std::stop_token& stop,
                                         std::chrono::milliseconds patience) {
  LARDER_RETURN_IF_ERROR(CheckPermissions(store_path, /*for_writing=*/true));
  LARDER_RETURN_IF_ERROR(CheckSnapshotIsNew(store_path, name));
  std::error_code ignored;
  fs::remove(ErrorPath(store_path), ignored);
  LARDER_RETURN_IF_ERROR(WriteRequest(store_path, name));
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (Exists(RequestPath(store_path))) {
    if (std::chrono::steady_clock::now() > give_up) {
      fs::remove(RequestPath(store_path), ignored);
      return MakeError(ErrorCode::kTimeout,
                       "the process that owns the store {} does not make the snapshot; is it a "
                       "larder that can, and does it run?",
                       store_path);
    }
    if (!RealClock()->SleepFor(kLook, stop)) {
      fs::remove(RequestPath(store_path), ignored);
      return MakeError(ErrorCode::kCancelled, "interrupted before the snapshot was made");
    }
  }
  if (Exists(ErrorPath(store_path))) {
    return MakeError(ErrorCode::kIo, "the owner of the store {} could not make the snapshot: {}",
                     store_path, ReadText(ErrorPath(store_path)));
  }
  LARDER_ASSIGN_OR_RETURN(const auto snapshots, ListSnapshots(store_path));
  const auto made = std::find_if(snapshots.begin(), snapshots.end(),
                                 [&](const SnapshotInfo& info) { return info.name == name; });
  if (made != snapshots.end()) return *made;
  return MakeError(ErrorCode::kNotReady,
                   "the process that owned the store {} ended before the snapshot was made",
                   store_path);
}

void AnswerSnapshotRequest(Store::Impl& impl) {
  const std::string request = RequestPath(impl.options.path);
  if (!Exists(request)) return;
  const auto made = MakeSnapshot(impl, ReadText(request));
  if (made) {
    spdlog::info("store {}: made the snapshot {}", impl.options.path, made->name);
  } else {
    std::ofstream(ErrorPath(impl.options.path)) << made.error().message;
  }
  std::error_code ignored;
  fs::remove(request, ignored);
}

}  // namespace larder
