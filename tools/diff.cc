// `larder diff A B`: two stores or snapshots, or a store and the live cluster. Counts first, then
// every object, then every field.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "client/api_client.h"
#include "reflector/shard_selector.h"
#include "tools/catalog.h"
#include "tools/command.h"
#include "tools/follower.h"
#include "tools/object_diff.h"
#include "tools/output.h"
#include "tools/server_access.h"
#include "tools/store_access.h"
#include "tools/table_writer.h"

namespace larder::tools {
namespace {

struct DiffArguments {
  StoreArguments first;
  StoreArguments second;
  bool live = false;
  ServerArguments server;
  std::vector<std::string> resources;
  bool counts = false;
  bool json = false;
};

// An object that is not the same on both sides; null where it is not there.
struct Difference {
  ObjectKey key;
  ObjectPtr before;
  ObjectPtr now;
};

struct ResourceDiff {
  std::string resource;
  std::string part;  // "pods in shop": where a resource is stored as several; otherwise the same
  uint64_t added = 0, removed = 0, changed = 0;
  std::vector<Difference> differences;

  void Add(Difference difference) {
    ++(!difference.before ? added : !difference.now ? removed : changed);
    differences.push_back(std::move(difference));
  }
};

// Collections of one store as one: of each object its newest copy.
struct Side {
  const Store* store = nullptr;
  std::vector<CollectionInfo> collections{};
};

struct Copy {
  ObjectHead head;
  CollectionId in = 0;
};
using Copies = std::map<std::string, Copy>;  // by key

Result<Copies> CopiesOf(const Side& side) {
  Copies out;
  for (const CollectionInfo& info : side.collections) {
    LARDER_RETURN_IF_ERROR(
        side.store->ScanHeads(info.id, {}, [&](const ObjectKey& key, const ObjectHead& head) {
          const auto [known, added] = out.try_emplace(key.ToString(), Copy{head, info.id});
          const bool newer =
              CompareResourceVersions(head.resource_version, known->second.head.resource_version)
                  .value_or(0) > 0;
          if (newer) known->second = {head, info.id};
          return true;
        }));
  }
  return out;
}

// Two collections alone need not be held in memory.
Result<void> CompareOne(const Side& first, const Side& second, ResourceDiff& out) {
  const CollectionId in_first = first.collections.empty() ? 0 : first.collections.front().id;
  const CollectionId in_second = second.collections.empty() ? 0 : second.collections.front().id;
  LARDER_ASSIGN_OR_RETURN(const auto keys,
                          CompareHeads(*first.store, in_first, *second.store, in_second));
  for (const KeyDifference& key : keys) {
    Difference difference{key.key, nullptr, nullptr};
    if (key.before) {
      LARDER_ASSIGN_OR_RETURN(difference.before, first.store->Get(in_first, key.key));
    }
    if (key.now) {
      LARDER_ASSIGN_OR_RETURN(difference.now, second.store->Get(in_second, key.key));
    }
    out.Add(std::move(difference));
  }
  return {};
}

Result<void> CompareSeveral(const Side& first, const Side& second, ResourceDiff& out) {
  LARDER_ASSIGN_OR_RETURN(const Copies before, CopiesOf(first));
  LARDER_ASSIGN_OR_RETURN(const Copies now, CopiesOf(second));
  std::set<std::string> keys;
  for (const auto& [text, copy] : before) keys.insert(text);
  for (const auto& [text, copy] : now) keys.insert(text);
  for (const std::string& text : keys) {
    const auto a = before.find(text), b = now.find(text);
    const bool both = a != before.end() && b != now.end();
    if (both && a->second.head.uid == b->second.head.uid &&
        a->second.head.resource_version == b->second.head.resource_version) {
      continue;
    }
    LARDER_ASSIGN_OR_RETURN(ObjectKey key, ObjectKey::Parse(text));
    Difference difference{std::move(key), nullptr, nullptr};
    if (a != before.end()) {
      LARDER_ASSIGN_OR_RETURN(difference.before, first.store->Get(a->second.in, difference.key));
    }
    if (b != now.end()) {
      LARDER_ASSIGN_OR_RETURN(difference.now, second.store->Get(b->second.in, difference.key));
    }
    out.Add(std::move(difference));
  }
  return {};
}

// Is it the same part of a resource, be it of another cluster?
bool IsSamePart(CollectionSpec a, const CollectionSpec& b) {
  a.cluster_uid = b.cluster_uid;
  return a.Fingerprint() == b.Fingerprint();
}

// Collections are compared with their like. What is left over on both sides is cut in different
// ways: that is compared as a whole.
Result<void> CompareStores(Side first, Side second, const std::string& resource,
                           std::vector<ResourceDiff>& out) {
  const bool several = first.collections.size() > 1 || second.collections.size() > 1;
  const auto compare = [&](const Side& a, const Side& b, std::string part) -> Result<void> {
    ResourceDiff diff;
    diff.resource = resource;
    diff.part = std::move(part);
    const bool one = a.collections.size() <= 1 && b.collections.size() <= 1;
    LARDER_RETURN_IF_ERROR(one ? CompareOne(a, b, diff) : CompareSeveral(a, b, diff));
    out.push_back(std::move(diff));
    return {};
  };
  for (auto mine = first.collections.begin(); several && mine != first.collections.end();) {
    const auto like =
        std::find_if(second.collections.begin(), second.collections.end(),
                     [&](const CollectionInfo& info) { return IsSamePart(mine->spec, info.spec); });
    if (like == second.collections.end()) {
      ++mine;
      continue;
    }
    LARDER_RETURN_IF_ERROR(
        compare({first.store, {*mine}}, {second.store, {*like}}, mine->spec.ToString()));
    mine = first.collections.erase(mine);
    second.collections.erase(like);
  }
  if (first.collections.empty() && second.collections.empty()) return {};
  return compare(first, second, resource);
}

// The cluster is read page by page; only what differs is kept.
Result<ResourceDiff> CompareLive(const Store& store, const CollectionInfo& info,
                                 ApiClient& client) {
  ResourceDiff out;
  std::map<std::string, ObjectHead> known;
  LARDER_RETURN_IF_ERROR(
      store.ScanHeads(info.id, {}, [&](const ObjectKey& key, const ObjectHead& head) {
        known.emplace(key.ToString(), head);
        return true;
      }));
  // A server may not know shards: what is of another one is left out here.
  LARDER_ASSIGN_OR_RETURN(const ShardSelector shard, ShardSelector::Parse(info.spec.shard));
  ListOptions list;
  list.ns = info.spec.ns;
  list.label_selector = info.spec.label_selector;
  list.field_selector = info.spec.field_selector;
  list.limit = 500;
  const auto compare = [&](const ListPage& page) -> Result<void> {
    for (const ObjectPtr& object : page.items) {
      if (!shard.Matches(object->ns(), object->uid())) continue;
      const auto head = known.find(object->key().ToString());
      if (head == known.end()) {
        out.Add({object->key(), nullptr, object});
        continue;
      }
      const bool same = head->second.uid == object->uid() &&
                        head->second.resource_version == object->resource_version();
      known.erase(head);
      if (same) continue;
      LARDER_ASSIGN_OR_RETURN(ObjectPtr before, store.Get(info.id, object->key()));
      out.Add({object->key(), std::move(before), object});
    }
    return {};
  };
  LARDER_RETURN_IF_ERROR(client.ListPages(info.spec.resource, list, compare));
  for (const auto& [text, head] : known) {
    LARDER_ASSIGN_OR_RETURN(ObjectKey key, ObjectKey::Parse(text));
    LARDER_ASSIGN_OR_RETURN(ObjectPtr before, store.Get(info.id, key));
    out.Add({std::move(key), std::move(before), nullptr});
  }
  return out;
}

std::string Shortened(const std::string& text) {
  constexpr size_t kMost = 120;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

void PrintDetail(const ResourceDiff& diff, bool colour, Output& out) {
  for (const Difference& difference : diff.differences) {
    const std::string name = Printable(diff.resource + " " + difference.key.ToString()) + "\n";
    if (!difference.before) {
      out.Write(Paint("+ " + name, Colour::kGreen, colour));
    } else if (!difference.now) {
      out.Write(Paint("- " + name, Colour::kRed, colour));
    } else {
      out.Write(Paint("~ " + name, Colour::kYellow, colour));
      for (const FieldChange& field :
           CompareObjects(diff.resource, *difference.before, *difference.now)) {
        out.PrintForPeople("    {}: {} -> {}\n", field.path,
                           field.before.empty() ? "(none)" : Shortened(field.before),
                           field.now.empty() ? "(none)" : Shortened(field.now));
      }
    }
    if (out.closed()) return;
  }
}

Json ToJson(const ResourceDiff& diff, bool counts) {
  Json out = {{"resource", diff.resource},
              {"collection", diff.part},
              {"added", diff.added},
              {"removed", diff.removed},
              {"changed", diff.changed}};
  if (counts) return out;
  out["objects"] = Json::array();
  for (const Difference& difference : diff.differences) {
    Json entry = {{"key", difference.key.ToString()},
                  {"change", !difference.before ? "added"
                             : !difference.now  ? "removed"
                                                : "changed"}};
    if (difference.before && difference.now) {
      entry["fields"] = Json::array();
      for (const FieldChange& field :
           CompareObjects(diff.resource, *difference.before, *difference.now)) {
        entry["fields"].push_back(
            {{"path", field.path}, {"before", field.before}, {"now", field.now}});
      }
    }
    out["objects"].push_back(std::move(entry));
  }
  return out;
}

int Print(const std::vector<ResourceDiff>& diffs, const DiffArguments& arguments) {
  Output& out = Stdout();
  bool same = true;
  for (const ResourceDiff& diff : diffs) same = same && diff.differences.empty();
  if (arguments.json) {
    Json list = Json::array();
    for (const ResourceDiff& diff : diffs) list.push_back(ToJson(diff, arguments.counts));
    out.Write(IndentedJson(list));
  } else {
    TableWriter table({"RESOURCE", "ADDED", "REMOVED", "CHANGED"});
    for (const size_t column : {1U, 2U, 3U}) table.AlignRight(column);
    for (const ResourceDiff& diff : diffs) {
      table.Add(
          {diff.part, HumanCount(diff.added), HumanCount(diff.removed), HumanCount(diff.changed)});
    }
    table.Flush(out);
    if (!same && !arguments.counts) out.Write("\n");
    for (const ResourceDiff& diff : diffs) {
      if (!arguments.counts) PrintDetail(diff, UseColour(STDOUT_FILENO), out);
    }
  }
  out.Flush();
  return same ? kOk : kBadResult;
}

struct Chosen {
  std::vector<StoredResource> resources;
  std::map<std::string, Error> unknown{};  // names of nothing that the store has
};

Result<Chosen> ResourcesOf(Store& store, const std::vector<std::string>& names) {
  LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(store));
  if (names.empty()) return Chosen{catalog.Resources()};
  Chosen out;
  for (const std::string& name : names) {
    auto found = catalog.Resolve(name);
    if (found) {
      out.resources.insert(out.resources.end(), found->begin(), found->end());
    } else if (found.error().code == ErrorCode::kNotFound) {
      out.unknown.emplace(name, found.error());
    } else {
      return tl::unexpected(found.error());
    }
  }
  return out;
}

Result<int> RunLive(const DiffArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.first));
  LARDER_ASSIGN_OR_RETURN(const Chosen chosen, ResourcesOf(*store, arguments.resources));
  if (!chosen.unknown.empty()) return tl::unexpected(chosen.unknown.begin()->second);
  LARDER_ASSIGN_OR_RETURN(const auto transport, Connect(arguments.server));
  ApiClient client(*transport);
  std::vector<ResourceDiff> diffs;
  for (const StoredResource& resource : chosen.resources) {
    for (const CollectionInfo& info : resource.collections) {
      LARDER_ASSIGN_OR_RETURN(ResourceDiff diff, CompareLive(*store, info, client));
      diff.resource = resource.resource.ToString();
      diff.part = resource.collections.size() == 1 ? diff.resource : info.spec.ToString();
      diffs.push_back(std::move(diff));
    }
  }
  return Print(diffs, arguments);
}

