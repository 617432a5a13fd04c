// A model from what a store holds: sizes by resource, and rates from the objects' own timestamps.
#include <algorithm>

#include "storage/maintenance.h"
#include "tuning/churn.h"
#include "tuning/model.h"

namespace larder::tuning {

Result<WorkloadModel> ModelOf(const Store& store) {
  LARDER_ASSIGN_OR_RETURN(const StoreStats stats, GetStats(store));
  WorkloadModel model;
  model.name = "model";
  model.description = "from the statistics of a store";
  LARDER_ASSIGN_OR_RETURN(const auto churn, EstimateChurn(store, stats.collections));
  for (const CollectionStats& entry : stats.collections) {
    if (entry.objects == 0) continue;
    const Resource& resource = entry.info.spec.resource;
    // The copies of a replay have no key, so what needs one cannot be replayed.
    const auto& encrypted = store.options().encrypted_resources;
    if (entry.info.encrypted ||
        std::find(encrypted.begin(), encrypted.end(), resource.ToString()) != encrypted.end()) {
      continue;
    }
    ResourceModel of;
    of.resource =
        LookupResource(resource.ToString())
            ? resource.ToString()
            : fmt::format("{}.{}.{}", resource.resource, resource.version, resource.group);
    const bool twice =
        std::any_of(model.resources.begin(), model.resources.end(),
                    [&](const auto& other) { return other.resource == of.resource; });
    // Several collections of a resource (by namespace) are alike; the first stands for all.
    if (twice) continue;
    of.objects = entry.objects;
    of.json_bytes = std::clamp<uint64_t>(entry.json_bytes / entry.objects, 300, uint64_t{1} << 20);
    of.indexes = static_cast<unsigned>(std::min<size_t>(entry.indexes.size(), 8));
    const auto rates = churn.find(entry.info.id);
    // Encrypted by an owner who chose so, and nobody gave the key.
    if (rates == churn.end()) continue;
    of.updates = rates->second.updates;
    of.creates = rates->second.creates;
    of.deletes = rates->second.deletes;
    model.resources.push_back(std::move(of));
  }
  if (model.resources.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the store {} holds no objects to make a model of", store.options().path);
  }
  uint64_t objects = 0;
  double changes = 0;
  for (const ResourceModel& of : model.resources) {
    objects += of.objects;
    changes += of.updates + of.creates;
  }
  // Where no object says when it was written, it is as if each were once a day.
  constexpr double kDay = 86'400;
  for (ResourceModel& of : model.resources) {
    if (changes == 0) of.updates = static_cast<double>(of.objects) / kDay;
  }
  // Long enough for compactions to show.
  model.events = std::clamp<uint64_t>(objects * 3, 20'000, 500'000);
  LARDER_RETURN_IF_ERROR(Check(model));
  return model;
}

}  // namespace larder::tuning
