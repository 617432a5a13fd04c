#include "tests/reflector/mirror_target.h"

namespace larder {

MirrorTarget::Content MirrorTarget::Objects() const {
  std::lock_guard lock(mutex_);
  return objects_;
}

std::string MirrorTarget::Cursor() const {
  std::lock_guard lock(mutex_);
  return position_.resource_version;
}

size_t MirrorTarget::Deletes() const {
  std::lock_guard lock(mutex_);
  return deletes_;
}

bool MirrorTarget::Is(const Content& content) const {
  std::lock_guard lock(mutex_);
  return !position_.list_unfinished && !position_.resource_version.empty() && objects_ == content;
}

bool MirrorTarget::WaitFor(const std::function<bool(const Content&)>& reached,
                           std::chrono::seconds limit) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit,
                           [&] { return !position_.list_unfinished && reached(objects_); });
}

bool MirrorTarget::WaitForCursor(std::chrono::seconds limit) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return !position_.resource_version.empty(); });
}

Result<Target::Position> MirrorTarget::Start() {
  std::lock_guard lock(mutex_);
  return position_;
}

Result<void> MirrorTarget::BeginList(std::string_view) {
  std::lock_guard lock(mutex_);
  seen_.clear();
  position_.list_unfinished = true;
  return {};
}

void MirrorTarget::Put(const Object& object) {
  objects_[object.key().ToString()] = {std::string(object.uid()),
                                       std::string(object.resource_version())};
}

Result<void> MirrorTarget::ListItem(ObjectPtr object) {
  std::lock_guard lock(mutex_);
  Put(*object);
  seen_.insert(object->key().ToString());
  return {};
}

Result<bool> MirrorTarget::ListItemUnchanged(const ObjectKey& key, std::string_view uid,
                                             std::string_view resource_version) {
  std::lock_guard lock(mutex_);
  const auto found = objects_.find(key.ToString());
  if (found == objects_.end() || found->second.first != uid ||
      found->second.second != resource_version) {
    return false;
  }
  seen_.insert(key.ToString());
  return true;
}

Result<void> MirrorTarget::EndList(std::string_view resource_version) {
  std::lock_guard lock(mutex_);
  deletes_ +=
      std::erase_if(objects_, [&](const auto& entry) { return !seen_.contains(entry.first); });
  position_.resource_version = resource_version;
  position_.witness.reset();
  position_.list_unfinished = false;
  changed_.notify_all();
  return {};
}

Result<void> MirrorTarget::Event(EventType type, ObjectPtr object) {
  std::lock_guard lock(mutex_);
  const auto found = objects_.find(object->key().ToString());
  // What a relist fetched may be newer than the events that follow it.
  const bool old =
      found != objects_.end() &&
      CompareResourceVersions(object->resource_version(), found->second.second).value_or(1) < 0;
  if (!old) {
    if (type == EventType::kDeleted) {
      deletes_ += objects_.erase(object->key().ToString());
    } else {
      Put(*object);
    }
  }
  if (CompareResourceVersions(object->resource_version(), position_.resource_version).value_or(1) >
      0) {
    position_.resource_version = object->resource_version();
    position_.witness = {object->key(), position_.resource_version, type == EventType::kDeleted};
  }
  changed_.notify_all();
  return {};
}

Result<void> MirrorTarget::Bookmark(std::string_view resource_version) {
  std::lock_guard lock(mutex_);
  position_.resource_version = resource_version;
  changed_.notify_all();
  return {};
}

}  // namespace larder