Result<int> Run(const DiffArguments& arguments) {
  if (arguments.live) return RunLive(arguments);
  if (arguments.second.path.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "with what? Name a second store or snapshot, or give --live");
  }
  LARDER_ASSIGN_OR_RETURN(const auto first, OpenReader(arguments.first));
  LARDER_ASSIGN_OR_RETURN(const auto second, OpenReader(arguments.second));
  // A resource that only one of them has is compared with nothing.
  std::map<std::string, std::pair<StoredResource, StoredResource>> pairs;
  LARDER_ASSIGN_OR_RETURN(const Chosen a, ResourcesOf(*first, arguments.resources));
  LARDER_ASSIGN_OR_RETURN(const Chosen b, ResourcesOf(*second, arguments.resources));
  for (const auto& [name, error] : a.unknown) {
    if (b.unknown.contains(name)) return tl::unexpected(error);
  }
  for (const StoredResource& each : a.resources) pairs[each.resource.ToString()].first = each;
  for (const StoredResource& each : b.resources) pairs[each.resource.ToString()].second = each;
  std::vector<ResourceDiff> diffs;
  for (const auto& [name, pair] : pairs) {
    LARDER_RETURN_IF_ERROR(CompareStores({first.get(), pair.first.collections},
                                         {second.get(), pair.second.collections}, name, diffs));
  }
  return Print(diffs, arguments);
}

}  // namespace

void AddDiff(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App* command = app.add_subcommand(
      "diff", "Compare two stores or snapshots, or a store and the live cluster; 1: they differ");
  command->add_option("first", arguments->first.path, "A store's or snapshot's directory")
      ->required();
  command->add_option("second", arguments->second.path, "Another one");
  command->add_flag("--live", arguments->live, "Compare with the cluster instead");
  AddServerOptions(command, arguments->server);
  command->add_option("--resources", arguments->resources, "Only these: pods,deploy")
      ->delimiter(',');
  command
      ->add_option("--encryption-key-file", arguments->first.key_file,
                   "Keys of what is stored encrypted")
      ->envname("LARDER_ENCRYPTION_KEY_FILE")
      ->type_name("FILE");
  command->add_flag("--counts", arguments->counts, "Only how many");
  command->add_flag("--json", arguments->json, "For scripts");
  command->callback([arguments, &context] {
    arguments->second.key_file = arguments->first.key_file;
    context.exit_code = ExitCode(Run(*arguments));
  });
}

}  // namespace larder::tools
