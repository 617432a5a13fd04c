#include "tests/crash/evidence.h"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "schema/delta_generated.h"
#include "storage/maintenance.h"
#include "storage/notes.h"
#include "tests/crash/journal.h"
#include "tests/crash/subject.h"

namespace larder::crash {

ServerHistory ReadHistory(const apiserver::Simulator& simulator) {
  ServerHistory history;
  for (const apiserver::HistoryEntry& entry : simulator.History()) {
    if (entry.resource != "pods") continue;
    history[entry.ns + "/" + entry.name].push_back(
        {entry.version, entry.type == apiserver::EventType::kDeleted, entry.uid, entry.hash});
  }
  return history;
}

const Change* At(const Changes& changes, uint64_t version) {
  const Change* last = LastUpTo(changes, version);
  return last != nullptr && last->version == version ? last : nullptr;
}

const Change* LastUpTo(const Changes& changes, uint64_t version) {
  const auto behind = std::upper_bound(
      changes.begin(), changes.end(), version,
      [](uint64_t wanted, const Change& change) { return wanted < change.version; });
  return behind == changes.begin() ? nullptr : &*std::prev(behind);
}

Result<std::optional<Found>> ReadFound(Store& store, std::string_view cluster) {
  LARDER_ASSIGN_OR_RETURN(const std::vector<CollectionInfo> collections, store.Collections());
  const auto collection =
      std::find_if(collections.begin(), collections.end(), [&](const CollectionInfo& info) {
        return info.spec.resource.resource == "pods" && info.spec.cluster_uid == cluster;
      });
  if (collection == collections.end()) return std::nullopt;
  const CollectionId id = collection->id;
  Found found;
  found.cluster = cluster;
  found.state = collection->cursor.state;
  if (collection->cursor.Complete()) {
    found.cursor = std::stoull(collection->cursor.resource_version);
  }
  LARDER_RETURN_IF_ERROR(store.Scan(id, {}, {}, [&](const ObjectPtr& object) {
    found.objects[object->key().ToString()] = {std::stoull(std::string(object->resource_version())),
                                               std::string(object->uid()), HashOf(object->json())};
    return true;
  }));
  LARDER_ASSIGN_OR_RETURN(const StoreStats stats, GetStats(store));
  for (const DictionaryStats& dictionary : stats.dictionaries) {
    found.by_dictionary += dictionary.values;
  }
  if (collection->encrypted) found.encrypted = found.objects.size();
  LARDER_ASSIGN_OR_RETURN(const auto note, store.GetNote(DurableNamesNote(id)));
  if (note) {
    const auto names = nlohmann::json::parse(*note);
    found.handler_known = names.contains(kHandlerName);
    found.enqueuer_known = names.contains(std::string("~enqueuer/") + kQueueName);
  }
  const auto scan = [&](const std::string& name, std::set<std::string>& keys,
                        std::set<std::string>* unheard) {
    return store.ScanDeltas(id, name, {}, [&](const ObjectKey& key, std::string_view row) {
      keys.insert(key.ToString());
      if (unheard && fbs::GetPendingDelta(row.data())->unheard()) unheard->insert(key.ToString());
      return true;
    });
  };
  LARDER_RETURN_IF_ERROR(scan(kHandlerName, found.rows, &found.unheard));
  LARDER_RETURN_IF_ERROR(scan(std::string("~enqueuer/") + kQueueName, found.items, nullptr));
  LARDER_RETURN_IF_ERROR(store.ScanQueue(kQueueName, {}, [&](const StoredQueueItem& item) {
    found.items.insert(item.item);
    return true;
  }));
  return found;
}

}  // namespace larder::crash
