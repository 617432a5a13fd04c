// `larder history`: what is known of an object's past: who wrote it when, its conditions, its
// events, and the changes that still wait for a handler.
#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "schema/delta_generated.h"
#include "tools/age.h"
#include "tools/catalog.h"
#include "tools/command.h"
#include "tools/json_view.h"
#include "tools/object_diff.h"
#include "tools/output.h"
#include "tools/store_access.h"
#include "tools/table_writer.h"

namespace larder::tools {
namespace {

struct HistoryArguments {
  StoreArguments store;
  std::vector<std::string> words;
  std::string ns = "default";
  bool json = false;
};

struct Moment {
  std::string time;
  std::string what;
  std::string who;
  std::string detail;
};

void AddWrites(const JsonView& root, std::vector<Moment>& out) {
  out.push_back({root["metadata"]["creationTimestamp"].Text(), "created", "", ""});
  for (const JsonView& entry : root["metadata"]["managedFields"].Items()) {
    const std::string subresource = entry["subresource"].Text();
    std::string fields;
    for (const auto& [area, content] : entry["fieldsV1"].Fields()) {
      if (area.substr(0, 2) != "f:") continue;
      for (const auto& [field, inner] : content.Fields()) {
        if (field.substr(0, 2) != "f:") continue;
        fields +=
            fmt::format("{}{}.{}", fields.empty() ? "" : ", ", area.substr(2), field.substr(2));
      }
    }
    out.push_back({entry["time"].Text(),
                   (entry["operation"].Text() == "Apply" ? "applied" : "written") +
                       (subresource.empty() ? "" : " /" + subresource),
                   entry["manager"].Text(), fields});
  }
  for (const JsonView& condition : root["status"]["conditions"].Items()) {
    out.push_back({condition["lastTransitionTime"].Text(),
                   condition["type"].Text() + "=" + condition["status"].Text(), "condition",
                   condition["reason"].Text()});
  }
  const std::string deleted = root["metadata"]["deletionTimestamp"].Text();
  if (!deleted.empty()) out.push_back({deleted, "deletion requested", "", ""});
}

void AddEvents(Store& store, const Catalog& catalog, const Object& object,
               std::vector<Moment>& out) {
  const auto events = catalog.Resolve("events");
  auto fields = FieldSelector::Parse(fmt::format("involvedObject.uid={}", object.uid()));
  if (!events || !fields) return;
  Query query;
  query.ns = object.ns();
  query.fields = *std::move(fields);
  (void)ForEachObject(store, events->front(), query, [&](const ObjectPtr& event) {
    const JsonDocument document(*event);
    const JsonView& root = document.root();
    out.push_back({root["lastTimestamp"].Text(root["eventTime"].Text()),
                   "event " + root["reason"].Text(),
                   root["source"]["component"].Text(root["reportingComponent"].Text()),
                   root["message"].Text()});
    return true;
  });
}

const char* KindOf(fbs::DeltaKind kind) {
  switch (kind) {
    case fbs::DeltaKind_Added:
      return "add waits";
    case fbs::DeltaKind_Deleted:
      return "delete waits";
    case fbs::DeltaKind_Recreated:
      return "delete and add wait";
    default:
      return "update waits";
  }
}

// What a handler has not acknowledged: from the state that it knows to the one now.
Result<void> AddPending(const Store& store, const StoredResource& resource, const ObjectKey& key,
                        const ObjectPtr& now, std::vector<Moment>& out) {
  for (const CollectionInfo& info : resource.collections) {
    LARDER_ASSIGN_OR_RETURN(const auto handlers, store.DeltaHandlers(info.id));
    for (const std::string& handler : handlers) {
      LARDER_ASSIGN_OR_RETURN(const auto row, store.GetDelta(info.id, handler, key));
      if (!row) continue;
      flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(row->data()), row->size());
      if (!fbs::VerifyPendingDeltaBuffer(verifier)) {
        return MakeError(ErrorCode::kCorruption, "the change of {} that waits for {} is damaged",
                         key.ToString(), handler);
      }
      const fbs::PendingDelta* const delta = fbs::GetPendingDelta(row->data());
      std::string fields;
      if (delta->known() && now) {
        LARDER_ASSIGN_OR_RETURN(const ObjectPtr known,
                                store.Decode(info.id, key,
                                             {reinterpret_cast<const char*>(delta->known()->data()),
                                              delta->known()->size()}));
        for (const FieldChange& field :
             CompareObjects(resource.resource.ToString(), *known, *now)) {
          fields += (fields.empty() ? "" : ", ") + field.path;
        }
      }
      out.push_back({"", KindOf(delta->kind()), handler, fields});
    }
  }
  return {};
}

Result<int> Run(const HistoryArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto words, ParseNames(arguments.words));
  if (words.empty() || words.front().name.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "of which object? pod/web-0, for example");
  }
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(*store));
  LARDER_ASSIGN_OR_RETURN(const auto resources, catalog.Resolve(words.front().resource));
  const StoredResource& resource = resources.front();
  const ObjectKey key{resource.resource.namespaced ? arguments.ns : "", words.front().name};
  std::vector<Moment> moments;
  const auto object = GetObject(*store, resource, key);
  if (object) {
    AddWrites(JsonDocument(**object).root(), moments);
    AddEvents(*store, catalog, **object, moments);
  } else if (object.error().code != ErrorCode::kNotFound) {
    return tl::unexpected(object.error());
  }
  std::stable_sort(moments.begin(), moments.end(),
                   [](const Moment& a, const Moment& b) { return a.time < b.time; });
  LARDER_RETURN_IF_ERROR(AddPending(*store, resource, key, object ? *object : nullptr, moments));
  // A deleted object may still have changes that wait.
  if (!object && moments.empty()) return tl::unexpected(object.error());
  Output& out = Stdout();
  if (arguments.json) {
    Json list = Json::array();
    for (const Moment& moment : moments) {
      list.push_back({{"time", moment.time},
                      {"what", moment.what},
                      {"who", moment.who},
                      {"detail", moment.detail}});
    }
    out.Write(IndentedJson(list));
  } else {
    TableWriter table({"TIME", "WHAT", "WHO", "DETAIL"});
    for (Moment& moment : moments) {
      table.Add({moment.time.empty() ? "-" : moment.time, moment.what, moment.who, moment.detail});
    }
    table.Flush(out);
  }
  out.Flush();
  return kOk;
}

}  // namespace

void AddHistory(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<HistoryArguments>();
  CLI::App* command = app.add_subcommand(
      "history", "Show what is known of an object's past, and changes that wait for handlers");
  command->add_option("object", arguments->words, "pod/web-0, or pod web-0")->required();
  AddStoreOptions(command, arguments->store);
  command->add_option("-n,--namespace", arguments->ns, "Of this namespace")->capture_default_str();
  command->add_flag("--json", arguments->json, "For scripts");
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Run(*arguments), arguments->store); });
}

}  // namespace larder::tools
