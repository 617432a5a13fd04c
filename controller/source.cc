#include "controller/source.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>

namespace larder {

MapFunction Itself() {
  return [](const Object& object) { return std::vector<ObjectKey>{object.key()}; };
}

MapFunction OwnerOf(std::string kind, const std::string& api_version, bool controller_only,
                    bool owner_has_namespace) {
  // The version of an owner's group may differ from the one that is watched; the group may not.
  const std::string group = api_version.substr(0, api_version.find('/') + 1);
  return [=, kind = std::move(kind)](const Object& object) {
    std::vector<ObjectKey> keys;
    for (const OwnerReference& owner : object.Owners()) {
      if (owner.kind != kind || (controller_only && !owner.controller)) continue;
      const std::string owner_group = owner.api_version.substr(0, owner.api_version.find('/') + 1);
      if (!api_version.empty() && owner_group != group) continue;
      keys.push_back({owner_has_namespace ? std::string(object.ns()) : std::string(), owner.name});
    }
    return keys;
  };
}

namespace internal {
namespace {

// A predicate that throws lets the change pass: a needless reconcile is harmless.
bool Passes(const std::string& controller, const std::vector<Predicate>& predicates,
            const ObjectChange& change) {
  for (const Predicate& predicate : predicates) {
    try {
      if (!predicate(change)) return false;
    } catch (const std::exception& error) {
      spdlog::error("a predicate threw: {} controller={} key={}", error.what(), controller,
                    change.current()->key().ToString());
    } catch (...) {
      spdlog::error("a predicate threw controller={} key={}", controller,
                    change.current()->key().ToString());
    }
  }
  return true;
}

void MapInto(const std::string& controller, const MapFunction& map, const Object& object,
             std::vector<std::string>& keys) {
  try {
    for (const ObjectKey& key : map(object)) {
      std::string text = key.ToString();
      if (text.size() <= WorkQueue::kMaxItemBytes) {
        keys.push_back(std::move(text));
        continue;
      }
      spdlog::error("the mapping function made a key of {} bytes, not queued controller={} key={}",
                    text.size(), controller, object.key().ToString());
    }
  } catch (const std::exception& error) {
    spdlog::error("the mapping function threw, its keys are not queued: {} controller={} key={}",
                  error.what(), controller, object.key().ToString());
  } catch (...) {
    spdlog::error("the mapping function threw, its keys are not queued controller={} key={}",
                  controller, object.key().ToString());
  }
}

}  // namespace

EnqueueFunction MakeEnqueueFunction(std::string controller, MapFunction map,
                                    std::vector<Predicate> predicates, int32_t priority) {
  return [=, controller = std::move(controller), map = std::move(map),
          predicates = std::move(predicates)](const ObjectChange& change, const Enqueue& enqueue) {
    if (!Passes(controller, predicates, change)) return;
    std::vector<std::string> keys;
    if (change.stored) MapInto(controller, map, *change.stored, keys);
    if (change.old) MapInto(controller, map, *change.old, keys);
    if (change.object) MapInto(controller, map, *change.object, keys);
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    for (const std::string& key : keys) enqueue(key, priority);
  };
}

}  // namespace internal
}  // namespace larder
