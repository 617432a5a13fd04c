// `larder get`: look into a store, live or offline, the way kubectl looks into a cluster.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "storage/maintenance.h"
#include "tools/catalog.h"
#include "tools/command.h"
#include "tools/follower.h"
#include "tools/parallel_list.h"
#include "tools/printer.h"
#include "tools/sort_objects.h"
#include "tools/store_access.h"

namespace larder::tools {
namespace {

struct GetArguments {
  StoreArguments store;
  std::vector<std::string> words;
  std::string ns = "default";
  bool all_namespaces = false;
  std::string labels;
  std::string fields;
  std::string index;
  std::string sort_by;
  PrintOptions print;
  size_t limit = 0;
  bool explain = false;
  bool watch = false;
  bool ignore_not_found = false;
};

constexpr std::chrono::milliseconds kFollowInterval{300};

Result<Query> MakeQuery(const GetArguments& arguments, const Resource& resource) {
  Query query;
  if (resource.namespaced && !arguments.all_namespaces) query.ns = arguments.ns;
  LARDER_ASSIGN_OR_RETURN(query.labels, LabelSelector::Parse(arguments.labels));
  LARDER_ASSIGN_OR_RETURN(query.fields, FieldSelector::Parse(arguments.fields));
  query.fields = query.fields.For(resource);
  if (!arguments.index.empty()) {
    const size_t equals = arguments.index.find('=');
    if (equals == std::string::npos) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--index {}: spell it NAME=VALUE; larder index ls shows the names",
                       arguments.index);
    }
    query.index = {arguments.index.substr(0, equals), arguments.index.substr(equals + 1)};
  }
  // Sorted output needs all of them first.
  if (arguments.sort_by.empty()) query.limit = arguments.limit;
  return query;
}

// One resource, or names of it.
struct Part {
  StoredResource resource;
  std::vector<std::string> names;
};

Result<std::vector<Part>> PartsOf(const Catalog& catalog, const GetArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto words, ParseNames(arguments.words));
  std::vector<Part> parts;
  for (const NamedObject& word : words) {
    LARDER_ASSIGN_OR_RETURN(auto resources, catalog.Resolve(word.resource));
    for (StoredResource& resource : resources) {
      const auto same = std::find_if(parts.begin(), parts.end(), [&](const Part& part) {
        return part.resource.resource == resource.resource;
      });
      if (same == parts.end()) {
        parts.push_back({std::move(resource), {}});
        if (!word.name.empty()) parts.back().names.push_back(word.name);
      } else if (!word.name.empty()) {
        same->names.push_back(word.name);
      }
    }
  }
  return parts;
}

class Get {
 public:
  Get(const GetArguments& arguments, std::stop_token stop)
      : arguments_(arguments), stop_(std::move(stop)) {}

