// `larder tree`: an object and everything that it owns, by owner references.
#include <map>
#include <memory>
#include <set>

#include "tools/age.h"
#include "tools/catalog.h"
#include "tools/columns/columns.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/store_access.h"
#include "tools/table_writer.h"

namespace larder::tools {
namespace {

struct TreeArguments {
  StoreArguments store;
  std::vector<std::string> words;
  std::string ns = "default";
  bool all_namespaces = false;
};

struct Node {
  const StoredResource* resource = nullptr;
  ObjectPtr object;
};

class Tree {
 public:
  Tree(Store& store, const Catalog& catalog) : store_(store), resources_(catalog.Resources()) {}

  // Who owns whom, of everything in `ns` (empty: all).
  Result<void> Load(const std::string& ns) {
    for (const StoredResource& resource : resources_) {
      Query query;
      query.ns = resource.resource.namespaced ? ns : "";
      LARDER_RETURN_IF_ERROR(ForEachObject(store_, resource, query, [&](const ObjectPtr& object) {
        for (const OwnerReference& owner : object->Owners()) {
          children_.emplace(owner.uid, Node{&resource, object});
        }
        return true;
      }));
    }
    return {};
  }

  const StoredResource* Find(const Resource& resource) const {
    for (const StoredResource& known : resources_) {
      if (known.resource == resource) return &known;
    }
    return nullptr;
  }

  void Print(const Node& root, bool with_namespace) {
    with_namespace_ = with_namespace;
    shown_.clear();
    Add(root, "", "");
  }
  void Flush(Output& out) { table_.Flush(out); }

 private:
  static constexpr size_t kDeepest = 32;

  void Add(const Node& node, const std::string& line, const std::string& below) {
    const Object& object = *node.object;
    const ColumnSet columns = ColumnsFor(node.resource->resource, node.resource->crd);
    const Cells cells = columns.Row(object, NowSeconds());
    std::string ready, status;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (columns.columns[i].name == "Ready") ready = cells[i].text;
      if (columns.columns[i].name == "Status") status = cells[i].text;
    }
    const std::string kind(object.kind().empty() ? node.resource->resource.resource
                                                 : std::string(object.kind()));
    const std::string uid(object.uid());
    const bool above = shown_.count(uid) != 0;
    const std::string name =
        line + kind + "/" + std::string(object.name()) + (above ? " (above)" : "");
    table_.Add({with_namespace_ ? std::string(object.ns()) + "  " + name : name, ready, status,
                AgeOf(object.creation_timestamp(), NowSeconds())});
    if (above || uid.empty() || below.size() > kDeepest * 4) return;
    shown_.insert(uid);
    const auto [begin, end] = children_.equal_range(uid);
    for (auto it = begin; it != end; ++it) {
      const bool last = std::next(it) == end;
      Add(it->second, below + (last ? "└─" : "├─"), below + (last ? "  " : "│ "));
    }
  }

  Store& store_;
  const std::vector<StoredResource> resources_;
  std::multimap<std::string, Node> children_;
  TableWriter table_{{"NAME", "READY", "STATUS", "AGE"}};
  bool with_namespace_ = false;
  // With what they own, by uid: objects may own each other, and one may have many owners.
  std::set<std::string> shown_;
};

Result<int> Run(const TreeArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto words, ParseNames(arguments.words));
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(*store));
  Tree tree(*store, catalog);
  LARDER_RETURN_IF_ERROR(tree.Load(arguments.all_namespaces ? "" : arguments.ns));
  bool any = false;
  for (const NamedObject& word : words) {
    LARDER_ASSIGN_OR_RETURN(const auto resources, catalog.Resolve(word.resource));
    for (const StoredResource& resource : resources) {
      const StoredResource* known = tree.Find(resource.resource);
      const std::string ns = resource.resource.namespaced ? arguments.ns : "";
      if (!word.name.empty()) {
        LARDER_ASSIGN_OR_RETURN(const ObjectPtr object,
                                GetObject(*store, resource, {ns, word.name}));
        tree.Print({known, object}, false);
        any = true;
        continue;
      }
      Query query;
      query.ns = arguments.all_namespaces ? "" : ns;
      LARDER_RETURN_IF_ERROR(ForEachObject(*store, resource, query, [&](const ObjectPtr& object) {
        tree.Print({known, object}, arguments.all_namespaces);
        return any = true;
      }));
    }
  }
  if (any) tree.Flush(Stdout());
  if (!any) SayNothingFound(arguments.all_namespaces ? "" : arguments.ns);
  Stdout().Flush();
  return kOk;
}

}  // namespace

void AddTree(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<TreeArguments>();
  CLI::App* command = app.add_subcommand("tree", "Show objects with everything that they own");
  command->add_option("resource", arguments->words, "deploy web, or deploy/web")->required();
  AddStoreOptions(command, arguments->store);
  command->add_option("-n,--namespace", arguments->ns, "Of this namespace")->capture_default_str();
  command->add_flag("-A,--all-namespaces", arguments->all_namespaces, "Of all namespaces");
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Run(*arguments), arguments->store); });
}

}  // namespace larder::tools
