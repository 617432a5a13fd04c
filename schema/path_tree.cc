#include "schema/path_tree.h"

#include "schema/field_path.h"

namespace larder {

Result<PathTree> PathTree::Of(const std::vector<std::string>& paths) {
  PathTree root;
  for (const std::string& text : paths) {
    LARDER_ASSIGN_OR_RETURN(const FieldPath path, FieldPath::Parse(text));
    PathTree* node = &root;
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

}  // namespace larder
