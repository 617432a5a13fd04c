#include "schema/transform.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <memory>

#include "schema/json_parser.h"

namespace larder {
namespace {

namespace ondemand = simdjson::ondemand;

// Copies a document and leaves out what the tree says. Every value that is kept whole is copied as
// it stands in the text.
class Copier {
 public:
  Copier(PathMode mode, std::string& out) : mode_(mode), out_(out) {}

  simdjson::error_code Fields(simdjson::simdjson_result<ondemand::object> object,
                              const PathTree& node, int depth = 0) {
    out_ += '{';
    bool first = true;
    for (auto field : object) {
      std::string_view name;
      ondemand::raw_json_string key;
      if (const auto error = field.key().get(key)) return error;
      if (const auto error = field.unescaped_key().get(name)) return error;
      const PathTree* const found = node.Find(name);
      if (mode_ == PathMode::kKeep ? !found : found && found->chosen) continue;
      ondemand::value value;
      if (const auto error = field.value().get(value)) return error;
      if (!first) out_ += ',';
      first = false;
      Key(key);
      const bool whole = mode_ == PathMode::kKeep ? found->chosen : !found;
      if (const auto error = whole ? Whole(value) : Copy(value, *found, depth + 1)) {
        return error;
      }
    }
    out_ += '}';
    return simdjson::SUCCESS;
  }

 private:
  // Takes stack for each level.
  static constexpr int kMaxDepth = 1000;

  simdjson::error_code Copy(ondemand::value value, const PathTree& node, int depth) {
    if (depth > kMaxDepth) return simdjson::DEPTH_ERROR;
    ondemand::json_type type;
    if (const auto error = value.type().get(type)) return error;
    if (type == ondemand::json_type::object) return Fields(value.get_object(), node, depth);
    if (type == ondemand::json_type::array) return Elements(value, node, depth);
    return Whole(value);
  }
  simdjson::error_code Elements(ondemand::value list, const PathTree& node, int depth) {
    out_ += '[';
    bool first = true;
    ondemand::array array;
    if (const auto error = list.get_array().get(array)) return error;
    for (auto element : array) {
      ondemand::value value;
      if (const auto error = element.get(value)) return error;
      if (!first) out_ += ',';
      first = false;
      if (const auto error = Copy(value, node, depth + 1)) return error;
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

  const PathMode mode_;
  std::string& out_;
};

Result<ObjectPtr> Apply(const ObjectPtr& object, PathMode mode, const PathTree& tree) {
  const std::string_view json = object->json();
  const ParserLease parser(json.size());
  std::string out;
  out.reserve(json.size());
  ondemand::document document;
  simdjson::error_code error =
      parser->iterate(json.data(), json.size(), json.size() + Object::kJsonPadding).get(document);
  if (!error) error = Copier(mode, out).Fields(document.get_object(), tree);
  if (error) {
    return MakeError(ErrorCode::kProtocol, "object {} is not valid JSON: {}",
                     object->key().ToString(), simdjson::error_message(error));
  }
  return Object::Parse(out, {std::string(object->api_version()), std::string(object->kind())});
}

Transform Make(std::string name, PathMode mode, PathTree tree) {
  auto shared = std::make_shared<const PathTree>(std::move(tree));
  return {std::move(name),
          [mode, shared](const ObjectPtr& object) { return Apply(object, mode, *shared); },
          {{mode, shared}}};
}

std::string NameOf(std::string_view what, std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end());
  return fmt::format("{}({})@1", what, fmt::join(paths, ","));
}

// What the store and the protocol cannot do without, and what a finalizer's patch is made of: a
// list without those of others would take them away.
bool IsIdentity(const PathTree& tree) {
  for (const char* top : {"apiVersion", "kind", "metadata"}) {
    const PathTree* const node = tree.Find(top);
    if (node && node->chosen) return true;
    if (!node) continue;
    for (const char* field :
         {"name", "namespace", "uid", "resourceVersion", "finalizers", "deletionTimestamp"}) {
      if (node->Find(field)) return true;
    }
  }
  return tree.chosen;
}

}  // namespace

Transform StripManagedFields() {
  PathTree tree;
  tree.fields["metadata"].fields["managedFields"].chosen = true;
  return Make("strip-managed-fields@1", PathMode::kDrop, std::move(tree));
}

Result<Transform> DropPaths(const std::vector<std::string>& paths) {
  LARDER_ASSIGN_OR_RETURN(PathTree tree, PathTree::Of(paths));
  if (IsIdentity(tree)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "\"{}\" would drop what an object is known by: apiVersion, kind, and in "
                     "metadata name, namespace, uid, resourceVersion, finalizers and "
                     "deletionTimestamp must stay",
                     fmt::join(paths, ","));
  }
  return Make(NameOf("drop", paths), PathMode::kDrop, std::move(tree));
}

Result<Transform> KeepPaths(const std::vector<std::string>& paths) {
  LARDER_ASSIGN_OR_RETURN(PathTree tree, PathTree::Of(paths));
  for (const char* top : {"apiVersion", "kind", "metadata"}) tree.fields[top].chosen = true;
  Transform keep = Make(NameOf("keep", paths), PathMode::kKeep, std::move(tree));
  std::string name = keep.name;
  Transform both = Chain({std::move(keep), StripManagedFields()});
  both.name = std::move(name);
  return both;
}

Transform Chain(std::vector<Transform> transforms) {
  std::string name;
  std::vector<PathCut> cuts;
  bool only_cuts = true;
  for (const Transform& transform : transforms) {
    name += (name.empty() ? "" : "+") + transform.name;
    only_cuts = only_cuts && !transform.cuts.empty();
    cuts.insert(cuts.end(), transform.cuts.begin(), transform.cuts.end());
  }
  if (!only_cuts) cuts.clear();
  auto shared = std::make_shared<const std::vector<Transform>>(std::move(transforms));
  return {std::move(name),
          [shared](const ObjectPtr& object) -> Result<ObjectPtr> {
            ObjectPtr result = object;
            for (const Transform& transform : *shared) {
              LARDER_ASSIGN_OR_RETURN(result, transform.apply(result));
            }
            return result;
          },
          std::move(cuts)};
}

}  // namespace larder
