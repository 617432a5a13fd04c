#include "storage/mailbox.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "storage/directory.h"
#include "storage/engine_catalog.h"
#include "storage/owner_lock.h"
#include "storage/snapshots.h"
#include "storage/store_impl.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

std::string RecordPath(const std::string& store) { return TuningPath(store) + "/record"; }
std::string PartPath(const std::string& store) { return TuningPath(store) + "/trace.part"; }
std::string TracePath(const std::string& store) { return TuningPath(store) + "/trace"; }
std::string ErrorPath(const std::string& store) { return TuningPath(store) + "/record.error"; }

// Of a recording.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);

// Anybody may have written the file: what is no number is nullopt.
std::optional<uint64_t> NumberAt(const Json& request, const char* key,
                                 std::optional<uint64_t> where_missing) {
  if (!request.is_object()) return std::nullopt;
  const auto found = request.find(key);
  if (found == request.end()) return where_missing;
  return found->is_number_unsigned() ? std::optional(found->get<uint64_t>()) : std::nullopt;
}

void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

// Whole or not at all, and for its owner only.
Result<void> WriteFile(const std::string& path, const std::string& text) {
  const std::string part = path + ".new";
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    ::chmod(part.c_str(), 0600);
    file << text;
    file.flush();
    if (!file) {
      return MakeError(errno == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
                       "cannot write {}: {}", part, std::strerror(errno));
    }
  }
  if (::rename(part.c_str(), path.c_str()) == 0) return {};
  return MakeError(ErrorCode::kIo, "cannot write {}: {}", path, std::strerror(errno));
}

Result<void> MakeTuningFolder(const std::string& store) {
  LARDER_RETURN_IF_ERROR(CheckPermissions(store, /*for_writing=*/true));
  if (::mkdir(TuningPath(store).c_str(), 0700) == 0 || errno == EEXIST) return {};
  return MakeError(ErrorCode::kIo, "cannot make {}: {}", TuningPath(store), std::strerror(errno));
}

}  // namespace

std::string TuningPath(const std::string& store_path) { return store_path + "/tuning"; }
std::string AppliedOptionsPath(const std::string& store_path) {
  return TuningPath(store_path) + "/options";
}

Result<void> RequestRecording(const std::string& store_path, std::chrono::milliseconds duration,
                              uint64_t max_bytes) {
  if (!HasDatabase(store_path)) {
    return MakeError(ErrorCode::kNotFound, "there is no store at {}", store_path);
  }
  if (LockOwner(store_path) == 0) {
    return MakeError(
        ErrorCode::kNotReady,
        "no process has the store {} open, so there is nothing to record; start it, or "
        "make a workload from what is stored: larder tune model --store {}",
        store_path, store_path);
  }
  LARDER_RETURN_IF_ERROR(MakeTuningFolder(store_path));
  if (FileExists(RecordPath(store_path))) {
    return MakeError(ErrorCode::kAlreadyExists,
                     "the store {} is being recorded already (remove {} "
                     "if nobody does)",
                     store_path, RecordPath(store_path));
  }
  Remove(TracePath(store_path));
  Remove(ErrorPath(store_path));
  return WriteFile(RecordPath(store_path),
                   Json{{"milliseconds", duration.count()}, {"maxBytes", max_bytes}}.dump());
}

void EndRecording(const std::string& store_path) { Remove(RecordPath(store_path)); }

RecordingProgress LookAtRecording(const std::string& store_path) {
  RecordingProgress progress;
  std::error_code error;
  if (FileExists(TracePath(store_path))) {
    progress.state = RecordingProgress::State::kDone;
    progress.bytes = fs::file_size(TracePath(store_path), error);
  } else if (FileExists(ErrorPath(store_path))) {
    progress.state = RecordingProgress::State::kFailed;
    progress.error = ReadWholeFile(ErrorPath(store_path));
  } else if (FileExists(PartPath(store_path))) {
    progress.state = RecordingProgress::State::kRecording;
    progress.bytes = fs::file_size(PartPath(store_path), error);
  }
  return progress;
}

Result<void> TakeRecording(const std::string& store_path, const std::string& to) {
  std::error_code error;
  fs::rename(TracePath(store_path), to, error);
  if (error == std::errc::cross_device_link) {
    fs::copy_file(TracePath(store_path), to, fs::copy_options::overwrite_existing, error);
    if (!error) Remove(TracePath(store_path));
  }
  if (!error) return {};
  return MakeError(error == std::errc::no_space_on_device ? ErrorCode::kNoSpace : ErrorCode::kIo,
                   "cannot move the trace to {}: {}; it stays at {}", to, error.message(),
                   TracePath(store_path));
}

Result<LiveChange> ChangeOptions(Store& store, const EngineOptions& engine) {
  return store.impl().ChangeEngine(engine);
}

