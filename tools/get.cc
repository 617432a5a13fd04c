// `larder get`: look into a store, live or offline, the way kubectl looks into a cluster.
#include <cstdio>
#include <memory>

#include "indexer/lister.h"
#include "schema/resource.h"
#include "storage/store.h"
#include "tools/command.h"

namespace larder::tools {
namespace {

struct GetArguments {
  std::string store;
  std::string resource;
  std::vector<std::string> names;
  std::string ns = "default";
  bool all_namespaces = false;
  std::string labels;
  std::string fields;
  std::string output;
  size_t limit = 0;
};

struct Selection {
  LabelSelector labels;
  FieldSelector fields;
};

std::string Age(int64_t created_seconds) {
  if (created_seconds == 0) return "<unknown>";
  const int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(RealClock()->WallNow().time_since_epoch())
          .count();
  const int64_t age = std::max<int64_t>(0, now - created_seconds);
  if (age < 120) return fmt::format("{}s", age);
  if (age < 3600) return fmt::format("{}m", age / 60);
  if (age < 48 * 3600) return fmt::format("{}h", age / 3600);
  return fmt::format("{}d", age / 86400);
}

bool Wanted(const GetArguments& arguments, const Selection& selection, const ObjectPtr& object) {
  if (!arguments.names.empty() && std::find(arguments.names.begin(), arguments.names.end(),
                                            object->name()) == arguments.names.end()) {
    return false;
  }
  return selection.labels.Matches(*object) && selection.fields.Matches(*object);
}

void PrintRow(const GetArguments& arguments, const ObjectPtr& object) {
  if (arguments.output == "json") {
    const std::string json(object->json());
    std::printf("%s\n", json.c_str());
  } else if (arguments.output == "name") {
    std::printf("%s/%s\n", arguments.resource.c_str(), std::string(object->name()).c_str());
  } else {
    const std::string ns(object->ns()), name(object->name()), version(object->resource_version());
    if (arguments.all_namespaces) std::printf("%-24s", ns.c_str());
    std::printf("%-52s %-16s %s\n", name.c_str(), version.c_str(),
                Age(object->creation_timestamp()).c_str());
  }
}

Result<size_t> Get(const GetArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const Resource resource, LookupResource(arguments.resource));
  Selection selection;
  LARDER_ASSIGN_OR_RETURN(selection.labels, LabelSelector::Parse(arguments.labels));
  LARDER_ASSIGN_OR_RETURN(selection.fields, FieldSelector::Parse(arguments.fields));
  LARDER_ASSIGN_OR_RETURN(const auto store, Store::OpenReadOnly({.path = arguments.store}));
  LARDER_ASSIGN_OR_RETURN(const auto collections, store->Collections());
  size_t printed = 0;
  bool found = false;
  for (const CollectionInfo& collection : collections) {
    if (collection.spec.resource.ToString() != resource.ToString()) continue;
    found = true;
    if (printed == 0 && arguments.output.empty()) {
      if (arguments.all_namespaces) std::printf("%-24s", "NAMESPACE");
      std::printf("%-52s %-16s %s\n", "NAME", "VERSION", "AGE");
    }
    const std::string ns = arguments.all_namespaces || !resource.namespaced ? "" : arguments.ns;
    LARDER_RETURN_IF_ERROR(store->Scan(collection.id, ns, {}, [&](const ObjectPtr& object) {
      if (!Wanted(arguments, selection, object)) return true;
      PrintRow(arguments, object);
      return ++printed != arguments.limit || arguments.limit == 0;
    }));
  }
  if (!found) {
    return MakeError(ErrorCode::kNotFound, "the store {} has no {}", arguments.store,
                     resource.ToString());
  }
  return printed;
}

}  // namespace

void AddGet(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<GetArguments>();
  CLI::App* command = app.add_subcommand("get", "Show objects of a store, live or offline");
  command
      ->add_option("resource", arguments->resource, "pods, po, deploy, widgets.v1.example.com, ...")
      ->required();
  command->add_option("name", arguments->names, "Only objects with these names");
  command->add_option("--store", arguments->store, "The store's directory")
      ->required()
      ->envname("LARDER_STORE");
  command->add_option("-n,--namespace", arguments->ns)->capture_default_str();
  command->add_flag("-A,--all-namespaces", arguments->all_namespaces);
  command->add_option("-l,--selector", arguments->labels,
                      "Label selector: app=web,tier in (a,b),!canary");
  command->add_option("--field-selector", arguments->fields, "spec.nodeName=node-1");
  command->add_option("-o,--output", arguments->output, "json (a line for each object) or name")
      ->check(CLI::IsMember({"json", "name"}));
  command->add_option("--limit", arguments->limit, "At most so many");
  command->callback([arguments, &context] {
    auto printed = Get(*arguments);
    if (!printed) {
      context.exit_code = Fail(printed.error());
    } else if (*printed == 0) {
      std::fprintf(stderr, "No resources found%s.\n",
                   arguments->all_namespaces ? "" : (" in namespace " + arguments->ns).c_str());
    }
  });
}

}  // namespace larder::tools
