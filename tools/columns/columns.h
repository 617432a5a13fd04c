// The columns of a kind, as the API server's Table and kubectl show them.
//
// Built-in kinds have the server's own columns; a custom kind those of its CRD's
// additionalPrinterColumns; everything else a name and an age.
//
//   const ColumnSet columns = ColumnsFor(resource, crd);
//   std::vector<Cell> row = columns.Row(*pod, NowSeconds());
//
// Immutable; any number of threads may use one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "schema/object.h"
#include "schema/resource.h"
#include "tools/json_view.h"

namespace larder::tools {

struct Column {
  std::string name;             // "Ready"; kubectl prints it in capitals
  std::string type = "string";  // "integer", "number", "boolean", "date"
  std::string format = "";      // "name" for the first
  int priority = 0;             // 1: only in wide output
  std::string description = "";
};

struct Cell {
  std::string text;
  bool number = false;  // unquoted in JSON

  Cell() = default;
  Cell(std::string value) : text(std::move(value)) {}  // NOLINT: cells are made of texts
  Cell(const char* value) : text(value) {}             // NOLINT
  Cell(int64_t value) : text(std::to_string(value)), number(true) {}  // NOLINT
};
using Cells = std::vector<Cell>;

// What a kind's function gets: the document, its metadata decoded, and the time.
struct RowInput {
  const Object& object;
  const JsonView& root;
  int64_t now = 0;

  std::string Name() const { return std::string(object.name()); }
  std::string Age() const;
};
using RowFunction = std::function<Cells(const RowInput&)>;

struct ColumnSet {
  std::vector<Column> columns;
  RowFunction cells;
  // Some objects may have no more than their metadata: what that does not say is <unknown>.
  bool partial = false;

  Cells Row(const Object& object, int64_t now) const;
};

// `crd`: the CustomResourceDefinition of a custom kind, or null.
ColumnSet ColumnsFor(const Resource& resource, const ObjectPtr& crd);

// ---- for the kinds' own files

struct KindColumns {
  const char* group;
  const char* resource;
  ColumnSet set;
};
std::vector<KindColumns> CoreColumns();
std::vector<KindColumns> WorkloadColumns();
std::vector<KindColumns> ClusterColumns();
ColumnSet CustomColumns(const Resource& resource, const Object& crd);

Column NameColumn();
Column TextColumn(const char* name);
Column WideColumn(const char* name);
Column NumberColumn(const char* name);

std::string OrNone(std::string text, std::string_view none = "<none>");
std::string Join(const std::vector<std::string>& parts, std::string_view separator = ",");
// "a=b,c=d", "<none>" where empty; keys sorted.
std::string FormatLabels(const JsonView& map);
// A LabelSelector object (matchLabels, matchExpressions) as text.
std::string FormatSelector(const JsonView& selector);

}  // namespace larder::tools
