// `larder compact`: rewrite a store once, without what was deleted.
#include <memory>
#include <nlohmann/json.hpp>

#include "storage/maintenance.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/store_access.h"

namespace larder::tools {
namespace {

struct CompactArguments {
  StoreArguments store;
  bool json = false;
};

Result<int> Run(const CompactArguments& arguments, const StopOnSignal& stop) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenOwner(arguments.store, "compacting"));
  Progress progress("compacting", 1000, arguments.json);
  CompactOptions options;
  options.stop = stop;
  options.progress = [&](const std::string& what, double done) {
    progress.Show(static_cast<uint64_t>(done * 1000), "compacting " + what);
  };
  LARDER_ASSIGN_OR_RETURN(const CompactReport report, Compact(*store, options));
  progress.Finish();
  Output& out = Stdout();
  if (arguments.json) {
    const Json json = {{"bytesBefore", report.bytes_before},
                       {"bytesAfter", report.bytes_after},
                       {"droppedDictionaries", report.dropped_dictionaries},
                       {"oldKeysNeeded", report.old_keys_needed}};
    out.Write(IndentedJson(json));
  } else {
    out.Print("{} before, {} after; {} dictionaries dropped\n", HumanBytes(report.bytes_before),
              HumanBytes(report.bytes_after), report.dropped_dictionaries.size());
    for (const std::string& collection : report.old_keys_needed) {
      out.Print(
          "keep the older keys: changes of {} that wait for a handler need them, or are not "
          "encrypted yet\n",
          collection);
    }
  }
  out.Flush();
  return kOk;
}

}  // namespace

void AddCompact(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<CompactArguments>();
  CLI::App* command = app.add_subcommand(
      "compact", "Rewrite a store without what was deleted; needs the store to itself");
  AddStoreOptions(command, arguments->store);
  command->add_flag("--json", arguments->json, "For scripts");
  command->callback([arguments, &context] {
    context.exit_code = ExitCode(Run(*arguments, context.stop), arguments->store);
  });
}

}  // namespace larder::tools
