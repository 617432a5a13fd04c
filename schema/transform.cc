#include "schema/transform.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <map>
#include <memory>

#include "schema/field_path.h"
#include "schema/json_parser.h"

namespace larder {
namespace {

namespace ondemand = simdjson::ondemand;

// Paths as a tree of names; lists are walked through without a step of their own.
struct Node {
  bool chosen = false;  // a path ends here
  std::map<std::string, Node, std::less<>> fields;
};

Result<Node> MakeTree(const std::vector<std::string>& paths) {
  Node root;
  for (const std::string& text : paths) {
    LARDER_ASSIGN_OR_RETURN(const FieldPath path, FieldPath::Parse(text));
    Node* node = &root;
    for (const FieldPath::Step& step : path.steps()) {
      if (step.kind == FieldPath::Step::Kind::kIndex) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "path \"{}\" picks one element of a list; a transform takes all or none: "
                         "write [*]",
                         text);
      }
      if (step.kind == FieldPath::Step::Kind::kField) node = &node->fields[step.name];
    }
    node->chosen = true;
  }
  return root;
}

const Node* Find(const Node& node, std::string_view name) {
  const auto it = node.fields.find(name);
  return it == node.fields.end() ? nullptr : &it->second;
}

// Copies a document and leaves out what the tree says. Every value that is kept whole is copied as
// it stands in the text.
class Copier {
 public:
  enum class Mode { kKeep, kDrop };
  Copier(Mode mode, std::string& out) : mode_(mode), out_(out) {}

  simdjson::error_code Copy(ondemand::value value, const Node& node) {
    ondemand::json_type type;
    if (const auto error = value.type().get(type)) return error;
    if (type == ondemand::json_type::object) return Fields(value.get_object(), node);
    if (type == ondemand::json_type::array) return Elements(value, node);
    return Whole(value);
  }
  simdjson::error_code Fields(simdjson::simdjson_result<ondemand::object> object,
                              const Node& node) {
    out_ += '{';
    bool first = true;
    for (auto field : object) {
      std::string_view name;
      ondemand::raw_json_string key;
      if (const auto error = field.key().get(key)) return error;
      if (const auto error = field.unescaped_key().get(name)) return error;
      const Node* const found = Find(node, name);
      if (mode_ == Mode::kKeep ? !found : found && found->chosen) continue;
      ondemand::value value;
      if (const auto error = field.value().get(value)) return error;
      if (!first) out_ += ',';
      first = false;
      Key(key);
      const bool whole = mode_ == Mode::kKeep ? found->chosen : !found;
      if (const auto error = whole ? Whole(value) : Copy(value, *found)) return error;
    }
    out_ += '}';
    return simdjson::SUCCESS;
  }

 private:
  simdjson::error_code Elements(ondemand::value list, const Node& node) {
    out_ += '[';
    bool first = true;
    ondemand::array array;
    if (const auto error = list.get_array().get(array)) return error;
    for (auto element : array) {
      ondemand::value value;
      if (const auto error = element.get(value)) return error;
      if (!first) out_ += ',';
      first = false;
      if (const auto error = Copy(value, node)) return error;
    }
    out_ += ']';
    return simdjson::SUCCESS;
  }
  simdjson::error_code Whole(ondemand::value value) {
    std::string_view text;
    if (const auto error = simdjson::to_json_string(value).get(text)) return error;
    out_ += text;
    return simdjson::SUCCESS;
  }
  // As it is written, escapes and all.
  void Key(const ondemand::raw_json_string& key) {
    const char* const begin = key.raw();
    const char* end = begin;
    while (*end != '"') end += *end == '\\' ? 2 : 1;
    out_ += '"';
    out_.append(begin, end);
    out_ += "\":";
  }

  const Mode mode_;
  std::string& out_;
};

Result<ObjectPtr> Apply(const ObjectPtr& object, Copier::Mode mode, const Node& tree) {
  const simdjson::padded_string padded(object->json());
  const ParserLease parser(padded.size());
  std::string out;
  out.reserve(padded.size());
  ondemand::document document;
  simdjson::error_code error = parser->iterate(padded).get(document);
  if (!error) error = Copier(mode, out).Fields(document.get_object(), tree);
  if (error) {
    return MakeError(ErrorCode::kProtocol, "object {} is not valid JSON: {}",
                     object->key().ToString(), simdjson::error_message(error));
  }
  return Object::Parse(out, {std::string(object->api_version()), std::string(object->kind())});
}

Transform Make(std::string name, Copier::Mode mode, Node tree) {
  auto shared = std::make_shared<const Node>(std::move(tree));
  return {std::move(name),
          [mode, shared](const ObjectPtr& object) { return Apply(object, mode, *shared); }};
}

std::string NameOf(std::string_view what, std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end());
  return fmt::format("{}({})@1", what, fmt::join(paths, ","));
}

// What the store and the protocol cannot do without.
bool IsIdentity(const Node& tree) {
  for (const char* top : {"apiVersion", "kind", "metadata"}) {
    const Node* const node = Find(tree, top);
    if (node && node->chosen) return true;
    if (!node) continue;
    for (const char* field : {"name", "namespace", "uid", "resourceVersion"}) {
      if (Find(*node, field)) return true;
    }
  }
  return tree.chosen;
}

}  // namespace

Transform StripManagedFields() {
  Node tree;
  tree.fields["metadata"].fields["managedFields"].chosen = true;
  return Make("strip-managed-fields@1", Copier::Mode::kDrop, std::move(tree));
}

Result<Transform> DropPaths(const std::vector<std::string>& paths) {
  LARDER_ASSIGN_OR_RETURN(Node tree, MakeTree(paths));
  if (IsIdentity(tree)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "\"{}\" would drop what an object is known by: apiVersion, kind, and in "
                     "metadata name, namespace, uid and resourceVersion must stay",
                     fmt::join(paths, ","));
  }
  return Make(NameOf("drop", paths), Copier::Mode::kDrop, std::move(tree));
}

Result<Transform> KeepPaths(const std::vector<std::string>& paths) {
  LARDER_ASSIGN_OR_RETURN(Node tree, MakeTree(paths));
  for (const char* top : {"apiVersion", "kind", "metadata"}) tree.fields[top].chosen = true;
  Transform keep = Make(NameOf("keep", paths), Copier::Mode::kKeep, std::move(tree));
  std::string name = keep.name;
  Transform both = Chain({std::move(keep), StripManagedFields()});
  both.name = std::move(name);
  return both;
}

Transform Chain(std::vector<Transform> transforms) {
  std::string name;
  for (const Transform& transform : transforms) {
    name += (name.empty() ? "" : "+") + transform.name;
  }
  auto shared = std::make_shared<const std::vector<Transform>>(std::move(transforms));
  return {std::move(name), [shared](const ObjectPtr& object) -> Result<ObjectPtr> {
            ObjectPtr result = object;
            for (const Transform& transform : *shared) {
              LARDER_ASSIGN_OR_RETURN(result, transform.apply(result));
            }
            return result;
          }};
}

}  // namespace larder
