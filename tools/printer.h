// Objects on the way out: kubectl's tables, and -o json, yaml, name, jsonpath, custom-columns.
//
//   LARDER_ASSIGN_OR_RETURN(auto printer, MakePrinter(options, Stdout()));
//   printer->Begin(pods);
//   printer->Add(pod);             // false: nobody reads any more
//   printer->Finish();
//
// Not thread-safe. Errors: kInvalidArgument for an output that is not known.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "schema/object.h"
#include "tools/catalog.h"
#include "tools/output.h"

namespace larder::tools {

struct PrintOptions {
  std::string output{};  // "", "wide", "json", "jsonl", "yaml", "name", "jsonpath=...", ...
  bool namespace_column = false;
  bool kind_prefix = false;  // pod/web-0: several resources in one answer
  bool show_labels = false;
  std::vector<std::string> label_columns{};
  bool no_headers = false;
  bool show_managed_fields = false;
  // Each object is a document: one was asked for by name, or they come one by one, for ever.
  bool single = false;
};

// An object made ready to be printed: the expensive part.
struct Rendered {
  std::vector<std::string> cells{};  // of a row
  std::string text{};                // of a document or a line
  ObjectPtr object{};                // where all of them are needed at once
};

class Printer {
 public:
  virtual ~Printer() = default;
  // What comes now is of this resource; again, where it was before.
  virtual void Begin(const StoredResource& resource) = 0;
  // Between two calls of the others, any number of threads may call it.
  virtual Rendered Render(const ObjectPtr& object) const = 0;
  virtual bool Add(Rendered rendered) = 0;
  bool Add(const ObjectPtr& object) { return Add(Render(object)); }
  // Everything so far is to be seen now: for a watch.
  virtual void Flush() {}
  virtual void Finish() = 0;
};

Result<std::unique_ptr<Printer>> MakePrinter(const PrintOptions& options, Output& out);
// The outputs that MakePrinter knows, for help texts.
extern const char* const kOutputHelp;

// As kubectl prints it: keys sorted; without managedFields unless they are wanted.
nlohmann::json SortedDocument(const Object& object, bool show_managed_fields);

}  // namespace larder::tools
