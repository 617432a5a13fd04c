// `larder backup create|ls|verify|restore|prune`: copies of a store on another disk.
#include "tools/backup.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "storage/maintenance.h"
#include "tools/age.h"
#include "tools/command.h"
#include "tools/live_snapshot.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/store_access.h"
#include "tools/table_writer.h"

namespace larder::tools {
namespace {

struct BackupArguments {
  StoreArguments store;
  std::string backups;
  uint32_t id = 0;    // 0: the newest
  uint32_t keep = 0;  // 0: all
  bool force = false;
  bool json = false;
};

// What a backup is copied from, so that the store is ours only while the snapshot is made: its
// owner goes on, and one that starts is not refused. Removed on every way out.
//
// The lock lets one process at a time back a store up. So a snapshot that is there when we have it
// is what a killed one left, or what an owner made for one that did not wait.
class Source {
 public:
  static constexpr const char* kName = "backup-in-progress";

  ~Source() { Remove(); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  static Result<std::unique_ptr<Source>> Take(const StoreArguments& store,
                                              const StopOnSignal& stop) {
    LARDER_RETURN_IF_ERROR(ListSnapshots(store.path));  // is it a store?
    LARDER_ASSIGN_OR_RETURN(FileLock lock, Lock(store.path));
    std::unique_ptr<Source> source(new Source(store, std::move(lock)));
    source->Remove();
    LARDER_RETURN_IF_ERROR(SnapshotLiveOrNot(store, kName, stop));
    return source;
  }

  Result<BackupInfo> CopyTo(const std::string& backups) const {
    StoreOptions options = store_.Options();
    options.path = Path();
    LARDER_ASSIGN_OR_RETURN(const auto snapshot, Store::Open(options));
    return CreateBackup(*snapshot, backups);
  }

  // Also what is left of one whose removal was cut off, which is no snapshot any more. Again while
  // it is there: an interrupt comes while another thread opens it and makes files in it, which ends
  // with an error once the rest is gone.
  void Remove() const {
    std::error_code ignored;
    for (int tries = 0; tries < 100 && std::filesystem::exists(Path(), ignored); ++tries) {
      std::filesystem::remove_all(Path(), ignored);
    }
  }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using FileLock = std::unique_ptr<std::FILE, CloseFile>;  // given back where it is closed

  Source(const StoreArguments& store, FileLock lock) : store_(store), lock_(std::move(lock)) {}

  std::string Path() const { return fmt::format("{}/snapshots/{}", store_.path, kName); }
  static Result<FileLock> Lock(const std::string& store) {
    const std::string folder = store + "/snapshots", path = folder + "/backup.lock";
    (void)::mkdir(folder.c_str(), 0700);
    FileLock lock(std::fopen(path.c_str(), "ae"));
    if (lock && ::flock(::fileno(lock.get()), LOCK_EX | LOCK_NB) == 0) return lock;
    if (lock && errno == EWOULDBLOCK) {
      return MakeError(ErrorCode::kLocked, "another backup of {} is being made", store);
    }
    return MakeError(ErrorCode::kIo, "cannot lock {}: {}", path, std::strerror(errno));
  }

  const StoreArguments& store_;
  const FileLock lock_;
};

Result<BackupInfo> BackUp(const BackupArguments& arguments, const StopOnSignal& signals) {
  LARDER_ASSIGN_OR_RETURN(const auto source, Source::Take(arguments.store, signals));
  const std::stop_callback at_once(std::stop_token(signals), [&] {
    source->Remove();
    EndInterrupted();
  });
  const Waiting waiting("copying to " + arguments.backups);
  auto info = source->CopyTo(arguments.backups);
  if (info) return info;
  // What is in use is the backups.
  return tl::unexpected(ExplainDamage(info.error(), arguments.store));
}

Result<void> Compare(const BackupArguments& arguments, uint32_t id) {
  const Waiting waiting(fmt::format("reading backup {}", id));
  return VerifyBackup(arguments.backups, id);
}

Result<int> Create(const BackupArguments& arguments, const StopOnSignal& signals) {
  LARDER_ASSIGN_OR_RETURN(const BackupInfo info, BackUp(arguments, signals));
  const std::stop_callback at_once(std::stop_token(signals), EndInterrupted);
  LARDER_RETURN_IF_ERROR(Compare(arguments, info.id));
  if (arguments.keep != 0) LARDER_RETURN_IF_ERROR(PurgeBackups(arguments.backups, arguments.keep));
  Stdout().Print("{}: backup {}, {}, verified\n", arguments.backups, info.id,
                 HumanBytes(info.bytes));
  return kOk;
}

Result<int> List(const BackupArguments& arguments, const StopOnSignal&) {
  LARDER_ASSIGN_OR_RETURN(const auto backups, ListBackups(arguments.backups));
  if (arguments.json) {
    Json list = Json::array();
    for (const BackupInfo& info : backups) {
      list.push_back({{"id", info.id},
                      {"created", FormatTimestamp(info.created_ms / 1000)},
                      {"bytes", info.bytes}});
    }
    Stdout().Write(IndentedJson(list));
    return kOk;
  }
  TableWriter table({"ID", "AGE", "SIZE"});
  for (const BackupInfo& info : backups) {
    table.Add({std::to_string(info.id), AgeOf(info.created_ms / 1000, NowSeconds()),
               HumanBytes(info.bytes)});
  }
  table.Flush(Stdout());
  return kOk;
}

// The one that is meant, or an error that lists what there is.
Result<BackupInfo> Pick(const BackupArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto backups, ListBackups(arguments.backups));
  std::string known;
  for (const BackupInfo& info : backups) {
    if (info.id == arguments.id) return info;
    known += (known.empty() ? "" : ", ") + std::to_string(info.id);
  }
  if (arguments.id == 0 && !backups.empty()) return backups.back();
  return MakeError(ErrorCode::kNotFound, "no backup{} at {}; there is {}",
                   arguments.id == 0 ? "" : " " + std::to_string(arguments.id), arguments.backups,
                   known.empty() ? "none" : known);
}

Result<int> Check(const BackupArguments& arguments, const StopOnSignal&) {
  LARDER_ASSIGN_OR_RETURN(const BackupInfo info, Pick(arguments));
  LARDER_RETURN_IF_ERROR(Compare(arguments, info.id));
  Stdout().Print("backup {} is sound: {}\n", info.id, HumanBytes(info.bytes));
  return kOk;
}

Result<int> Restore(const BackupArguments& arguments, const StopOnSignal&) {
  LARDER_ASSIGN_OR_RETURN(const BackupInfo info, Pick(arguments));
  std::error_code ignored;
  if (!arguments.force && std::filesystem::exists(arguments.store.path + "/CURRENT", ignored)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "there is a store at {}; --force puts backup {} in its place",
                     arguments.store.path, info.id);
  }
  Waiting waiting(fmt::format("restoring backup {}", info.id));
  const auto restored = RestoreBackup(arguments.store.Options(), arguments.backups, info.id);
  waiting.Finish();
  // What is damaged is the backup.
  if (!restored) return tl::unexpected(ExplainLock(restored.error(), "restoring a backup"));
  Stdout().Print("{} is what it was in backup {}\n", arguments.store.path, info.id);
  return kOk;
}

Result<int> Prune(const BackupArguments& arguments, const StopOnSignal&) {
  LARDER_RETURN_IF_ERROR(PurgeBackups(arguments.backups, arguments.keep));
  return kOk;
}

}  // namespace

