#include "tools/columns/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/age.h"
#include "tools/jsonpath.h"

namespace larder::tools {
namespace {

const std::map<std::string, ColumnSet>& BuiltInColumns() {
  static const std::map<std::string, ColumnSet> all = [] {
    std::map<std::string, ColumnSet> out;
    for (auto* kinds : {&CoreColumns, &WorkloadColumns, &ClusterColumns}) {
      for (KindColumns& kind : (*kinds)()) {
        const Resource resource{kind.group, "", kind.resource, "", true};
        out.emplace(resource.ToString(), std::move(kind.set));
      }
    }
    return out;
  }();
  return all;
}

bool IsMetadataOnly(const JsonView& root) {
  const auto fields = root.Fields();
  return std::all_of(fields.begin(), fields.end(), [](const auto& field) {
    return field.first == "apiVersion" || field.first == "kind" || field.first == "metadata";
  });
}

// Roles of nodes are labels.
bool IsOfMetadata(const Column& column) {
  return column.format == "name" || column.name == "Age" || column.name == "Created At" ||
         column.name == "Roles";
}

ColumnSet NameAndAge() {
  return {{NameColumn(), TextColumn("Age")}, [](const RowInput& in) -> Cells {
            return {in.Name(), in.Age()};
          }};
}

std::string FormatRequirement(const JsonView& requirement) {
  std::string key = requirement["key"].Text();
  const std::string op = requirement["operator"].Text();
  if (op == "Exists") return key;
  if (op == "DoesNotExist") return "!" + key;
  std::vector<std::string> values;
  for (const JsonView& value : requirement["values"].Items()) values.push_back(value.Text());
  std::sort(values.begin(), values.end());
  return fmt::format("{} {} ({})", key, op == "In" ? "in" : "notin", Join(values));
}

}  // namespace

std::string RowInput::Age() const { return AgeOf(object.creation_timestamp(), now); }

Cells ColumnSet::Row(const Object& object, int64_t now) const {
  const JsonDocument document(object);
  Cells row = cells({object, document.root(), now});
  if (!partial || !IsMetadataOnly(document.root())) return row;
  for (size_t i = 0; i < row.size() && i < columns.size(); ++i) {
    if (!IsOfMetadata(columns[i])) row[i] = "<unknown>";
  }
  return row;
}

ColumnSet ColumnsFor(const Resource& resource, const ObjectPtr& crd) {
  const auto found = BuiltInColumns().find(resource.ToString());
  if (found != BuiltInColumns().end()) return found->second;
  return crd ? CustomColumns(resource, *crd) : NameAndAge();
}

Column NameColumn() { return {"Name", "string", "name"}; }
Column TextColumn(const char* name) { return {name}; }
Column WideColumn(const char* name) { return {name, "string", "", 1}; }
Column NumberColumn(const char* name) { return {name, "integer"}; }

std::string OrNone(std::string text, std::string_view none) {
  return text.empty() ? std::string(none) : std::move(text);
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += separator;
    out += part;
  }
  return out;
}

std::string FormatLabels(const JsonView& map) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : map.Fields()) {
    parts.push_back(std::string(key) + "=" + value.Text());
  }
  std::sort(parts.begin(), parts.end());
  return OrNone(Join(parts));
}

std::string FormatSelector(const JsonView& selector) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (const auto& [key, value] : selector["matchLabels"].Fields()) {
    parts.emplace_back(key, std::string(key) + "=" + value.Text());
  }
  for (const JsonView& requirement : selector["matchExpressions"].Items()) {
    parts.emplace_back(requirement["key"].Text(), FormatRequirement(requirement));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> texts;
  texts.reserve(parts.size());
  for (auto& [key, text] : parts) texts.push_back(std::move(text));
  return OrNone(Join(texts));
}

// A CRD names its columns by JSONPath; dates are shown as ages.
ColumnSet CustomColumns(const Resource& resource, const Object& crd) {
  struct Source {
    JsonPath path;
    std::string type;
  };
  ColumnSet out;
  out.columns = {NameColumn()};
  std::vector<Source> sources;
  const JsonDocument document(crd);
  for (const JsonView& version : document.root()["spec"]["versions"].Items()) {
    if (version["name"].Text() != resource.version) continue;
    for (const JsonView& column : version["additionalPrinterColumns"].Items()) {
      auto path = JsonPath::ParseRelaxed(column["jsonPath"].Text());
      if (!path) continue;
      out.columns.push_back({column["name"].Text(), column["type"].Text("string"),
                             column["format"].Text(), static_cast<int>(column["priority"].Number()),
                             column["description"].Text()});
      sources.push_back({*std::move(path), column["type"].Text("string")});
    }
  }
  if (sources.empty()) return NameAndAge();
  out.cells = [sources](const RowInput& in) {
    Cells cells = {in.Name()};
    const Json json = in.object.ToMutable();
    for (const Source& source : sources) {
      const auto values = source.path.Find(json);
      Cell cell;
      if (!values.empty()) {
        const Json& value = *values.front();
        cell.text = JsonText(value);
        cell.number = value.is_number();
        if (source.type == "date") cell = AgeOf(cell.text, in.now);
      } else if (source.type == "date") {
        cell.text = "";
      }
      cells.push_back(std::move(cell));
    }
    return cells;
  };
  return out;
}

}  // namespace larder::tools
