// `larder index ls|values|get|rebuild`: the indexes of a store.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "schema/key_order.h"
#include "storage/index_key_name.h"
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

// An index by its name, in every collection of the resource that has it.
struct FoundIndex {
  StoredResource resource;           // with these collections only
  std::vector<IndexRecord> records;  // one for each
};

Result<FoundIndex> Find(Store& store, const IndexArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(store));
  LARDER_ASSIGN_OR_RETURN(const auto resources, catalog.Resolve(arguments.resource));
  FoundIndex found;
  found.resource = resources.front();
  found.resource.collections.clear();
  std::set<std::string> known;
  for (const CollectionInfo& info : resources.front().collections) {
    LARDER_ASSIGN_OR_RETURN(const auto records, store.IndexRecords(info.id));
    for (const IndexRecord& record : records) {
      known.insert(record.name);
      if (record.name != arguments.index) continue;
      found.resource.collections.push_back(info);
      found.records.push_back(record);
    }
  }
  if (!found.records.empty()) return found;
  return MakeError(ErrorCode::kNotFound, "{} have no index {}; they have {}", arguments.resource,
                   arguments.index,
                   known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
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
    Stdout().Write(IndentedJson(list));
  } else {
    table.Flush(Stdout());
  }
  return kOk;
}

// Whether the values that its keys hold are those of its objects, all of them.
Result<void> CheckShowsValues(const IndexRecord& record, const CollectionInfo& collection) {
  if (!record.ready) {
    return MakeError(ErrorCode::kNotReady, "index {} on {} is still being built, by its owner",
                     record.name, collection.spec.ToString());
  }
  if (SplitKeyName(record.definition).key_name.empty()) return {};
  return MakeError(ErrorCode::kUnsupported,
                   "index {} on {} holds keyed hashes of its values, because the objects are "
                   "encrypted; larder index get looks up a value that you know",
                   record.name, collection.spec.ToString());
}

Result<int> Values(const IndexArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const FoundIndex found, Find(*store, arguments));
  for (size_t i = 0; i < found.records.size(); ++i) {
    LARDER_RETURN_IF_ERROR(CheckShowsValues(found.records[i], found.resource.collections[i]));
  }
  TableWriter table({"VALUE", "OBJECTS"});
  table.AlignRight(1);
  Json list = Json::array();
  // An object that is in two collections counts once.
  const bool several = found.records.size() > 1;
  std::map<std::string, uint64_t> counts;
  std::set<std::pair<std::string, std::string>> seen;
  for (size_t i = 0; i < found.records.size(); ++i) {
    LARDER_RETURN_IF_ERROR(
        store->ScanIndex(found.resource.collections[i].id, found.records[i].id, std::nullopt,
                         [&](const IndexEntry& entry) {
                           if (several && !seen.emplace(entry.value, entry.key.ToString()).second) {
                             return true;
                           }
                           ++counts[entry.value];
                           return true;
                         }));
  }
  for (const auto& [value, count] : counts) {
    table.Add({value, HumanCount(count)});
    list.push_back({{"value", value}, {"objects", count}});
  }
  if (arguments.json) {
    Stdout().Write(IndentedJson(list));
  } else {
    table.Flush(Stdout());
  }
  return kOk;
}

Result<int> GetByIndex(const IndexArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const FoundIndex found, Find(*store, arguments));
  if (arguments.keys) {
    std::vector<ObjectKey> keys;
    for (const CollectionInfo& info : found.resource.collections) {
      LARDER_ASSIGN_OR_RETURN(const auto indexer, Indexer::Attach(store.get(), info));
      LARDER_ASSIGN_OR_RETURN(const auto some,
                              indexer->IndexKeys(arguments.index, arguments.value));
      keys.insert(keys.end(), some.begin(), some.end());
    }
    std::sort(keys.begin(), keys.end(), ComesBefore);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    for (const ObjectKey& key : keys) Stdout().PrintForPeople("{}\n", key.ToString());
    return kOk;
  }
  PrintOptions print;
  print.output = arguments.output;
  print.namespace_column = true;
  LARDER_ASSIGN_OR_RETURN(const auto printer, MakePrinter(print, Stdout()));
  printer->Begin(found.resource);
  Query query;
  query.index = {arguments.index, arguments.value};
  LARDER_RETURN_IF_ERROR(ForEachObject(*store, found.resource, query, [&](const ObjectPtr& object) {
    return printer->Add(object);
  }));
  printer->Finish();
  return kOk;
}

Result<void> RebuildIn(Store& store, const CollectionInfo& collection, const IndexRecord& wanted) {
  LARDER_ASSIGN_OR_RETURN(const auto records, store.IndexRecords(collection.id));
  std::vector<IndexDefinition> definitions;
  for (const IndexRecord& record : records) {
    LARDER_ASSIGN_OR_RETURN(
        IndexDefinition definition,
        IndexDefinition::FromStored(record.name,
                                    std::string(SplitKeyName(record.definition).definition)));
    if (record.name == wanted.name && !definition.Computable()) {
      return MakeError(ErrorCode::kUnsupported,
                       "index {} is a function of its owner's program; raise the function's "
                       "version there to have it built anew",
                       record.name);
    }
    definitions.push_back(std::move(definition));
  }
  // An object that cannot be read would stop the new one, and the old one would be gone.
  LARDER_RETURN_IF_ERROR(
      store.Scan(collection.id, {}, {}, [](const ObjectPtr& object) { return object != nullptr; }));
  LARDER_RETURN_IF_ERROR(store.DropIndex(collection.id, wanted.id));
  LARDER_ASSIGN_OR_RETURN(const auto indexer,
                          Indexer::Open(&store, nullptr, collection.spec, std::move(definitions)));
  Progress progress("building " + wanted.name, 0);
  size_t scanned = 0;
  while (!indexer->WaitUntilReady(std::chrono::milliseconds(100))) {
    for (const auto& build : indexer->Progress()) {
      if (build.error) return tl::unexpected(*build.error);
      if (build.index == wanted.name) scanned = build.scanned;
    }
    progress.Update(scanned);
  }
  progress.Finish();
  LARDER_RETURN_IF_ERROR(store.Sync());
  Stdout().Print("built {} of {} anew\n", wanted.name, collection.spec.ToString());
  return {};
}

Result<int> Rebuild(const IndexArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenOwner(arguments.store, "rebuilding an index"));
  LARDER_ASSIGN_OR_RETURN(const FoundIndex found, Find(*store, arguments));
  for (size_t i = 0; i < found.records.size(); ++i) {
    LARDER_RETURN_IF_ERROR(RebuildIn(*store, found.resource.collections[i], found.records[i]));
  }
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
      context.exit_code = ExitCode(run(*arguments), arguments->store);
      Stdout().Flush();
    });
    return verb;
  };
  add("ls", "List the indexes", List, false)->add_flag("--json", arguments->json, "For scripts");
  add("values", "List the values of an index", Values, true)
      ->add_flag("--json", arguments->json, "For scripts");
  CLI::App* get = add("get", "Show the objects with a value", GetByIndex, true);
  get->add_option("value", arguments->value, "Which value of the index")->required();
  get->add_option("-o,--output", arguments->output, kOutputHelp);
  get->add_flag("--keys", arguments->keys, "Only namespace/name, without reading the objects");
  add("rebuild", "Build an index anew; needs the store to itself", Rebuild, true);
}

}  // namespace larder::tools
