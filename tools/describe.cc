// `larder describe`: one object in full, for people, with its events.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/age.h"
#include "tools/catalog.h"
#include "tools/columns/columns.h"
#include "tools/command.h"
#include "tools/json_view.h"
#include "tools/object_diff.h"
#include "tools/output.h"
#include "tools/printer.h"
#include "tools/store_access.h"
#include "tools/table_writer.h"

namespace larder::tools {
namespace {

using SortedJson = nlohmann::json;

struct DescribeArguments {
  StoreArguments store;
  std::vector<std::string> words;
  std::string ns = "default";
  std::string labels;
  bool all_namespaces = false;
};

// "nodeName" reads as "Node Name".
std::string Title(const std::string& field) {
  std::string out;
  for (size_t i = 0; i < field.size(); ++i) {
    const auto c = static_cast<unsigned char>(field[i]);
    const bool starts_word =
        i > 0 && std::isupper(c) && !std::isupper(static_cast<unsigned char>(field[i - 1]));
    if (starts_word) out += ' ';
    out += static_cast<char>(i == 0 ? std::toupper(c) : c);
  }
  return out;
}

std::string ScalarText(const SortedJson& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void DescribeValue(const SortedJson& value, size_t indent, Output& out);

void DescribeField(const std::string& title, const SortedJson& value, size_t indent, Output& out) {
  const std::string margin(indent, ' ');
  if (value.is_structured() && value.empty()) return;
  if (!value.is_structured()) {
    std::string text = ScalarText(value);
    if (text.find('\n') == std::string::npos) {
      out.PrintForPeople("{}{:<{}} {}\n", margin, title + ":", indent > 20 ? 1 : 20 - indent, text);
      return;
    }
    out.PrintForPeople("{}{}:\n", margin, title);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      out.PrintForPeople("{}  {}\n", margin, text.substr(begin, end - begin));
      begin = end + 1;
    }
    return;
  }
  out.PrintForPeople("{}{}:\n", margin, title);
  DescribeValue(value, indent + 2, out);
}

void DescribeValue(const SortedJson& value, size_t indent, Output& out) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) DescribeField(Title(key), child, indent, out);
    return;
  }
  bool first = true;
  for (const SortedJson& child : value) {
    if (!child.is_structured()) {
      out.PrintForPeople("{}{}\n", std::string(indent, ' '), ScalarText(child));
      continue;
    }
    if (!first) out.Write("\n");
    first = false;
    DescribeValue(child, indent, out);
  }
}

// Without the copy of the object that kubectl apply keeps in it, as kubectl's describe.
void DescribeMap(const char* title, std::vector<StringPair> pairs, Output& out) {
  std::erase_if(pairs, [](const StringPair& pair) { return pair.first == kLastApplied; });
  std::sort(pairs.begin(), pairs.end());
  if (pairs.empty()) out.PrintForPeople("{:<20} <none>\n", title);
  for (size_t i = 0; i < pairs.size(); ++i) {
    out.PrintForPeople("{:<20} {}={}\n", i == 0 ? title : "", pairs[i].first, pairs[i].second);
  }
}

void DescribeConditions(const SortedJson& conditions, Output& out) {
  TableWriter table({"  Type", "Status", "Since", "Reason", "Message"});
  const int64_t now = NowSeconds();
  for (const SortedJson& condition : conditions) {
    const auto text = [&](const char* name) {
      const auto found = condition.find(name);
      return found == condition.end() ? std::string() : ScalarText(*found);
    };
    const std::string since = text("lastTransitionTime");
    table.Add({"  " + text("type"), text("status"), since.empty() ? "" : AgeOf(since, now),
               text("reason"), text("message")});
  }
  out.Write("Conditions:\n");
  table.Flush(out);
}

// What happened to it, where events are stored.
void DescribeEvents(Store& store, const Catalog& catalog, const Object& object, Output& out) {
  const auto events = catalog.Resolve("events");
  if (!events) return;
  TableWriter table({"  Type", "Reason", "Age", "From", "Message"});
  Query query;
  query.ns = object.ns();
  if (auto fields = FieldSelector::Parse(fmt::format("involvedObject.uid={}", object.uid()))) {
    query.fields = *std::move(fields);
  }
  const int64_t now = NowSeconds();
  (void)ForEachObject(store, events->front(), query, [&](const ObjectPtr& event) {
    const JsonDocument document(*event);
    const JsonView& root = document.root();
    table.Add({"  " + root["type"].Text(), root["reason"].Text(),
               AgeOf(root["lastTimestamp"].Text(root["eventTime"].Text()), now),
               root["source"]["component"].Text(root["reportingComponent"].Text()),
               root["message"].Text()});
    return true;
  });
  if (table.rows() == 0) {
    out.PrintForPeople("{:<20} <none>\n", "Events:");
    return;
  }
  out.Write("Events:\n");
  table.Flush(out);
}

