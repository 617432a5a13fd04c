#include "storage/owner_request.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
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
constexpr const char* kSnapshot = "snapshot";

std::string RequestPath(const std::string& store) { return TuningPath(store) + "/request"; }
std::string AnswerPath(const std::string& store, const std::string& id) {
  return fmt::format("{}.{}.answer", RequestPath(store), id);
}

Error FileError(const std::string& path) {
  return Error{errno == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
               fmt::format("cannot write {}: {}", path, std::strerror(errno)),
               {},
               {}};
}

// The first line, and the rest.
std::pair<std::string, std::string> FirstLine(const std::string& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  return {text.substr(0, end), end < text.size() ? text.substr(end + 1) : std::string()};
}

// Whole and for its owner only; does not replace one that is there.
Result<void> WriteRequest(const std::string& store, const std::string& id,
                          const std::string& text) {
  if (::mkdir(TuningPath(store).c_str(), 0700) != 0 && errno != EEXIST) {
    return tl::unexpected(FileError(TuningPath(store)));
  }
  const std::string path = RequestPath(store), part = fmt::format("{}.{}", path, id);
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  ::chmod(part.c_str(), 0600);
  file << id << '\n' << text;
  file.close();
  if (!file) return tl::unexpected(FileError(part));
  const bool linked = ::link(part.c_str(), path.c_str()) == 0;
  const int reason = errno;
  ::unlink(part.c_str());
  if (linked) return {};
  if (reason == EEXIST) {
    return MakeError(ErrorCode::kAlreadyExists,
                     "the owner of {} is being asked for something else (remove {} if nobody does)",
                     store, path);
  }
  errno = reason;
  return tl::unexpected(FileError(path));
}

// What the owner wrote: "ok" or the number of an error's code, a line end, a text.
Result<std::string> TakeAnswer(const std::string& store, const std::string& id) {
  const auto [outcome, text] = FirstLine(ReadWholeFile(AnswerPath(store, id)));
  std::error_code ignored;
  fs::remove(AnswerPath(store, id), ignored);
  if (outcome == "ok") return text;
  if (outcome.empty()) {
    return MakeError(ErrorCode::kNotReady, "the process that owned the store {} ended meanwhile",
                     store);
  }
  int code = static_cast<int>(ErrorCode::kInternal);
  std::from_chars(outcome.data(), outcome.data() + outcome.size(), code);
  return tl::unexpected(Error{static_cast<ErrorCode>(code), text, {}, {}});
}

}  // namespace

Result<std::string> AskOwner(const std::string& store_path, const std::string& name,
                             const std::string& text, const std::stop_token& stop,
                             std::chrono::milliseconds patience) {
  LARDER_RETURN_IF_ERROR(CheckPermissions(store_path, /*for_writing=*/true));
  const auto asked = std::chrono::steady_clock::now();
  const std::string id = fmt::format("{}-{}", ::getpid(), asked.time_since_epoch().count());
  LARDER_RETURN_IF_ERROR(WriteRequest(store_path, id, name + "\n" + text));
  std::error_code ignored;
  // The answer is there before the request is gone.
  while (FirstLine(ReadWholeFile(RequestPath(store_path))).first == id) {
    if (std::chrono::steady_clock::now() - asked > patience) {
      fs::remove(RequestPath(store_path), ignored);
      return MakeError(ErrorCode::kTimeout,
                       "the process that owns the store {} does not answer; is it a larder that "
                       "can, and does it run?",
                       store_path);
    }
    if (!RealClock()->SleepFor(kLook, stop)) {
      fs::remove(RequestPath(store_path), ignored);
      return MakeError(ErrorCode::kCancelled, "interrupted before the owner of {} answered",
                       store_path);
    }
  }
  return TakeAnswer(store_path, id);
}

Result<SnapshotInfo> AskOwnerForSnapshot(const std::string& store_path, const std::string& name,
                                         const std::stop_token& stop,
                                         std::chrono::milliseconds patience) {
  LARDER_RETURN_IF_ERROR(CheckSnapshotIsNew(store_path, name));
  if (auto made = AskOwner(store_path, kSnapshot, name, stop, patience); !made) {
    return tl::unexpected(std::move(made.error()));
  }
  LARDER_ASSIGN_OR_RETURN(const auto snapshots, ListSnapshots(store_path));
  const auto made = std::find_if(snapshots.begin(), snapshots.end(),
                                 [&](const SnapshotInfo& info) { return info.name == name; });
  if (made != snapshots.end()) return *made;
  return MakeError(ErrorCode::kNotReady, "the snapshot {} of the store {} is gone already", name,
                   store_path);
}

void AnswerRequests(Store& store, const std::string& name, OwnerAnswer answer) {
  store.impl().answers().Add(name, std::move(answer));
}

void StopAnswering(Store& store, const std::string& name) { store.impl().answers().Remove(name); }

void OwnerAnswers::Add(const std::string& name, OwnerAnswer answer) {
  MutexLock lock(mutex_);
  answers_[name] = std::move(answer);
}

void OwnerAnswers::Remove(const std::string& name) {
  MutexLock lock(mutex_);
  answers_.erase(name);
}

Result<std::string> OwnerAnswers::Answer(const std::string& name, const std::string& text) {
  MutexLock lock(mutex_);
  const auto known = answers_.find(name);
  if (known != answers_.end()) return known->second(text);
  return MakeError(ErrorCode::kNotFound, "the process that owns the store has no {} open", name);
}

void OwnerAnswers::Poll(Store::Impl& impl) {
  const std::string& store = impl.options.path;
  if (impl.options.in_memory || !FileExists(RequestPath(store))) return;
  const auto [id, rest] = FirstLine(ReadWholeFile(RequestPath(store)));
  const auto [name, text] = FirstLine(rest);
  std::error_code ignored;
  if (id.find('/') != std::string::npos) {  // nobody's
    fs::remove(RequestPath(store), ignored);
    return;
  }
  const Result<std::string> answer =
      name == kSnapshot
          ? MakeSnapshot(impl, text).map([](const SnapshotInfo& made) { return made.name; })
          : Answer(name, text);
  spdlog::info("store {}: asked for {} {}: {}", store, name, text,
               answer ? "done" : answer.error().message);
  std::ofstream(AnswerPath(store, id), std::ios::binary)
      << (answer ? "ok" : std::to_string(static_cast<int>(answer.error().code))) << '\n'
      << (answer ? *answer : answer.error().message);
  // Who asked may have given up meanwhile, and another one be asking.
  if (FirstLine(ReadWholeFile(RequestPath(store))).first == id) {
    fs::remove(RequestPath(store), ignored);
  }
}

}  // namespace larder
