// `larder index ls|values|get|rebuild`: the indexes of a store.
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/catalog.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/printer.h"
#include "tools/progress.h"
#include "tools/store_access.h"
#include "tools/table_writer.h"

namespace larder::tools {
namespace {

struct IndexArguments {
  StoreArguments store;
  std::string resource;
  std::string index;
  std::string value;
  bool json = false;
  bool keys = false;
  std::string output;
};

struct FoundIndex {
  CollectionInfo collection;
  IndexRecord record;
};

Result<FoundIndex> Find(Store& store, const IndexArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(store));
  LARDER_ASSIGN_OR_RETURN(const auto resources, catalog.Resolve(arguments.resource));
  std::string known;
  for (const CollectionInfo& info : resources.front().collections) {
    LARDER_ASSIGN_OR_RETURN(const auto records, store.IndexRecords(info.id));
    for (const IndexRecord& record : records) {
      if (record.name == arguments.index) return FoundIndex{info, record};
      known += (known.empty() ? "" : ", ") + record.name;
    }
  }
  return MakeError(ErrorCode::kNotFound, "{} have no index {}; they have {}", arguments.resource,
                   arguments.index, known.empty() ? "none" : known);
}

Result<int> List(const IndexArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const auto collections, store->Collections());
  TableWriter table({"COLLECTION", "INDEX", "DEFINITION", "READY"});
  Json list = Json::array();
  for (const CollectionInfo& info : collections) {
    LARDER_ASSIGN_OR_RETURN(const auto records, store->IndexRecords(info.id));
    for (const IndexRecord& record : records) {
      table.Add({info.spec.ToString(), record.name, record.definition,
                 record.ready ? "yes" : "being built"});
      list.push_back({{"collection", info.spec.ToString()},
                      {"index", record.name},
                      {"definition", record.definition},
                      {"ready", record.ready}});
    }
  }
  if (arguments.json) {
    Stdout().Write(list.dump(2) + "\n");
  } else {
    table.Flush(Stdout());
  }
  return kOk;
}

Result<int> Values(const IndexArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const FoundIndex found, Find(*store, arguments));
  TableWriter table({"VALUE", "OBJECTS"});
  table.AlignRight(1);
  Json list = Json::array();
  std::string value;
  uint64_t count = 0;
  const auto finish = [&] {
    if (count == 0) return;
    table.Add({value, HumanCount(count)});
    list.push_back({{"value", value}, {"objects", count}});
  };
  // Entries come in order of value.
  LARDER_RETURN_IF_ERROR(store->ScanIndex(found.collection.id, found.record.id, std::nullopt,
                                          [&](const IndexEntry& entry) {
                                            if (entry.value != value) {
                                              finish();
                                              value = entry.value;
                                              count = 0;
                                            }
                                            ++count;
                                            return true;
                                          }));
  finish();
  if (arguments.json) {
    Stdout().Write(list.dump(2) + "\n");
  } else {
    table.Flush(Stdout());
  }
  return kOk;
}

Result<int> GetByIndex(const IndexArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const FoundIndex found, Find(*store, arguments));
  LARDER_ASSIGN_OR_RETURN(const auto indexer, Indexer::Attach(store.get(), found.collection));
  if (arguments.keys) {
    LARDER_ASSIGN_OR_RETURN(const auto keys, indexer->IndexKeys(arguments.index, arguments.value));
    for (const ObjectKey& key : keys) Stdout().Print("{}\n", key.ToString());
    return kOk;
  }
  StoredResource resource;
  resource.resource = found.collection.spec.resource;
  resource.collections = {found.collection};
  PrintOptions print;
  print.output = arguments.output;
  print.namespace_column = true;
  LARDER_ASSIGN_OR_RETURN(const auto printer, MakePrinter(print, Stdout()));
  printer->Begin(resource);
  Query query;
  query.index = {arguments.index, arguments.value};
  LARDER_RETURN_IF_ERROR(Lister(indexer.get()).ForEach(query, [&](const ObjectPtr& object) {
    return printer->Add(object);
  }));
  printer->Finish();
  return kOk;
}

Result<int> Rebuild(const IndexArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenOwner(arguments.store, "rebuilding an index"));
  LARDER_ASSIGN_OR_RETURN(const FoundIndex found, Find(*store, arguments));
  LARDER_ASSIGN_OR_RETURN(const auto records, store->IndexRecords(found.collection.id));
  std::vector<IndexDefinition> definitions;
  for (const IndexRecord& record : records) {
    const std::string text = record.definition.substr(0, record.definition.find('#'));
    LARDER_ASSIGN_OR_RETURN(IndexDefinition definition,
                            IndexDefinition::FromStored(record.name, text));
    if (record.name == arguments.index && !definition.Computable()) {
      return MakeError(ErrorCode::kUnsupported,
                       "index {} is a function of its owner's program; raise the function's "
                       "version there to have it built anew",
                       record.name);
    }
    definitions.push_back(std::move(definition));
  }
  LARDER_RETURN_IF_ERROR(store->DropIndex(found.collection.id, found.record.id));
  LARDER_ASSIGN_OR_RETURN(
      const auto indexer,
      Indexer::Open(store.get(), nullptr, found.collection.spec, std::move(definitions)));
  Progress progress("building " + arguments.index, 0);
  size_t scanned = 0;
  while (!indexer->WaitUntilReady(std::chrono::milliseconds(100))) {
    for (const auto& build : indexer->Progress()) {
      if (build.index == arguments.index) scanned = build.scanned;
    }
    progress.Update(scanned);
  }
  progress.Finish();
  LARDER_RETURN_IF_ERROR(store->Sync());
  Stdout().Print("built {} of {} anew\n", arguments.index, found.collection.spec.ToString());
  return kOk;
}

}  // namespace

void AddIndex(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<IndexArguments>();
  CLI::App* command = app.add_subcommand("index", "Look into indexes, and build them anew");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help,
                       Result<int> (*run)(const IndexArguments&), bool named) {
    CLI::App* verb = command->add_subcommand(name, help);
    if (named) {
      verb->add_option("resource", arguments->resource, "pods, po, ...")->required();
      verb->add_option("index", arguments->index, "Its name")->required();
    }
    AddStoreOptions(verb, arguments->store);
    verb->callback([arguments, &context, run] {
      context.exit_code = ExitCode(run(*arguments));
      Stdout().Flush();
    });
    return verb;
  };
  add("ls", "List the indexes", List, false)->add_flag("--json", arguments->json, "For scripts");
  add("values", "List the values of an index", Values, true)
      ->add_flag("--json", arguments->json, "For scripts");
  CLI::App* get = add("get", "Show the objects with a value", GetByIndex, true);
  get->add_option("value", arguments->value)->required();
  get->add_option("-o,--output", arguments->output, kOutputHelp);
  get->add_flag("--keys", arguments->keys, "Only namespace/name, without reading the objects");
  add("rebuild", "Build an index anew; needs the store to itself", Rebuild, true);
}

}  // namespace larder::tools
