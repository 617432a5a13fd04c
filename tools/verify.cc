// `larder verify [--repair]`: is everything in the store what was written?
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "storage/keys.h"
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

// Places in a store in people's words: a collection and an object, an index, a queue's item.
class Places {
 public:
  explicit Places(const Store& store) {
    const auto collections = store.Collections();
    if (!collections) return;
    for (const CollectionInfo& info : *collections) {
      names_[info.id] = info.spec.ToString();
      const auto records = store.IndexRecords(info.id);
      if (!records) continue;
      for (const IndexRecord& record : *records) {
        indexes_[keys::IndexPrefix(info.id, record.id)] = record.name;
      }
    }
  }

  std::string NameOf(const Problem& problem) const {
    const std::string key = keys::UnescapePart(problem.key).value_or(problem.key);
    const auto known = names_.find(problem.collection);
    const std::string name = known == names_.end() ? "no collection" : known->second;
    if (problem.family == "objects") {
      const auto object = keys::ParseObject(key);
      return object ? name + " " + object->ToString() : "objects of " + name;
    }
    if (problem.family == "indexes") {
      const size_t end = key.find('/', key.find('/') + 1);
      const auto index = indexes_.find(key.substr(0, end == std::string::npos ? end : end + 1));
      const std::string of =
          fmt::format("index {} of {}", index == indexes_.end() ? "?" : index->second, name);
      const auto entry = keys::ParseIndex(key);
      return entry ? fmt::format("{}, {} -> {}", of, entry->value, entry->key.ToString()) : of;
    }
    if (problem.family == "deltas") {
      const auto object = keys::ParseDelta(key);
      return fmt::format("pending change of {}{}", name, object ? " " + object->ToString() : "");
    }
    if (problem.family == "queues") {
      const auto item = keys::ParseQueueItem(key);
      return item ? fmt::format("queue {}, {}", item->queue, item->item) : "queue " + key;
    }
    return key.empty() ? problem.family : problem.family + " " + key;
  }

 private:
  std::map<CollectionId, std::string> names_;
  std::map<std::string, std::string> indexes_;  // by the prefix of their keys
};

// What Verify found, and for each problem the place in words.
struct Checked {
  VerifyReport report;
  std::vector<std::string> places;
};

Result<Checked> Check(const VerifyArguments& arguments, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  Progress progress("verifying", EstimateObjects(*store));
  VerifyOptions options;
  options.stop = stop;
  options.progress = [&](uint64_t objects) { progress.Update(objects); };
  Checked out;
  LARDER_ASSIGN_OR_RETURN(out.report, Verify(*store, options));
  const Places places(*store);
  for (const Problem& problem : out.report.problems) out.places.push_back(places.NameOf(problem));
  return out;
}

void Print(const Checked& checked) {
  const VerifyReport& report = checked.report;
  Output& out = Stdout();
  for (size_t i = 0; i < report.problems.size(); ++i) {
    out.PrintForPeople("{}: {}\n", checked.places[i], report.problems[i].message);
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

void PrintJson(const Checked& checked) {
  const VerifyReport& report = checked.report;
  Json problems = Json::array();
  for (size_t i = 0; i < report.problems.size(); ++i) {
    const Problem& problem = report.problems[i];
    problems.push_back({{"place", checked.places[i]},
                        {"family", problem.family},
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
  Stdout().Write(IndentedJson(out));
}

Result<void> RepairStore(const VerifyArguments& arguments, const std::stop_token& stop) {
  // Doing it again finishes one that was cut off.
  const std::stop_callback at_once(stop, EndInterrupted);
  Waiting waiting("repairing", arguments.json);
  StoreOptions options = arguments.store.Options();
  options.create_if_missing = true;  // the new store, beside the old files
  auto report = Repair(options);
  waiting.Finish();
  if (!report) {
    return tl::unexpected(ExplainStoreError(report.error(), arguments.store, "a repair"));
  }
  Output& out = Stdout();
  const bool known = report->gaps == 0;
  if (arguments.json) {
    const auto lost = [&](uint64_t count) { return known || count > 0 ? Json(count) : Json(); };
    const Json json = {{"objectsKept", report->objects_kept},
                       {"objectsLost", lost(report->objects_lost)},
                       {"otherRowsKept", report->other_rows_kept},
                       {"otherRowsLost", lost(report->other_rows_lost)},
                       {"unreadablePlaces", report->gaps},
                       {"relist", report->relist},
                       {"damagedFiles", report->damaged_files}};
    out.Write(IndentedJson(json));
    return {};
  }
  out.Print("kept {} and {} other rows", Plural(report->objects_kept, "object"),
            HumanCount(report->other_rows_kept));
  if (known || report->objects_lost + report->other_rows_lost > 0) {
    out.Print("; lost {}{} and {} other rows", known ? "" : "at least ",
              Plural(report->objects_lost, "object"), HumanCount(report->other_rows_lost));
  }
  if (!known) {
    out.Print("; {} could not be read, and how much was there is not known",
              Plural(report->gaps, "place"));
  }
  out.Write("\n");
  for (const std::string& collection : report->relist) {
    out.PrintForPeople("will be listed anew at the next start: {}\n", collection);
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
  const bool sound = report && report->report.Ok();
  if (arguments.repair && !sound) {
    if (report && !arguments.json) Print(*report);
    if (broken) {
      std::fprintf(stderr, "larder: %s\n", Printable(report.error().message).c_str());
    }
    LARDER_RETURN_IF_ERROR(RepairStore(arguments, stop));
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
