// `larder snapshot create|ls|rm|restore`: moments of a store, kept beside it.
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

struct SnapshotArguments {
  StoreArguments store;
  std::string name;
  bool json = false;
};

Result<int> Create(const SnapshotArguments& arguments, const StopOnSignal& stop) {
  LARDER_ASSIGN_OR_RETURN(const SnapshotInfo info,
                          SnapshotLiveOrNot(arguments.store, arguments.name, stop));
  Stdout().Print("{}/snapshots/{}: {}\n", arguments.store.path, info.name, HumanBytes(info.bytes));
  return kOk;
}

Result<int> List(const SnapshotArguments& arguments, const StopOnSignal&) {
  LARDER_ASSIGN_OR_RETURN(const auto snapshots, ListSnapshots(arguments.store.path));
  if (arguments.json) {
    Json list = Json::array();
    for (const SnapshotInfo& info : snapshots) {
      list.push_back({{"name", info.name},
                      {"created", FormatTimestamp(info.created_ms / 1000)},
                      {"bytes", info.bytes}});
    }
    Stdout().Write(IndentedJson(list));
    return kOk;
  }
  TableWriter table({"NAME", "AGE", "SIZE"});
  for (const SnapshotInfo& info : snapshots) {
    table.Add({info.name, AgeOf(info.created_ms / 1000, NowSeconds()), HumanBytes(info.bytes)});
  }
  table.Flush(Stdout());
  return kOk;
}

Result<int> Remove(const SnapshotArguments& arguments, const StopOnSignal&) {
  LARDER_RETURN_IF_ERROR(RemoveSnapshot(arguments.store.path, arguments.name));
  return kOk;
}

Result<int> Restore(const SnapshotArguments& arguments, const StopOnSignal&) {
  const auto restored = RestoreSnapshot(arguments.store.Options(), arguments.name);
  // What is damaged is the snapshot.
  if (!restored) return tl::unexpected(ExplainLock(restored.error(), "restoring a snapshot"));
  Stdout().Print("{} is what it was at {}\n", arguments.store.path, arguments.name);
  return kOk;
}

}  // namespace

void AddSnapshot(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<SnapshotArguments>();
  CLI::App* command =
      app.add_subcommand("snapshot", "Keep moments of a store, and go back to them");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help,
                       Result<int> (*run)(const SnapshotArguments&, const StopOnSignal&),
                       bool named) {
    CLI::App* verb = command->add_subcommand(name, help);
    if (named) {
      verb->add_option("name", arguments->name, "Letters, digits, '.', '-', '_'")->required();
    }
    AddStoreOptions(verb, arguments->store);
    if (!named) verb->add_flag("--json", arguments->json, "For scripts");
    verb->callback([arguments, &context, run] {
      context.exit_code = ExitCode(run(*arguments, context.stop));
      Stdout().Flush();
    });
  };
  add("create", "Keep this moment; where a process has the store open, that one makes it", Create,
      true);
  add("ls", "List the snapshots", List, false);
  add("rm", "Remove a snapshot", Remove, true);
  add("restore", "Make the store what it was; needs the store to itself", Restore, true);
}

}  // namespace larder::tools
