// `larder stats`: what is in a store, what it costs on disk and in memory.
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "storage/maintenance.h"
#include "tools/age.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/store_access.h"
#include "tools/store_report.h"
#include "tools/table_writer.h"
#include "tuning/churn.h"

namespace larder::tools {
namespace {

struct StatsArguments {
  StoreArguments store;
  bool fast = false;
  bool json = false;
};

std::string Ratio(uint64_t whole, uint64_t part) {
  if (part == 0) return "";
  return fmt::format("{:.1f}x", static_cast<double>(whole) / static_cast<double>(part));
}

using ChurnByCollection = std::map<CollectionId, tuning::Churn>;

// In the unit in which it is at least one.
std::string PerTime(double per_second) {
  constexpr std::pair<double, const char*> kUnits[] = {{1, "s"}, {60, "min"}, {3600, "h"}};
  for (const auto& [seconds, unit] : kUnits) {
    if (per_second * seconds >= 1) return fmt::format("{:.1f}/{}", per_second * seconds, unit);
  }
  return per_second > 0 ? fmt::format("{:.1f}/d", per_second * 86'400) : "0";
}

void PrintCollections(const StoreStats& stats, const ChurnByCollection& churn, bool counted,
                      Output& out) {
  TableWriter table({"COLLECTION", "STATE", "OBJECTS", "JSON", "STORED", "RATIO", "CHURN",
                     "INDEXES", "PENDING", "UPDATED"});
  for (const size_t column : {2U, 3U, 4U, 5U, 6U, 7U, 8U}) table.AlignRight(column);
  for (const CollectionStats& entry : stats.collections) {
    const auto rates = churn.find(entry.info.id);
    table.Add({entry.info.spec.ToString(), std::string(ToString(entry.info.cursor.state)),
               counted ? HumanCount(entry.objects) : "-",
               counted ? HumanBytes(entry.json_bytes) : "-",
               counted ? HumanBytes(entry.stored_bytes) : "-",
               counted ? Ratio(entry.json_bytes, entry.stored_bytes) : "-",
               rates == churn.end() ? "-" : PerTime(rates->second.Total()),
               std::to_string(entry.indexes.size()), HumanCount(entry.pending_deltas),
               AgeOf(entry.info.cursor.updated_ms / 1000, NowSeconds())});
  }
  table.Flush(out);
}

void PrintDictionaries(const StoreStats& stats, bool counted, Output& out) {
  if (stats.dictionaries.empty()) return;
  TableWriter table({"DICTIONARY", "RESOURCE", "SIZE", "VALUES", "CURRENT"});
  table.AlignRight(2);
  table.AlignRight(3);
  for (const DictionaryStats& entry : stats.dictionaries) {
    table.Add({std::to_string(entry.id), entry.resource, HumanBytes(entry.stored_bytes),
               counted ? HumanCount(entry.values) : "-", entry.current ? "yes" : "no"});
  }
  out.Write("\n");
  table.Flush(out);
}

void PrintFamilies(const StoreStats& stats, Output& out) {
  TableWriter table(
      {"FAMILY", "ROWS", "FILES", "SIZE", "LEVELS", "SPACE AMP", "WRITE AMP", "TO COMPACT"});
  for (const size_t column : {1U, 2U, 3U, 5U, 6U, 7U}) table.AlignRight(column);
  for (const FamilyStats& entry : stats.families) {
    std::string levels;
    for (const FamilyStats::Level& level : entry.levels) {
      levels += fmt::format("{}L{}:{}", levels.empty() ? "" : " ", level.level, level.files);
    }
    const auto amplification = [](double value) {
      return value == 0 ? std::string("-") : fmt::format("{:.1f}", value);
    };
    table.Add({entry.name, HumanCount(entry.estimated_rows), std::to_string(entry.files),
               HumanBytes(entry.table_bytes), levels.empty() ? "-" : levels,
               amplification(entry.space_amplification), amplification(entry.write_amplification),
               HumanBytes(entry.pending_compaction_bytes)});
  }
  out.Write("\n");
  table.Flush(out);
}

void PrintQueues(const std::vector<QueueSummary>& queues, Output& out) {
  if (queues.empty()) return;
  TableWriter table({"QUEUE", "READY", "DELAYED", "DEAD", "OLDEST"});
  for (const size_t column : {1U, 2U, 3U}) table.AlignRight(column);
  for (const QueueSummary& queue : queues) {
    table.Add({queue.name, HumanCount(queue.ready), HumanCount(queue.delayed),
               HumanCount(queue.dead),
               queue.oldest_ms == 0 ? "-" : AgeOf(queue.oldest_ms / 1000, NowSeconds())});
  }
  out.Write("\n");
  table.Flush(out);
}

void PrintTotals(const StoreStats& stats, Output& out) {
  out.Print("\ndisk: {} in all: {} tables, {} log", HumanBytes(stats.total_bytes),
            HumanBytes(stats.table_bytes), HumanBytes(stats.log_bytes));
  if (stats.obsolete_files > 0) {
    out.Print(", {} in {} files that are no longer needed", HumanBytes(stats.obsolete_bytes),
              stats.obsolete_files);
  }
  out.Print(
      "\nmemory of this reader: {} index and filter blocks, {} dictionaries, {} block cache, {} "
      "memtables\n",
      HumanBytes(stats.memory.table_readers), HumanBytes(stats.memory.dictionaries),
      HumanBytes(stats.memory.block_cache), HumanBytes(stats.memory.memtables));
  out.Write(stats.owner_pid == 0
                ? std::string("no process has it open\n")
                : fmt::format("open in the process with pid {}\n", stats.owner_pid));
  if (!stats.health.empty()) out.Print("health: {}\n", stats.health);
}

Result<int> Run(const StatsArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const StoreStats stats,
                          GetStats(*store, {.count_objects = !arguments.fast}));
  LARDER_ASSIGN_OR_RETURN(const auto queues, SummariseQueues(*store));
  // Reads objects in full, so damage that the other figures do not meet stops it: then without.
  const ChurnByCollection churn =
      arguments.fast
          ? ChurnByCollection()
          : tuning::EstimateChurn(*store, stats.collections).value_or(ChurnByCollection());
  Output& out = Stdout();
  if (arguments.json) {
    Json json = StatsToJson(stats, queues, !arguments.fast);
    for (Json& entry : json["collections"]) {
      const auto rates = churn.find(entry["id"].get<CollectionId>());
      if (rates == churn.end()) continue;
      entry["churn"] = {{"updatesPerSecond", rates->second.updates},
                        {"createsPerSecond", rates->second.creates},
                        {"deletesPerSecond", rates->second.deletes}};
    }
    out.Write(IndentedJson(json));
  } else {
    PrintCollections(stats, churn, !arguments.fast, out);
    PrintDictionaries(stats, !arguments.fast, out);
    PrintFamilies(stats, out);
    PrintQueues(queues, out);
    PrintTotals(stats, out);
  }
  out.Flush();
  return kOk;
}

}  // namespace

void AddStats(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<StatsArguments>();
  CLI::App* command = app.add_subcommand("stats", "Show what a store holds and what it costs");
  AddStoreOptions(command, arguments->store);
  command->add_flag("--fast", arguments->fast,
                    "Do not count objects and bytes, nor estimate churn");
  command->add_flag("--json", arguments->json, "For scripts");
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Run(*arguments), arguments->store); });
}

}  // namespace larder::tools
