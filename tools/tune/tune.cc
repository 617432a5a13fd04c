// `larder tune`: measure this store's own workload, recommend options, prove them.
#include "tools/tune/tune.h"

#include "tools/output.h"
#include "tools/table_writer.h"

namespace larder::tools {

void AddTune(CLI::App& app, Context& context) {
  CLI::App* tune =
      app.add_subcommand("tune", "Find the options that suit a store's own workload, by measuring");
  tune->require_subcommand(1);
  AddTuneRecord(tune, context);
  AddTuneModel(tune, context);
  AddTuneReplay(tune, context);
  AddTuneReport(tune, context);
  AddTuneApply(tune, context);
  AddTuneOptions(tune, context);
}

void AddTuneOptions(CLI::App* tune, Context& context) {
  CLI::App* command = tune->add_subcommand("options", "List the options that can be set");
  command->callback([&context] {
    TableWriter table({"OPTION", "ALLOWED", "LIVE", "MEANING"});
    for (const EngineOptionInfo& info : KnownEngineOptions()) {
      std::string scope;
      switch (info.section) {
        case EngineSection::kLarder:
          scope = "larder.";
          break;
        case EngineSection::kDatabase:
          scope = "db.";
          break;
        case EngineSection::kFamily:
          scope = "FAMILY.";
          break;
        case EngineSection::kTable:
          scope = "FAMILY.table.";
          break;
      }
      table.Add({scope + info.name, info.allowed, info.live ? "yes" : "no", info.meaning});
    }
    table.Flush(Stdout());
    Stdout().Flush();
    context.exit_code = kOk;
  });
}

}  // namespace larder::tools