LiveChange ChangeDatabaseOptions(Database& database, const EngineOptions& engine,
                                 EngineOptions& in_use) {
  LiveChange out;
  for (const auto& [place, value] : in_use.values()) {
    if (!engine.values().contains(place)) {
      out.at_next_start.push_back(EngineOptions::ShortName(place));
    }
  }
  for (const auto& [place, value] : engine.values()) {
    const std::string name = EngineOptions::ShortName(place);
    const auto before = in_use.values().find(place);
    if (before != in_use.values().end() && before->second == value) continue;
    const EngineSpec* const spec = FindEngineSpec(place.section, place.name);
    rocksdb::Status status = rocksdb::Status::NotSupported();
    if (spec->live && place.section == EngineSection::kDatabase) {
      status = database->SetDBOptions({{place.name, value}});
    } else if (spec->live && place.section == EngineSection::kFamily) {
      constexpr std::string_view kUniversal = "universal_";
      const std::string option =
          place.name.starts_with(kUniversal)
              ? "compaction_options_universal." + place.name.substr(kUniversal.size())
              : place.name;
      for (size_t i = 0; i < kFamilyNames.size(); ++i) {
        // A family's own value wins over that of all.
        if (place.family != "*" && place.family != kFamilyNames[i]) continue;
        if (place.family == "*" &&
            engine.values().contains({place.section, std::string(kFamilyNames[i]), place.name})) {
          status = rocksdb::Status::OK();
          continue;
        }
        status = database->SetOptions(database.family(static_cast<Family>(i)), {{option, value}});
        if (!status.ok()) break;
      }
    }
    (status.ok() ? out.changed : out.at_next_start).push_back(name);
    if (status.ok()) (void)in_use.Set(place, value);
  }
  return out;
}

Result<void> LeaveOptions(const std::string& store_path, const EngineOptions& engine) {
  if (!HasDatabase(store_path)) {
    return MakeError(ErrorCode::kNotFound, "there is no store at {}", store_path);
  }
  LARDER_RETURN_IF_ERROR(MakeTuningFolder(store_path));
  if (engine.Empty()) {
    Remove(AppliedOptionsPath(store_path));
    return {};
  }
  return WriteFile(AppliedOptionsPath(store_path), engine.ToText());
}

// What follows runs in the owner.

void Mailbox::Poll(Store::Impl& impl) {
  if (impl.options.in_memory) return;
  PollRecording(impl);
  PollOptions(impl);
  impl.answers().Poll(impl);
}

void Mailbox::PollRecording(Store::Impl& impl) {
  const std::string& store = impl.options.path;
  const bool asked = FileExists(RecordPath(store));
  if (recording_) {
    const bool over = impl.options.clock->Now() >= until_;
    if (asked && !over && !impl.recorder().ended()) return;
    FinishRecording(impl);
    return;
  }
  if (!asked) return;
  const Json request = Json::parse(ReadWholeFile(RecordPath(store)), nullptr, false);
  const auto milliseconds = NumberAt(request, "milliseconds", std::nullopt);
  const auto max_bytes = NumberAt(request, "maxBytes", kMostBytes);
  if (!milliseconds || !max_bytes) {
    (void)WriteFile(ErrorPath(store), "the request cannot be read");
    Remove(RecordPath(store));
    return;
  }
  const std::chrono::milliseconds duration(
      std::min(*milliseconds, static_cast<uint64_t>(kLongest.count())));
  const auto started = impl.recorder().Start({.path = PartPath(store), .max_bytes = *max_bytes});
  if (!started) {
    (void)WriteFile(ErrorPath(store), started.error().message);
    Remove(RecordPath(store));
    return;
  }
  recording_ = true;
  until_ = impl.options.clock->Now() + duration;
  spdlog::info("recording the store {} for {} s", store, duration.count() / 1000);
}

void Mailbox::Close(Store::Impl& impl) {
  if (recording_) FinishRecording(impl);
}

void Mailbox::FinishRecording(Store::Impl& impl) {
  const std::string& store = impl.options.path;
  recording_ = false;
  const auto summary = impl.StopRecording();
  if (!summary) {
    Remove(PartPath(store));
    (void)WriteFile(ErrorPath(store), summary.error().message);
  } else if (::rename(PartPath(store).c_str(), TracePath(store).c_str()) != 0) {
    (void)WriteFile(ErrorPath(store), std::strerror(errno));
  }
  Remove(RecordPath(store));
  spdlog::info("recording of the store {} ended", store);
}

void Mailbox::PollOptions(Store::Impl& impl) {
  struct stat now {};
  const std::string path = AppliedOptionsPath(impl.options.path);
  const bool there = ::stat(path.c_str(), &now) == 0;
  const int64_t stamp =
      there ? int64_t{now.st_mtim.tv_sec} * 1'000'000'000 + now.st_mtim.tv_nsec : 0;
  if (!seen_) {
    // What was there at the start is in use, or another choice was made for this run.
    seen_ = true;
    options_stamp_ = stamp;
    return;
  }
  if (stamp == options_stamp_) return;
  options_stamp_ = stamp;
  if (!there) {
    spdlog::info("store {}: its options were taken away; the next start uses larder's own",
                 impl.options.path);
    return;
  }
  const auto engine = EngineOptions::Load(path);
  if (!engine) {
    spdlog::error("{}; nothing is changed", engine.error().message);
    return;
  }
  const auto change = impl.ChangeEngine(*engine);
  if (!change) return;
  spdlog::info("store {}: {} options changed, {} wait for the next start", impl.options.path,
               change->changed.size(), change->at_next_start.size());
}

}  // namespace larder
