// `larder verify [--repair]`: is everything in the store what was written?
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "storage/maintenance.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/store_access.h"

namespace larder::tools {
namespace {

struct VerifyArguments {
  StoreArguments store;
  bool repair = false;
  bool json = false;
};

// How many objects there will be, for the bar: what RocksDB estimates.
uint64_t EstimateObjects(const Store& store) {
  const auto stats = GetStats(store, {.count_objects = false});
  if (!stats) return 0;
  for (const FamilyStats& family : stats->families) {
    if (family.name == "objects") return family.estimated_rows;
  }
  return 0;
}

Result<VerifyReport> Check(const VerifyArguments& arguments, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  Progress progress("verifying", EstimateObjects(*store));
  VerifyOptions options;
  options.stop = stop;
  options.progress = [&](uint64_t objects) { progress.Update(objects); };
  return Verify(*store, options);
}

void Print(const VerifyReport& report) {
  Output& out = Stdout();
  for (const Problem& problem : report.problems) {
    out.Print("{} {}: {}\n", problem.family, problem.key, problem.message);
  }
  if (report.problem_count > report.problems.size()) {
    out.Print("... and {} more\n", report.problem_count - report.problems.size());
  }
  const double seconds = static_cast<double>(report.took.count()) / 1000;
  out.Print("{} objects, {} index keys, {} queue items, {} pending changes in {} collections: ",
            HumanCount(report.objects), HumanCount(report.index_keys),
            HumanCount(report.queue_items), HumanCount(report.deltas), report.collections);
  out.Print("{} ({:.2f} s, {} objects a second)\n",
            report.Ok() ? "all sound" : Plural(report.problem_count, "problem"), seconds,
            HumanCount(static_cast<uint64_t>(static_cast<double>(report.objects) /
                                             std::max(seconds, 0.001))));
  if (report.sealed != 0) {
    out.Print("{} encrypted with a key that was not given: only their checksums were compared\n",
              report.sealed == 1 ? "1 object is" : HumanCount(report.sealed) + " objects are");
  }
}

void PrintJson(const VerifyReport& report) {
  Json problems = Json::array();
  for (const Problem& problem : report.problems) {
    problems.push_back({{"family", problem.family},
                        {"key", problem.key},
                        {"collection", problem.collection},
                        {"message", problem.message}});
  }
  const Json out = {{"ok", report.Ok()},
                    {"objects", report.objects},
                    {"encryptedWithAnotherKey", report.sealed},
                    {"indexKeys", report.index_keys},
                    {"queueItems", report.queue_items},
                    {"pendingChanges", report.deltas},
                    {"collections", report.collections},
                    {"problemCount", report.problem_count},
                    {"problems", std::move(problems)},
                    {"milliseconds", report.took.count()}};
  Stdout().Write(out.dump(2) + "\n");
}

Result<void> RepairStore(const VerifyArguments& arguments) {
  StoreOptions options = arguments.store.Options();
  options.create_if_missing = true;  // the new store, beside the old files
  auto report = Repair(options);
  if (!report) {
    return tl::unexpected(ExplainStoreError(report.error(), arguments.store, "a repair"));
  }
  Output& out = Stdout();
  if (arguments.json) {
    const Json json = {
        {"objectsKept", report->objects_kept},      {"objectsLost", report->objects_lost},
        {"otherRowsKept", report->other_rows_kept}, {"otherRowsLost", report->other_rows_lost},
        {"unreadablePlaces", report->gaps},         {"relist", report->relist},
        {"damagedFiles", report->damaged_files}};
    out.Write(json.dump(2) + "\n");
    return {};
  }
  out.Print("kept {} objects and {} other rows; lost {} objects and {} other rows\n",
            HumanCount(report->objects_kept), HumanCount(report->other_rows_kept),
            HumanCount(report->objects_lost), HumanCount(report->other_rows_lost));
  if (report->gaps != 0) {
    out.Print("{} could not be read: how much was there is not known\n",
              Plural(report->gaps, "place"));
  }
  for (const std::string& collection : report->relist) {
    out.Print("will be listed anew at the next start: {}\n", collection);
  }
  if (!report->damaged_files.empty()) {
    out.Print("the old files are in {}; remove them when they are not needed any more\n",
              report->damaged_files);
  }
  return {};
}

Result<int> Run(const VerifyArguments& arguments, const std::stop_token& stop) {
  auto report = Check(arguments, stop);
  const bool broken = !report && report.error().code == ErrorCode::kCorruption;
  if (!report && !broken) return tl::unexpected(report.error());
  const bool sound = report && report->Ok();
  if (arguments.repair && !sound) {
    if (report && !arguments.json) Print(*report);
    if (broken) std::fprintf(stderr, "larder: %s\n", report.error().message.c_str());
    LARDER_RETURN_IF_ERROR(RepairStore(arguments));
    Stdout().Flush();
    return kOk;
  }
  if (broken) return tl::unexpected(report.error());
  if (arguments.json) {
    PrintJson(*report);
  } else {
    Print(*report);
    if (!sound) {
      Stdout().Print("keep what is sound with: larder verify --repair --store {}\n",
                     arguments.store.path);
    }
  }
  Stdout().Flush();
  return sound ? kOk : kBadResult;
}

}  // namespace

void AddVerify(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command =
      app.add_subcommand("verify", "Check every object, index, queue item and record of a store");
  AddStoreOptions(command, arguments->store);
  command->add_flag(
      "--repair", arguments->repair,
      "Where something is damaged, keep all that is sound; needs the store to itself");
  command->add_flag("--json", arguments->json, "For scripts");
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Run(*arguments, context.stop)); });
}

}  // namespace larder::tools
