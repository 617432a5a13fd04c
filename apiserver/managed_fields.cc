#include "apiserver/managed_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/field_set.h"
#include "apiserver/patch.h"
#include "schema/json_text.h"

namespace larder::apiserver {
namespace {

struct Entry {
  std::string manager;
  std::string operation;
  std::string api_version;
  std::string time;
  std::string subresource;
  FieldSet fields;
};

std::vector<Entry> ReadEntries(const Json& object) {
  std::vector<Entry> out;
  if (!object.contains("metadata")) return out;
  for (const Json& json : object["metadata"].value("managedFields", Json::array())) {
    if (!json.is_object()) continue;
    out.push_back({TextAt(json, "manager"), TextAt(json, "operation"), TextAt(json, "apiVersion"),
                   TextAt(json, "time"), TextAt(json, "subresource"),
                   FieldSetFromJson(json.value("fieldsV1", Json::object()))});
  }
  return out;
}

void WriteEntries(Json& object, const std::vector<Entry>& entries) {
  Json out = Json::array();
  for (const Entry& entry : entries) {
    if (entry.fields.empty()) continue;
    Json json = {{"manager", entry.manager},        {"operation", entry.operation},
                 {"apiVersion", entry.api_version}, {"time", entry.time},
                 {"fieldsType", "FieldsV1"},        {"fieldsV1", FieldSetToJson(entry.fields)}};
    if (!entry.subresource.empty()) json["subresource"] = entry.subresource;
    out.push_back(std::move(json));
  }
  if (out.empty()) {
    object["metadata"].erase("managedFields");
  } else {
    object["metadata"]["managedFields"] = std::move(out);
  }
}

Entry& EntryOf(std::vector<Entry>& entries, const FieldManager& manager, const char* operation) {
  for (Entry& entry : entries) {
    if (entry.manager == manager.name && entry.operation == operation &&
        entry.api_version == manager.api_version && entry.subresource == manager.subresource) {
      return entry;
    }
  }
  entries.push_back(
      {manager.name, operation, manager.api_version, manager.time, manager.subresource, {}});
  return entries.back();
}

bool SameManager(const Entry& entry, const FieldManager& manager) {
  return entry.manager == manager.name && entry.operation == "Apply" &&
         entry.subresource == manager.subresource;
}

ApiStatus ApplyConflict(const std::vector<std::pair<const Entry*, FieldPathSteps>>& conflicts) {
  ApiStatus status;
  status.code = 409;
  status.reason = "Conflict";
  Json causes = Json::array();
  std::string list;
  for (const auto& [entry, path] : conflicts) {
    const std::string who =
        fmt::format("conflict with \"{}\" using {}", entry->manager, entry->api_version);
    causes.push_back(
        {{"reason", "FieldManagerConflict"}, {"message", who}, {"field", ToString(path)}});
    list += (conflicts.size() == 1 ? who + ": " : "\n- ") + ToString(path);
  }
  status.message = fmt::format("Apply failed with {} conflict{}: {}", conflicts.size(),
                               conflicts.size() == 1 ? "" : "s", list);
  status.details = {{"causes", std::move(causes)}};
  return status;
}

}  // namespace

void TrackUpdate(const Json* before, Json& updated, const FieldManager& manager, bool merge_lists) {
  const auto after_leaves = LeavesOf(updated, merge_lists);
  std::map<FieldPathSteps, const Json*> before_leaves;
  if (before) before_leaves = LeavesOf(*before, merge_lists);
  FieldSet changed;
  for (const auto& [path, value] : after_leaves) {
    const auto old = before_leaves.find(path);
    if (old == before_leaves.end() || *old->second != *value) changed.insert(path);
  }
  std::vector<Entry> entries = before ? ReadEntries(*before) : std::vector<Entry>();
  for (Entry& entry : entries) {
    std::erase_if(entry.fields, [&](const FieldPathSteps& path) {
      return changed.contains(path) || !after_leaves.contains(path);
    });
  }
  if (!changed.empty()) {
    Entry& own = EntryOf(entries, manager, "Update");
    own.fields.merge(changed);
    own.time = manager.time;
  }
  WriteEntries(updated, entries);
}

ApiResult<Json> ServerSideApply(const Json* live, const Json& applied, const FieldManager& manager,
                                bool force, bool merge_lists) {
  const auto wanted = LeavesOf(applied, merge_lists);
  Json out = live ? *live : Json::object();
  const auto present = LeavesOf(out, merge_lists);
  std::vector<Entry> entries = ReadEntries(out);

  std::vector<std::pair<const Entry*, FieldPathSteps>> conflicts;
  for (const auto& [path, value] : wanted) {
    const auto current = present.find(path);
    if (current != present.end() && *current->second == *value) continue;
    for (Entry& entry : entries) {
      if (SameManager(entry, manager) || !entry.fields.contains(path)) continue;
      if (force) {
        entry.fields.erase(path);
      } else {
        conflicts.emplace_back(&entry, path);
      }
    }
  }
  if (!conflicts.empty()) return tl::unexpected(ApplyConflict(conflicts));

  FieldSet gone;
  for (Entry& entry : entries) {
    if (!SameManager(entry, manager)) continue;
    for (const FieldPathSteps& path : entry.fields) {
      if (!wanted.contains(path)) gone.insert(path);
    }
    entry.fields.clear();
  }
  std::erase_if(gone, [&](const FieldPathSteps& path) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const Entry& entry) { return entry.fields.contains(path); });
  });
  RemoveLeaves(out, gone);
  Json merge = applied;
  if (merge.contains("metadata")) merge["metadata"].erase("managedFields");
  MergeInto(out, merge, "", merge_lists);

  FieldSet owned;
  for (const auto& [path, value] : wanted) owned.insert(path);
  Entry& own = EntryOf(entries, manager, "Apply");
  own.fields = std::move(owned);
  if (!live || *live != out) own.time = manager.time;
  WriteEntries(out, entries);
  return out;
}

}  // namespace larder::apiserver
