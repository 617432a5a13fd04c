// `larder collections`: the streams that a store holds, and how far each is.
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/age.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/store_access.h"
#include "tools/store_report.h"
#include "tools/table_writer.h"

namespace larder::tools {
namespace {

struct CollectionsArguments {
  StoreArguments store;
  bool json = false;
};

Json ToJson(const CollectionInfo& info) {
  return {{"id", info.id},
          {"resource", info.spec.resource.ToString()},
          {"apiVersion", info.spec.resource.ApiVersion()},
          {"namespace", info.spec.ns},
          {"labelSelector", info.spec.label_selector},
          {"fieldSelector", info.spec.field_selector},
          {"projection", info.spec.projection},
          {"transform", info.spec.transform},
          {"shard", info.spec.shard},
          {"clusterUid", info.spec.cluster_uid},
          {"fingerprint", info.spec.Fingerprint()},
          {"state", std::string(ToString(info.cursor.state))},
          {"resourceVersion", info.cursor.resource_version},
          {"lists", info.cursor.epoch},
          {"updated", TimeToJson(info.cursor.updated_ms)},
          {"lastOpened", TimeToJson(info.last_opened_ms)}};
}

Result<int> Run(const CollectionsArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const auto collections, store->Collections());
  Output& out = Stdout();
  if (arguments.json) {
    Json list = Json::array();
    for (const CollectionInfo& info : collections) list.push_back(ToJson(info));
    out.Write(IndentedJson(list));
    out.Flush();
    return kOk;
  }
  TableWriter table({"ID", "COLLECTION", "CLUSTER", "STATE", "VERSION", "UPDATED", "OPENED"});
  const int64_t now = NowSeconds();
  for (const CollectionInfo& info : collections) {
    table.Add({std::to_string(info.id), info.spec.ToString(), info.spec.cluster_uid.substr(0, 8),
               std::string(ToString(info.cursor.state)), info.cursor.resource_version,
               AgeOf(info.cursor.updated_ms / 1000, now), AgeOf(info.last_opened_ms / 1000, now)});
  }
  table.Flush(out);
  out.Flush();
  return kOk;
}

}  // namespace

void AddCollections(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<CollectionsArguments>();
  CLI::App* command =
      app.add_subcommand("collections", "List what a store holds and how far it is");
  AddStoreOptions(command, arguments->store);
  command->add_flag("--json", arguments->json, "For scripts");
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Run(*arguments), arguments->store); });
}

}  // namespace larder::tools
