#include "apiserver/patch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/field_set.h"

namespace larder::apiserver {
namespace {

void StrategicMerge(Json& live, const Json& patch, std::string_view field);

bool Has(const Json& patch, const char* directive) {
  return patch.is_object() && patch.contains("$patch") && patch["$patch"] == directive;
}

// Without the directives, for what is inserted as it is.
Json Plain(const Json& patch) {
  Json out = patch;
  if (!out.is_object()) return out;
  for (auto it = out.begin(); it != out.end();) {
    it = it.key().starts_with("$") || it->is_null() ? out.erase(it) : std::next(it);
  }
  for (auto& [key, value] : out.items()) {
    if (value.is_object()) value = Plain(value);
  }
  return out;
}

void MergeElements(Json& live, const Json& patch, std::string_view field) {
  for (const Json& element : patch) {
    const std::string step = ElementStep(field, element);
    const auto same = std::find_if(live.begin(), live.end(), [&](const Json& candidate) {
      return ElementStep(field, candidate) == step;
    });
    if (Has(element, "delete")) {
      if (same != live.end()) live.erase(same);
    } else if (same == live.end()) {
      live.push_back(Plain(element));
    } else {
      StrategicMerge(*same, element, field);
    }
  }
}

void MergeList(Json& live, const Json& patch, std::string_view field) {
  if (!live.is_array()) live = Json::array();
  Json elements = patch;
  const auto replace = std::find_if(elements.begin(), elements.end(),
                                    [](const Json& element) { return Has(element, "replace"); });
  const bool keyed = !patch.empty() && replace == elements.end() &&
                     std::all_of(patch.begin(), patch.end(), [&](const Json& element) {
                       return !ElementStep(field, element).empty();
                     });
  if (keyed) {
    MergeElements(live, elements, field);
    return;
  }
  if (replace != elements.end()) elements.erase(replace);
  live = std::move(elements);
}

void DeletePrimitives(Json& live, const std::string& directive, const Json& values) {
  const std::string list = directive.substr(directive.find('/') + 1);
  if (!live.contains(list) || !live[list].is_array()) return;
  Json kept = Json::array();
  for (const Json& value : live[list]) {
    if (std::find(values.begin(), values.end(), value) == values.end()) kept.push_back(value);
  }
  live[list] = std::move(kept);
}

void StrategicMerge(Json& live, const Json& patch, std::string_view field) {
  if (!patch.is_object()) {
    live = patch;
    return;
  }
  if (Has(patch, "replace") || !live.is_object()) {
    live = Plain(patch);
    return;
  }
  if (Has(patch, "delete")) {
    live = Json::object();
    return;
  }
  for (const auto& [key, value] : patch.items()) {
    if (key.starts_with("$deleteFromPrimitiveList/")) {
      DeletePrimitives(live, key, value);
    } else if (key.starts_with("$")) {
      continue;
    } else if (value.is_null() || Has(value, "delete")) {
      live.erase(key);
    } else if (value.is_array()) {
      MergeList(live[key], value, key);
    } else {
      StrategicMerge(live[key], value, field);
    }
  }
}

ApiResult<Json> ApplyJsonPatch(const Json& live, const Json& patch) {
  if (!patch.is_array()) {
    return tl::unexpected(BadRequestStatus("error decoding patch: it is not a list of operations"));
  }
  try {
    return live.patch(patch);
  } catch (const Json::exception& failure) {
    ApiStatus status;
    status.code = 422;
    status.reason = "Invalid";
    status.message = fmt::format(
        "the server rejected our request due to an error in our request: {}", failure.what());
    return tl::unexpected(std::move(status));
  }
}

}  // namespace

std::optional<PatchType> PatchTypeOf(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  if (type == "application/json-patch+json") return PatchType::kJson;
  if (type == "application/merge-patch+json") return PatchType::kMerge;
  if (type == "application/strategic-merge-patch+json") return PatchType::kStrategic;
  if (type == "application/apply-patch+yaml") return PatchType::kApply;
  return std::nullopt;
}

ApiResult<Json> ApplyPatch(PatchType type, const Json& live, const Json& patch) {
  if (type == PatchType::kJson) return ApplyJsonPatch(live, patch);
  if (!patch.is_object()) {
    return tl::unexpected(BadRequestStatus("error decoding patch: it is not a JSON object"));
  }
  Json out = live;
  if (type == PatchType::kMerge) {
    out.merge_patch(patch);
  } else {
    StrategicMerge(out, patch, "");
  }
  return out;
}

void MergeInto(Json& live, const Json& patch, std::string_view field, bool merge_lists) {
  if (patch.is_object()) {
    if (!live.is_object()) live = Json::object();
    for (const auto& [key, value] : patch.items()) {
      MergeInto(live[key], value, key, merge_lists || field == "metadata");
    }
    return;
  }
  const bool keyed = merge_lists && patch.is_array() && live.is_array() && !patch.empty() &&
                     std::all_of(patch.begin(), patch.end(), [&](const Json& element) {
                       return !ElementStep(field, element).empty();
                     });
  if (!keyed) {
    live = patch;
    return;
  }
  for (const Json& element : patch) {
    const std::string step = ElementStep(field, element);
    const auto same = std::find_if(live.begin(), live.end(), [&](const Json& candidate) {
      return ElementStep(field, candidate) == step;
    });
    if (same == live.end()) {
      live.push_back(element);
    } else {
      MergeInto(*same, element, field, merge_lists);
    }
  }
}

}  // namespace larder::apiserver
