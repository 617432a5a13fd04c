// `larder backup create|ls|verify|restore|prune`: copies of a store on another disk.
#include "tools/backup.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "storage/maintenance.h"
#include "tools/age.h"
#include "tools/command.h"
#include "tools/live_snapshot.h"
#include "tools/output.h"
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

// The store itself where nobody has it open, else a snapshot that its owner makes for us.
Result<BackupInfo> BackUp(const BackupArguments& arguments, const std::stop_token& stop) {
  const auto own = Store::Open(arguments.store.Options());
  if (own) return CreateBackup(**own, arguments.backups);
  if (own.error().code != ErrorCode::kLocked) {
    return tl::unexpected(ExplainStoreError(own.error(), arguments.store, "a backup"));
  }
  const std::string name = fmt::format("backup-{}", ::getpid());
  LARDER_ASSIGN_OR_RETURN(const SnapshotInfo snapshot,
                          SnapshotLiveOrNot(arguments.store, name, stop));
  StoreOptions options = arguments.store.Options();
  options.path = fmt::format("{}/snapshots/{}", arguments.store.path, snapshot.name);
  Result<BackupInfo> info;
  {
    const auto store = Store::Open(options);
    info = store ? CreateBackup(**store, arguments.backups)
                 : Result<BackupInfo>(tl::unexpected(store.error()));
  }
  LARDER_RETURN_IF_ERROR(RemoveSnapshot(arguments.store.path, name));
  return info;
}

Result<int> Create(const BackupArguments& arguments, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const BackupInfo info, BackUp(arguments, stop));
  LARDER_RETURN_IF_ERROR(VerifyBackup(arguments.backups, info.id));
  if (arguments.keep != 0) LARDER_RETURN_IF_ERROR(PurgeBackups(arguments.backups, arguments.keep));
  Stdout().Print("{}: backup {}, {}, verified\n", arguments.backups, info.id,
                 HumanBytes(info.bytes));
  return kOk;
}

Result<int> List(const BackupArguments& arguments, const std::stop_token&) {
  LARDER_ASSIGN_OR_RETURN(const auto backups, ListBackups(arguments.backups));
  if (arguments.json) {
    Json list = Json::array();
    for (const BackupInfo& info : backups) {
      list.push_back({{"id", info.id},
                      {"created", FormatTimestamp(info.created_ms / 1000)},
                      {"bytes", info.bytes}});
    }
    Stdout().Write(list.dump(2) + "\n");
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

Result<int> Check(const BackupArguments& arguments, const std::stop_token&) {
  LARDER_ASSIGN_OR_RETURN(const BackupInfo info, Pick(arguments));
  LARDER_RETURN_IF_ERROR(VerifyBackup(arguments.backups, info.id));
  Stdout().Print("backup {} is sound: {}\n", info.id, HumanBytes(info.bytes));
  return kOk;
}

Result<int> Restore(const BackupArguments& arguments, const std::stop_token&) {
  LARDER_ASSIGN_OR_RETURN(const BackupInfo info, Pick(arguments));
  std::error_code ignored;
  if (!arguments.force && std::filesystem::exists(arguments.store.path + "/CURRENT", ignored)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "there is a store at {}; --force puts backup {} in its place",
                     arguments.store.path, info.id);
  }
  const auto restored = RestoreBackup(arguments.store.Options(), arguments.backups, info.id);
  if (!restored) {
    return tl::unexpected(
        ExplainStoreError(restored.error(), arguments.store, "restoring a backup"));
  }
  Stdout().Print("{} is what it was in backup {}\n", arguments.store.path, info.id);
  return kOk;
}

Result<int> Prune(const BackupArguments& arguments, const std::stop_token&) {
  LARDER_RETURN_IF_ERROR(PurgeBackups(arguments.backups, arguments.keep));
  return kOk;
}

}  // namespace

void AddBackup(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<BackupArguments>();
  CLI::App* command = app.add_subcommand("backup", "Copy a store to another disk, and back");
  command->require_subcommand(1);
  using Run = Result<int> (*)(const BackupArguments&, const std::stop_token&);
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