  Result<int> Run() {
    if (arguments_.watch && !arguments_.explain) return Watch();
    LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments_.store));
    LARDER_RETURN_IF_ERROR(Prepare(*store));
    if (arguments_.explain) return Explain(*store);
    LARDER_RETURN_IF_ERROR(PrintAll(*store));
    printer_->Finish();
    return Outcome();
  }

 private:
  Result<void> Prepare(Store& store) {
    LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(store));
    LARDER_ASSIGN_OR_RETURN(parts_, PartsOf(catalog, arguments_));
    PrintOptions print = arguments_.print;
    print.namespace_column = arguments_.all_namespaces;
    print.kind_prefix = parts_.size() > 1 || AsksForSeveral();
    print.single = arguments_.watch || (parts_.size() == 1 && parts_[0].names.size() == 1);
    LARDER_ASSIGN_OR_RETURN(printer_, MakePrinter(print, Stdout()));
    for (const Part& part : parts_) {
      if (part.names.empty() || !arguments_.all_namespaces) continue;
      return MakeError(ErrorCode::kInvalidArgument,
                       "a name is unique within a namespace only: give -n instead of -A");
    }
    return {};
  }

  Result<void> PrintAll(Store& store) {
    for (const Part& part : parts_) {
      LARDER_RETURN_IF_ERROR(PrintPart(store, part));
      if (Stdout().closed()) break;
    }
    return {};
  }

  Result<void> PrintPart(Store& store, const Part& part) {
    if (!part.resource.Complete()) {
      std::fprintf(stderr, "larder: %s were not listed to the end yet: this is a part of them\n",
                   part.resource.resource.ToString().c_str());
    }
    LARDER_ASSIGN_OR_RETURN(const Query query, MakeQuery(arguments_, part.resource.resource));
    if (const std::string note = NotCovered(part.resource, query); !note.empty()) {
      std::fprintf(stderr, "larder: %s\n", note.c_str());
    }
    printer_->Begin(part.resource);
    return part.names.empty() ? PrintList(store, part) : PrintNamed(store, part);
  }

  Result<void> PrintNamed(const Store& store, const Part& part) {
    for (const std::string& name : part.names) {
      const std::string ns = part.resource.resource.namespaced ? arguments_.ns : "";
      const auto object = GetObject(store, part.resource, {ns, name});
      if (object) {
        ++printed_;
        printer_->Add(*object);
      } else if (object.error().code != ErrorCode::kNotFound) {
        return tl::unexpected(object.error());
      } else if (!arguments_.ignore_not_found) {
        missing_.push_back(object.error().message);
      }
    }
    return {};
  }

  Result<void> PrintList(Store& store, const Part& part) {
    LARDER_ASSIGN_OR_RETURN(const Query query, MakeQuery(arguments_, part.resource.resource));
    if (arguments_.sort_by.empty()) {
      return ForEachRendered(store, part.resource, query, *printer_, [&](Rendered rendered) {
        ++printed_;
        return printer_->Add(std::move(rendered)) && !stop_.stop_requested();
      });
    }
    std::vector<ObjectPtr> objects;
    LARDER_RETURN_IF_ERROR(ForEachObject(store, part.resource, query, [&](const ObjectPtr& object) {
      objects.push_back(object);
      return true;
    }));
    LARDER_ASSIGN_OR_RETURN(const bool found, SortObjects(arguments_.sort_by, objects));
    to_sort_ += objects.size();
    sortable_ = sortable_ || found;
    // Of several resources some may have no such field.
    if (!sortable_ && to_sort_ > 0 && &part == &parts_.back()) {
      return MakeError(ErrorCode::kInvalidArgument, "--sort-by: nothing has a field {}",
                       arguments_.sort_by);
    }
    if (arguments_.limit != 0) objects.resize(std::min(objects.size(), arguments_.limit));
    for (const ObjectPtr& object : objects) {
      ++printed_;
      if (!printer_->Add(object)) break;
    }
    return {};
  }

  Result<int> Explain(Store& store) {
    for (const Part& part : parts_) {
      LARDER_ASSIGN_OR_RETURN(const Query query, MakeQuery(arguments_, part.resource.resource));
      for (const CollectionInfo& info : part.resource.collections) {
        LARDER_ASSIGN_OR_RETURN(const auto indexer, Indexer::Attach(&store, info));
        LARDER_ASSIGN_OR_RETURN(std::string plan, Lister(indexer.get()).Explain(query));
        if (!part.names.empty()) plan = "get by key";
        Stdout().Print("{}: {}\n", info.spec.ToString(), plan);
      }
    }
    Stdout().Flush();
    return kOk;
  }

  bool Selects(const Part& part, const Query& query, const Object& object) const {
    if (!query.ns.empty() && object.ns() != query.ns) return false;
    const bool named = part.names.empty() || std::find(part.names.begin(), part.names.end(),
                                                       object.name()) != part.names.end();
    return named && query.labels.Matches(object) && query.fields.Matches(object);
  }

  // Where collections overlap a change comes from each of them: that of the copy that is shown
  // counts, and an object that left one of them is still in the other.
  static bool Counts(StoreFollower& follower, const Part& part, const CollectionInfo& info,
                     const FollowedChange& change) {
    if (part.resource.collections.size() == 1) return true;
    const ObjectPtr& object = change.now ? change.now : change.before;
    const auto shown =
        follower.Read([&](Store& store) { return FindCopy(store, part.resource, object->key()); });
    return !shown || *shown == (change.now ? info.id : 0);
  }

  // Says once of each list that what follows may be of other times than its order suggests.
  static void SayListed(const CollectionInfo& now, CollectionInfo& known) {
    if (now.cursor.epoch == known.cursor.epoch) return;
    known.cursor.epoch = now.cursor.epoch;
    std::fprintf(stderr, "larder: %s: listed anew by the store's owner; what differs follows\n",
                 now.spec.ToString().c_str());
  }

  // False: it is of a collection that is not shown, or is no more.
  bool PrintChanges(StoreFollower& follower, const FollowedTurn& turn) {
    const CollectionInfo& info = turn.collection;
    bool shown = false;
    for (Part& part : parts_) {
      auto& mine = part.resource.collections;
      const auto known =
          std::find_if(mine.begin(), mine.end(),
                       [&](const CollectionInfo& candidate) { return candidate.id == info.id; });
      if (known == mine.end()) continue;
      shown = true;
      SayListed(info, *known);
      const auto query = MakeQuery(arguments_, part.resource.resource);
      if (!query) continue;
      if (parts_.size() > 1) printer_->Begin(part.resource);
      for (const FollowedChange& change : turn.changes) {
        const ObjectPtr& object = change.now ? change.now : change.before;
        if (Selects(part, *query, *object) && Counts(follower, part, info, change)) {
          printer_->Add(object);
        }
      }
    }
    printer_->Flush();
    return shown && !turn.gone;
  }

  // Is the same read of a resource now as before? Of two collections that hold all of it, the one
  // that was read is as good as the other while it is filled, too.
  static bool SameIsRead(const Catalog& catalog, const StoredResource& before,
                         const StoredResource& now) {
    const auto same = [](const CollectionInfo& a, const CollectionInfo& b) { return a.id == b.id; };
    const auto& mine = before.collections;
    if (std::equal(mine.begin(), mine.end(), now.collections.begin(), now.collections.end(),
                   same)) {
      return true;
    }
    const CollectionInfo& first = now.collections.front();
    if (mine.size() != 1 || !IsWhole(mine.front().spec) || !IsWhole(first.spec)) return false;
    return std::any_of(catalog.collections().begin(), catalog.collections().end(),
                       [&](const CollectionInfo& info) {
                         return info.id == mine.front().id &&
                                !IsLeftBehind(info.cursor.updated_ms, first.cursor.updated_ms);
                       });
  }

  // Goes on with what a list would read now, and shows all that is not read as before.
  Result<void> LookAgain(Store& store) {
    LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(store));
    auto parts = PartsOf(catalog, arguments_);
    // Dropped altogether; it may come again.
    if (!parts && parts.error().code == ErrorCode::kNotFound) return {};
    if (!parts) return tl::unexpected(parts.error());
    for (Part& part : *parts) {
      const auto mine = std::find_if(parts_.begin(), parts_.end(), [&](const Part& known) {
        return known.resource.resource == part.resource.resource;
      });
      if (mine == parts_.end() || SameIsRead(catalog, mine->resource, part.resource)) continue;
      *mine = std::move(part);
      std::fprintf(stderr, "larder: %s: other collections hold them now; all of them follow\n",
                   mine->resource.resource.ToString().c_str());
      LARDER_RETURN_IF_ERROR(PrintPart(store, *mine));
    }
    printer_->Flush();
    return {};
  }

  Result<int> Watch() {
    if (!arguments_.index.empty()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--index finds what is there now and cannot be watched: use -l or "
                       "--field-selector with -w");
    }
    LARDER_ASSIGN_OR_RETURN(const auto follower, StoreFollower::Open(arguments_.store));
    const Result<void> first = follower->Read([&](Store& store) -> Result<void> {
      LARDER_RETURN_IF_ERROR(Prepare(store));
      LARDER_RETURN_IF_ERROR(PrintAll(store));
      printer_->Flush();
      LARDER_ASSIGN_OR_RETURN(const StoreStats stats, GetStats(store, {.count_objects = false}));
      if (stats.owner_pid == 0) {
        std::fprintf(stderr,
                     "larder: no process has the store open: nothing changes until one does\n");
      }
      return {};
    });
    if (!first) return tl::unexpected(first.error());
    if (!missing_.empty()) return Outcome();
    StoreFollower::Limits limits{.compare_breaks = true};
    for (const Part& part : parts_) {
      limits.resources.push_back(part.resource.resource.ToString());
    }
    std::optional<Error> problem;
    while (!problem && !Stdout().closed() && RealClock()->SleepFor(kFollowInterval, stop_)) {
      bool others = false;
      const auto moved = follower->Advance(limits, [&](const FollowedTurn& turn) {
        const bool shown = PrintChanges(*follower, turn);
        if (turn.problem && shown) problem = turn.problem;
        others = others || !shown;
      });
      if (!moved) return tl::unexpected(moved.error());
      if (!others) continue;
      LARDER_RETURN_IF_ERROR(follower->Read([&](Store& store) { return LookAgain(store); }));
    }
    if (problem) return tl::unexpected(*std::move(problem));
    return kOk;
  }

  int Outcome() const {
    for (const std::string& message : missing_) {
      std::fprintf(stderr, "larder: %s\n", message.c_str());
    }
    if (!missing_.empty()) return kBadResult;
    if (printed_ == 0 && !arguments_.ignore_not_found && IsForPeople()) {
      const bool all = arguments_.all_namespaces ||
                       std::none_of(parts_.begin(), parts_.end(), [](const Part& part) {
                         return part.resource.resource.namespaced;
                       });
      SayNothingFound(all ? "" : arguments_.ns);
    }
    return kOk;
  }

  // As kubectl: `get all` names kinds even where the store has one of them only.
  bool AsksForSeveral() const {
    return std::any_of(arguments_.words.begin(), arguments_.words.end(), [](const auto& word) {
      return word == "all" || word.find(',') != std::string::npos;
    });
  }

  bool IsForPeople() const {
    const std::string& output = arguments_.print.output;
    return output.empty() || output == "wide" || output == "name";
  }

  const GetArguments& arguments_;
  const std::stop_token stop_;
  std::vector<Part> parts_;
  std::unique_ptr<Printer> printer_;
  size_t printed_ = 0;
  size_t to_sort_ = 0;
  bool sortable_ = false;  // an object had the field of --sort-by
  std::vector<std::string> missing_;
};

}  // namespace

