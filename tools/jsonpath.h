// kubectl's JSONPath: templates for -o jsonpath, paths for custom columns and sorting.
//
// Known: .field, ['field'], [*], [0], [-1], [0:2], [0,2], ..field, filters [?(@.a.b=="x")] with
// == != < <= > >= and plain existence, {range ...}{end}, text between braces, {"\n"}.
//
//   JsonTemplate::Parse("{range .items[*]}{.metadata.name}{\"\\n\"}{end}")
//
// Immutable after Parse. Errors: kInvalidArgument, naming the place.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "schema/object.h"

namespace larder::tools {

class JsonPath {
 public:
  struct Step;

  // ".spec.nodeName", "$.spec.nodeName", "@.name", "[0].name".
  static Result<JsonPath> Parse(std::string_view text);
  // The same, also as "spec.nodeName" and "{.spec.nodeName}".
  static Result<JsonPath> ParseRelaxed(std::string_view text);

  // Every value at the path. They live as long as `root` does.
  std::vector<const Json*> Find(const Json& root) const;

 private:
  friend class JsonTemplate;
  std::vector<std::shared_ptr<const Step>> steps_;
  bool from_root_ = false;  // begins with $: the document, also within a range
};

class JsonTemplate {
 public:
  static Result<JsonTemplate> Parse(std::string_view text);
  std::string Render(const Json& document) const;

 private:
  struct Node {
    enum class Kind { kText, kPath, kRange } kind = Kind::kText;
    std::string text;
    JsonPath path;
    std::vector<Node> body;
  };
  static Result<std::vector<Node>> ParseNodes(std::string_view& rest, bool in_range);
  static void RenderNodes(const std::vector<Node>& nodes, const Json& root, const Json& current,
                          std::string& out);

  std::vector<Node> nodes_;
};

// A value as a cell: strings as they are, everything else as JSON.
std::string JsonText(const Json& value);

}  // namespace larder::tools
