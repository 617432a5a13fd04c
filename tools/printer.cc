#include "tools/printer.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "schema/json_span.h"
#include "schema/parse_json.h"
#include "tools/age.h"
#include "tools/columns/columns.h"
#include "tools/jsonpath.h"
#include "tools/table_writer.h"
#include "tools/yaml.h"

namespace larder::tools {
namespace {

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

class TablePrinter final : public Printer {
 public:
  TablePrinter(const PrintOptions& options, Output& out)
      : options_(options), wide_(options.output == "wide"), out_(out), now_(NowSeconds()) {}

  void Begin(const StoredResource& resource) override {
    Flush();
    columns_ = ColumnsFor(resource.resource, resource.crd);
    columns_.partial = resource.Partial();
    prefix_ = options_.kind_prefix ? resource.NamePrefix() + "/" : "";
    namespaced_ = options_.namespace_column && resource.resource.namespaced;
    // A watch of several comes back to each: with its widths, and without another header.
    table_ = &tables_[resource.resource.ToString()];
  }

  Rendered Render(const ObjectPtr& object) const override {
    Cells cells = columns_.Row(*object, now_);
    Rendered out;
    out.cells.reserve(cells.size() + 2);
    if (namespaced_) out.cells.emplace_back(object->ns());
    for (size_t i = 0; i < cells.size() && i < columns_.columns.size(); ++i) {
      const Column& column = columns_.columns[i];
      if (column.priority != 0 && !wide_) continue;
      std::string& text = cells[i].text;
      // As kubectl: of a text its first line.
      if (const size_t end = text.find_first_of("\f\n\r"); end != std::string::npos) {
        text.replace(end, std::string::npos, "...");
      }
      out.cells.push_back(column.format == "name" ? prefix_ + text : std::move(text));
    }
    for (const std::string& label : options_.label_columns) {
      out.cells.emplace_back(object->Label(label).value_or(""));
    }
    if (options_.show_labels) out.cells.push_back(Labels(*object));
    return out;
  }

  using Printer::Add;
  bool Add(Rendered rendered) override {
    if (!*table_) {
      if (printed_ && options_.kind_prefix) out_.Write("\n");
      table_->emplace(options_.no_headers ? std::vector<std::string>{} : Header());
      printed_ = true;
    }
    (*table_)->Add(std::move(rendered.cells));
    return !out_.closed() && ((*table_)->rows() < kHeld || (*table_)->Flush(out_));
  }

  void Flush() override {
    if (table_ && *table_) (*table_)->Flush(out_);
    out_.Flush();
    now_ = NowSeconds();
  }
  void Finish() override { Flush(); }

 private:
  // Rows that decide about the widths; those behind them may be out of line, and memory is bounded.
  static constexpr size_t kHeld = 50'000;

  std::vector<std::string> Header() const {
    std::vector<std::string> header;
    if (namespaced_) header.emplace_back("NAMESPACE");
    for (const Column& column : columns_.columns) {
      if (column.priority == 0 || wide_) header.push_back(Upper(column.name));
    }
    for (const std::string& label : options_.label_columns) {
      header.push_back(Upper(label.substr(label.rfind('/') + 1)));
    }
    if (options_.show_labels) header.emplace_back("LABELS");
    return header;
  }

  static std::string Labels(const Object& object) {
    std::vector<std::string> parts;
    for (const auto& [key, value] : object.Labels()) {
      parts.push_back(std::string(key) + "=" + std::string(value));
    }
    std::sort(parts.begin(), parts.end());
    return OrNone(Join(parts));
  }

  const PrintOptions options_;
  const bool wide_;
  Output& out_;
  int64_t now_;
  ColumnSet columns_;
  std::string prefix_;
  bool namespaced_ = false;
  bool printed_ = false;
  std::map<std::string, std::optional<TableWriter>> tables_;  // by resource; one that has rows
  std::optional<TableWriter>* table_ = nullptr;               // of them
};

// json and yaml: one document, or a List around all.
class DocumentPrinter final : public Printer {
 public:
  DocumentPrinter(const PrintOptions& options, Output& out) : options_(options), out_(out) {}