void AddGet(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<GetArguments>();
  CLI::App* command = app.add_subcommand("get", "Show objects of a store, live or offline");
  command
      ->add_option("resource", arguments->words,
                   "pods, po,deploy, all, then names; or pod/web-0 deploy/web")
      ->required();
  AddStoreOptions(command, arguments->store);
  command->add_option("-n,--namespace", arguments->ns, "Of this namespace")->capture_default_str();
  command->add_flag("-A,--all-namespaces", arguments->all_namespaces, "Of all namespaces");
  command->add_option("-l,--selector", arguments->labels,
                      "Label selector: app=web,tier in (a,b),!canary");
  command->add_option("--field-selector", arguments->fields, "spec.nodeName=node-1");
  command->add_option("--index", arguments->index, "Those that an index has: NAME=VALUE");
  command->add_option("-o,--output", arguments->print.output, kOutputHelp);
  command->add_option("--sort-by", arguments->sort_by, "A path: .metadata.creationTimestamp");
  command->add_flag("--show-labels", arguments->print.show_labels, "Labels as the last column");
  command
      ->add_option("-L,--label-columns", arguments->print.label_columns,
                   "Labels to show as columns")
      ->delimiter(',');
  command->add_flag("--no-headers", arguments->print.no_headers, "Rows only");
  command->add_flag("--show-managed-fields", arguments->print.show_managed_fields,
                    "In json and yaml, who wrote which field");
  command->add_option("--limit", arguments->limit, "At most so many of each resource")
      ->check(CheckCount);
  command->add_flag("--ignore-not-found", arguments->ignore_not_found,
                    "What is not there is no error");
  command->add_flag("--explain", arguments->explain, "Say how it would be found, and do not look");
  command->add_flag("-w,--watch", arguments->watch, "Go on with what the store's owner commits");
  command->callback([arguments, &context] {
    // Only a watch ends well with Ctrl-C.
    const std::stop_token stop = arguments->watch ? context.stop : std::stop_token();
    context.exit_code = ExitCode(Get(*arguments, stop).Run(), arguments->store);
  });
}

}  // namespace larder::tools
