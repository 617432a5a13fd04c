// Paths of fields as a tree of names, for what is left out of objects or kept of them
// (transform.h).
//
// Lists are walked through without a step of their own: `spec.containers.env` is the env of every
// container.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace larder {

struct PathTree {
  bool chosen = false;  // a path ends here
  std::map<std::string, PathTree, std::less<>> fields{};

  // Of paths like those of field_path.h, with `[*]` or nothing for every element of a list.
  // kInvalidArgument for one that is none, or that picks one element.
  static Result<PathTree> Of(const std::vector<std::string>& paths);

  const PathTree* Find(std::string_view name) const {
    const auto it = fields.find(name);
    return it == fields.end() ? nullptr : &it->second;
  }
};

// What a tree is for.
enum class PathMode { kKeep, kDrop };

}  // namespace larder