  void Begin(const StoredResource&) override {}
  Rendered Render(const ObjectPtr& object) const override {
    const auto document = SortedDocument(*object, options_.show_managed_fields);
    Rendered out;
    if (options_.output != "yaml") {
      out.text = options_.single ? document.dump(4) + "\n" : Indented(document.dump(4));
    } else {
      out.text = ToYaml(document, options_.single ? 0 : 2);
      if (!options_.single) out.text[0] = '-';
    }
    return out;
  }
  using Printer::Add;
  bool Add(Rendered rendered) override {
    const bool yaml = options_.output == "yaml";
    if (options_.single) {
      if (count_++ > 0 && yaml) out_.Write("---\n");
      return out_.Write(rendered.text);
    }
    if (count_++ == 0) {
      out_.Write(yaml ? "apiVersion: v1\nitems:\n"
                      : "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n");
    } else if (!yaml) {
      out_.Write(",\n");
    }
    return out_.Write(rendered.text);
  }
  void Flush() override { out_.Flush(); }
  void Finish() override {
    if (options_.single) {
    } else if (options_.output == "yaml") {
      if (count_ == 0) out_.Write("apiVersion: v1\nitems: []\n");
      out_.Write("kind: List\nmetadata:\n  resourceVersion: \"\"\n");
    } else {
      out_.Write(count_ == 0 ? "{\n    \"apiVersion\": \"v1\",\n    \"items\": [],\n"
                             : "\n    ],\n");
      out_.Write(
          "    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n"
          "    }\n}\n");
    }
    out_.Flush();
  }

 private:
  static std::string Indented(const std::string& text) {
    std::string out = "        ";
    for (const char c : text) {
      out += c;
      if (c == '\n') out += "        ";
    }
    return out;
  }

  const PrintOptions options_;
  Output& out_;
  size_t count_ = 0;
};

// A line for each object.
class LinePrinter final : public Printer {
 public:
  LinePrinter(const PrintOptions& options, Output& out)
      : json_(options.output == "jsonl"), out_(out) {}
  void Begin(const StoredResource& resource) override { prefix_ = resource.NamePrefix() + "/"; }
  Rendered Render(const ObjectPtr& object) const override {
    Rendered out;
    out.text = json_ ? OneLine(object->json())
                     : Printable(prefix_ + std::string(object->name()), Lines::kOne);
    out.text += '\n';
    return out;
  }
  using Printer::Add;
  bool Add(Rendered rendered) override { return out_.Write(rendered.text); }
  void Flush() override { out_.Flush(); }
  void Finish() override { out_.Flush(); }

 private:
  const bool json_;
  Output& out_;
  std::string prefix_;
};

class JsonPathPrinter final : public Printer {
 public:
  JsonPathPrinter(JsonTemplate text, bool single, Output& out)
      : template_(std::move(text)), single_(single), out_(out) {}
  void Begin(const StoredResource&) override {}
  // A template sees one object, or the list of all.
  Rendered Render(const ObjectPtr& object) const override {
    Rendered out;
    if (single_) {
      out.text = template_.Render(object->ToMutable());
    } else {
      out.object = object;
    }
    return out;
  }
  using Printer::Add;
  bool Add(Rendered rendered) override {
    if (single_) return out_.Write(rendered.text);
    items_.push_back(rendered.object->ToMutable());
    return true;
  }
  void Flush() override { out_.Flush(); }
  void Finish() override {
    if (!single_) {
      const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items_)}};
      out_.Write(template_.Render(list));
    }
    out_.Flush();
  }

 private:
  const JsonTemplate template_;
  const bool single_;
  Output& out_;
  Json items_ = Json::array();
};

class CustomColumnsPrinter final : public Printer {
 public:
  CustomColumnsPrinter(std::vector<std::string> header, std::vector<JsonPath> paths, Output& out)
      : paths_(std::move(paths)), table_(std::move(header)), out_(out) {}
  void Begin(const StoredResource&) override {}
  Rendered Render(const ObjectPtr& object) const override {
    const Json json = object->ToMutable();
    Rendered out;
    for (const JsonPath& path : paths_) {
      std::vector<std::string> values;
      for (const Json* value : path.Find(json)) values.push_back(JsonText(*value));
      out.cells.push_back(OrNone(Join(values)));
    }
    return out;
  }
  using Printer::Add;
  bool Add(Rendered rendered) override {
    table_.Add(std::move(rendered.cells));
    return !out_.closed();
  }
  void Flush() override {
    table_.Flush(out_);
    out_.Flush();
  }
  void Finish() override { Flush(); }

