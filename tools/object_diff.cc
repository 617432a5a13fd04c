#include "tools/object_diff.h"

#include <nlohmann/json.hpp>

namespace larder::tools {
namespace {

std::string Below(const std::string& path, const std::string& name) {
  const bool plain = name.find_first_of("./'") == std::string::npos;
  if (!plain) return path + "['" + name + "']";
  return path.empty() ? name : path + "." + name;
}

void Compare(const Json& before, const Json& now, const std::string& path,
             std::vector<FieldChange>& out) {
  if (before == now || path == "metadata.managedFields") return;
  if (before.is_object() && now.is_object()) {
    for (const auto& [name, value] : before.items()) {
      const auto other = now.find(name);
      if (other != now.end()) {
        Compare(value, *other, Below(path, name), out);
      } else if (Below(path, name) != "metadata.managedFields") {
        out.push_back({Below(path, name), value.dump(), ""});
      }
    }
    for (const auto& [name, value] : now.items()) {
      if (!before.contains(name) && Below(path, name) != "metadata.managedFields") {
        out.push_back({Below(path, name), "", value.dump()});
      }
    }
    return;
  }
  if (before.is_array() && now.is_array()) {
    const size_t size = std::max(before.size(), now.size());
    for (size_t i = 0; i < size; ++i) {
      const std::string place = path + "[" + std::to_string(i) + "]";
      if (i >= before.size()) {
        out.push_back({place, "", now[i].dump()});
      } else if (i >= now.size()) {
        out.push_back({place, before[i].dump(), ""});
      } else {
        Compare(before[i], now[i], place, out);
      }
    }
    return;
  }
  out.push_back({path, before.dump(), now.dump()});
}

}  // namespace

std::vector<FieldChange> CompareObjects(const Object& before, const Object& now) {
  std::vector<FieldChange> out;
  Compare(before.ToMutable(), now.ToMutable(), "", out);
  return out;
}

}  // namespace larder::tools