void AddBackup(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<BackupArguments>();
  CLI::App* command = app.add_subcommand("backup", "Copy a store to another disk, and back");
  command->require_subcommand(1);
  using Run = Result<int> (*)(const BackupArguments&, const StopOnSignal&);
  const auto add = [&](const char* name, const char* help, Run run) {
    CLI::App* verb = command->add_subcommand(name, help);
    verb->add_option("backups", arguments->backups, "The directory that the backups are in")
        ->required()
        ->type_name("DIR");
    verb->callback([arguments, &context, run] {
      context.exit_code = ExitCode(run(*arguments, context.stop));
      Stdout().Flush();
    });
    return verb;
  };
  const auto add_id = [&](CLI::App* verb) {
    verb->add_option("id", arguments->id, "Which one; none: the newest")->type_name("ID");
  };
  CLI::App* create =
      add("create", "Copy what changed since the last one, beside a running owner too", Create);
  AddStoreOptions(create, arguments->store);
  create->add_option("--keep", arguments->keep, "Then remove all but so many; 0: none")
      ->check(CheckCount)
      ->capture_default_str();
  add("ls", "List the backups", List)->add_flag("--json", arguments->json, "For scripts");
  add_id(add("verify", "Read every file of a backup and compare its checksum", Check));
  CLI::App* restore =
      add("restore", "Make a store from a backup; needs the store to itself", Restore);
  add_id(restore);
  restore->add_flag("--force", arguments->force, "In place of a store that is there");
  AddStoreOptions(restore, arguments->store);
  add("prune", "Remove old backups", Prune)
      ->add_option("--keep", arguments->keep, "How many stay")
      ->required()
      ->check([](const std::string& text) {
        const std::string wrong = CheckCount(text);
        return wrong.empty() && text == "0" ? "at least one has to stay" : wrong;
      });
}

}  // namespace larder::tools
