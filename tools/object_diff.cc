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

// One value of two states: whether it differs is left, in kubectl diff's words.
void Hide(Json* before, Json* now) {
  const bool both = before && now, same = both && *before == *now;
  if (before) *before = both && !same ? "*** (before)" : "***";
  if (now) *now = both && !same ? "*** (after)" : "***";
}

Json* Member(Json* object, const std::string& name) {
  const bool has = object && object->is_object() && object->contains(name);
  return has ? &(*object)[name] : nullptr;
}

void HideSecret(Json& before, Json& now) {
  for (const char* part : {"data", "stringData"}) {
    Json *const a = Member(&before, part), *const b = Member(&now, part);
    for (Json* const names : {a, b}) {
      if (!names || !names->is_object()) continue;
      for (const auto& [name, value] : names->items()) {
        // Those that both have are hidden with the first.
        if (names == a || !Member(a, name)) Hide(Member(a, name), Member(b, name));
      }
    }
  }
  const auto applied = [](Json& object) {
    return Member(Member(Member(&object, "metadata"), "annotations"), kLastApplied);
  };
  Hide(applied(before), applied(now));
}

}  // namespace

std::vector<FieldChange> CompareObjects(std::string_view resource, const Object& before,
                                        const Object& now) {
  Json a = before.ToMutable(), b = now.ToMutable();
  if (resource == "secrets") HideSecret(a, b);
  std::vector<FieldChange> out;
  Compare(a, b, "", out);
  return out;
}

}  // namespace larder::tools