 private:
  const std::vector<JsonPath> paths_;
  TableWriter table_;
  Output& out_;
};

// "NAME:.metadata.name,NODE:.spec.nodeName"; commas within brackets belong to the path.
Result<std::unique_ptr<Printer>> MakeCustomColumns(std::string_view spec, bool no_headers,
                                                   Output& out) {
  std::vector<std::string> header;
  std::vector<JsonPath> paths;
  while (!spec.empty()) {
    int depth = 0;
    size_t end = 0;
    for (; end < spec.size() && (spec[end] != ',' || depth > 0); ++end) {
      depth += spec[end] == '[' ? 1 : spec[end] == ']' ? -1 : 0;
    }
    const std::string_view column = spec.substr(0, end);
    spec.remove_prefix(std::min(end + 1, spec.size()));
    const size_t colon = column.find(':');
    if (colon == std::string_view::npos || colon == 0) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "custom-columns: \"{}\" is not HEADER:path, for example NAME:.metadata.name",
                       column);
    }
    header.emplace_back(column.substr(0, colon));
    LARDER_ASSIGN_OR_RETURN(JsonPath path, JsonPath::ParseRelaxed(column.substr(colon + 1)));
    paths.push_back(std::move(path));
  }
  if (paths.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "custom-columns: no columns given");
  }
  if (no_headers) header.clear();
  return std::make_unique<CustomColumnsPrinter>(std::move(header), std::move(paths), out);
}

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return MakeError(ErrorCode::kInvalidArgument, "cannot read {}", path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

const char* const kOutputHelp =
    "wide, json, yaml, name, jsonl (a line for each object, as the server sent it), "
    "jsonpath=TEMPLATE, jsonpath-file=FILE or custom-columns=HEADER:PATH,...";

nlohmann::json SortedDocument(const Object& object, bool show_managed_fields) {
  // Printing takes stack for each level; only a forged row has so many.
  if (!IsOneJsonContainer(Trimmed(object.json()), kMaxParsedDepth)) return nlohmann::json::object();
  auto document = nlohmann::json::parse(object.json(), nullptr, false);
  const auto metadata = document.find("metadata");
  if (!show_managed_fields && metadata != document.end()) metadata->erase("managedFields");
  return document;
}

Result<std::unique_ptr<Printer>> MakePrinter(const PrintOptions& options, Output& out) {
  const std::string& output = options.output;
  if (output.empty() || output == "wide") return std::make_unique<TablePrinter>(options, out);
  if (output == "json" || output == "yaml") return std::make_unique<DocumentPrinter>(options, out);
  if (output == "name" || output == "jsonl") return std::make_unique<LinePrinter>(options, out);
  const size_t equals = output.find('=');
  const std::string kind = output.substr(0, equals);
  std::string value = equals == std::string::npos ? "" : output.substr(equals + 1);
  const bool known = kind == "custom-columns" || kind == "jsonpath" || kind == "jsonpath-file";
  if (known && value.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "-o {}: nothing is given behind it; there are {}",
                     output, kOutputHelp);
  }
  if (kind == "custom-columns") return MakeCustomColumns(value, options.no_headers, out);
  if (kind == "jsonpath-file") {
    LARDER_ASSIGN_OR_RETURN(value, ReadFile(value));
  } else if (kind != "jsonpath") {
    return MakeError(ErrorCode::kInvalidArgument, "no output \"{}\"; there are {}", output,
                     kOutputHelp);
  }
  LARDER_ASSIGN_OR_RETURN(JsonTemplate text, JsonTemplate::Parse(value));
  return std::make_unique<JsonPathPrinter>(std::move(text), options.single, out);
}

}  // namespace larder::tools
