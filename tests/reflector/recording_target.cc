#include "tests/reflector/recording_target.h"

#include <algorithm>
#include <utility>

namespace larder {

size_t RecordingTarget::Count(std::string_view prefix) const {
  return static_cast<size_t>(
      std::count_if(calls.begin(), calls.end(),
                    [&](const std::string& call) { return call.starts_with(prefix); }));
}

Result<void> RecordingTarget::Note(std::string call) {
  if (on_call) on_call(call);
  if (!fail_at.empty() && call == fail_at) {
    fail_at.clear();
    calls.push_back("failed " + call);
    return MakeError(fail_with, "the disk is full");
  }
  calls.push_back(std::move(call));
  return {};
}

Result<Target::Position> RecordingTarget::Start() {
  LARDER_RETURN_IF_ERROR(Note("Start"));
  return position;
}

Result<void> RecordingTarget::Rewound() {
  LARDER_RETURN_IF_ERROR(Note("Rewound"));
  position.list_unfinished = true;
  position.resource_version.clear();
  return {};
}

Result<void> RecordingTarget::BeginList(std::string_view why) {
  LARDER_RETURN_IF_ERROR(Note("Begin " + std::string(why)));
  seen_.clear();
  position.list_unfinished = true;
  return {};
}

Result<void> RecordingTarget::ListItem(ObjectPtr object) {
  const std::string key = object->key().ToString();
  LARDER_RETURN_IF_ERROR(Note(fmt::format("Item {}@{}", key, object->resource_version())));
  seen_.insert(key);
  objects[key] = {std::string(object->uid()), std::string(object->resource_version())};
  items.push_back(std::move(object));
  return {};
}

Result<bool> RecordingTarget::ListItemUnchanged(const ObjectKey& key, std::string_view uid,
                                                std::string_view resource_version) {
  const auto found = objects.find(key.ToString());
  if (found == objects.end() || found->second.uid != uid ||
      found->second.version != resource_version) {
    return false;
  }
  LARDER_RETURN_IF_ERROR(Note("Same " + key.ToString()));
  seen_.insert(key.ToString());
  return true;
}

Result<bool> RecordingTarget::StoredIsNewer(const ObjectKey& key,
                                            std::string_view resource_version) {
  const auto found = objects.find(key.ToString());
  return found != objects.end() &&
         CompareResourceVersions(found->second.version, resource_version).value_or(0) > 0;
}

Result<bool> RecordingTarget::UnseenIsNewer(std::string_view resource_version) {
  return std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
    return !seen_.contains(entry.first) &&
           CompareResourceVersions(entry.second.version, resource_version).value_or(0) > 0;
  });
}

Result<void> RecordingTarget::EndList(std::string_view resource_version) {
  LARDER_RETURN_IF_ERROR(Note("End " + std::string(resource_version)));
  std::erase_if(objects, [&](const auto& entry) { return !seen_.contains(entry.first); });
  position.list_unfinished = false;
  position.resource_version = resource_version;
  return {};
}

Result<void> RecordingTarget::Event(EventType type, ObjectPtr object) {
  const char* name = type == EventType::kAdded      ? "ADDED"
                     : type == EventType::kModified ? "MODIFIED"
                                                    : "DELETED";
  const std::string key = object->key().ToString();
  LARDER_RETURN_IF_ERROR(Note(fmt::format("{} {}@{}", name, key, object->resource_version())));
  if (type == EventType::kDeleted) {
    objects.erase(key);
  } else {
    objects[key] = {std::string(object->uid()), std::string(object->resource_version())};
  }
  if (CompareResourceVersions(object->resource_version(), position.resource_version).value_or(1) >
      0) {
    position.resource_version = object->resource_version();
  }
  items.push_back(std::move(object));
  return {};
}

Result<void> RecordingTarget::Bookmark(std::string_view resource_version) {
  LARDER_RETURN_IF_ERROR(Note("Bookmark " + std::string(resource_version)));
  position.resource_version = resource_version;
  return {};
}

}  // namespace larder