void Describe(Store& store, const Catalog& catalog, const Object& object) {
  Output& out = Stdout();
  SortedJson document = SortedDocument(object, false);
  const auto line = [&](const char* title, std::string_view text) {
    out.PrintForPeople("{:<20} {}\n", title, text.empty() ? "<none>" : text);
  };
  line("Name:", object.name());
  if (!object.ns().empty()) line("Namespace:", object.ns());
  line("API Version:", object.api_version());
  line("Kind:", object.kind());
  line("UID:", object.uid());
  line("Resource Version:", object.resource_version());
  line("Created:", fmt::format("{} ({} ago)", FormatTimestamp(object.creation_timestamp()),
                               AgeOf(object.creation_timestamp(), NowSeconds())));
  if (object.deletion_timestamp() != 0) {
    line("Deleting since:", FormatTimestamp(object.deletion_timestamp()));
  }
  DescribeMap("Labels:", object.Labels(), out);
  DescribeMap("Annotations:", object.Annotations(), out);
  for (const OwnerReference& owner : object.Owners()) {
    line(owner.controller ? "Controlled By:" : "Owned By:", owner.kind + "/" + owner.name);
  }
  SortedJson conditions;
  if (document.contains("status") && document["status"].is_object() &&
      document["status"].contains("conditions")) {
    conditions = document["status"]["conditions"];
    document["status"].erase("conditions");
  }
  // Secrets are shown by size only, as kubectl does.
  if (object.kind() == "Secret" && document.contains("data")) {
    for (auto& [key, value] : document["data"].items()) {
      value = fmt::format("{} bytes in base64", ScalarText(value).size());
    }
  }
  for (const char* name : {"apiVersion", "kind", "metadata"}) document.erase(name);
  DescribeValue(document, 0, out);
  if (conditions.is_array() && !conditions.empty()) DescribeConditions(conditions, out);
  DescribeEvents(store, catalog, object, out);
}

Result<int> Run(const DescribeArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto words, ParseNames(arguments.words));
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(*store));
  bool first = true;
  const auto show = [&](const Object& object) {
    if (!first) Stdout().Write("\n\n");
    first = false;
    Describe(*store, catalog, object);
    return !Stdout().closed();
  };
  for (const NamedObject& word : words) {
    LARDER_ASSIGN_OR_RETURN(const auto resources, catalog.Resolve(word.resource));
    for (const StoredResource& resource : resources) {
      const std::string ns = resource.resource.namespaced ? arguments.ns : "";
      if (!word.name.empty()) {
        LARDER_ASSIGN_OR_RETURN(const ObjectPtr object,
                                GetObject(*store, resource, {ns, word.name}));
        show(*object);
        continue;
      }
      Query query;
      query.ns = arguments.all_namespaces ? "" : ns;
      LARDER_ASSIGN_OR_RETURN(query.labels, LabelSelector::Parse(arguments.labels));
      LARDER_RETURN_IF_ERROR(ForEachObject(*store, resource, query,
                                           [&](const ObjectPtr& object) { return show(*object); }));
    }
  }
  Stdout().Flush();
  if (first) SayNothingFound(arguments.all_namespaces ? "" : arguments.ns);
  return kOk;
}

}  // namespace

void AddDescribe(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<DescribeArguments>();
  CLI::App* command = app.add_subcommand("describe", "Show objects in full, with their events");
  command->add_option("resource", arguments->words, "pod web-0, or pod/web-0")->required();
  AddStoreOptions(command, arguments->store);
  command->add_option("-n,--namespace", arguments->ns, "Of this namespace")->capture_default_str();
  command->add_flag("-A,--all-namespaces", arguments->all_namespaces, "Of all namespaces");
  command->add_option("-l,--selector", arguments->labels, "Label selector");
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Run(*arguments), arguments->store); });
}

}  // namespace larder::tools
